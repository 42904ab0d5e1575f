"""Recordings of format 1, as far as `ioh verify --repair` needs to convert them.

Frozen: nothing else uses it but check.py, and it goes with the release after the first that
writes format 2.  It reads files that are whole, or cut off at their end; behind damage, nothing.
"""
