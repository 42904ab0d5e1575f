"""Samples of this machine: one tick over all attached layers."""
