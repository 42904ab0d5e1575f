"""One module a rule, each with a ``RULE``; adding one edits nothing else."""
