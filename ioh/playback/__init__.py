"""Samples of recordings: paced, by jumps, and followed while they grow."""
