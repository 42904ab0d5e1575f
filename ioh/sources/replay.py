"""Samples of a recording, as fast or as slowly as asked for."""
