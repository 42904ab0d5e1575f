"""Recordings in the making: one file after another, and marks from other processes."""
