"""Recordings of format 1, as far as `ioh verify --repair` needs to convert them.

Frozen: nothing else uses it but check.py, and it goes with the release after the first that
writes format 2.  What format 1 was is in the README of ioh 0.1.
"""
