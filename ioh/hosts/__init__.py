"""Samples of other machines, each read through the user's own ssh as a recording's stream."""
