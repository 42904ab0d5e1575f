"""The past of each machine that the screen shows: a file, or what a live view has seen."""
