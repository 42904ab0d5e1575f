"""Rules over Snapshots: what is wrong, in words, with the evidence."""
