"""The operations of layer db, and the waits inside them, in the order of the probe's numbers."""

# The ops in a session's row, in the order of the probe's indices.
SESSION_OPS = (
    "statement",
    "commit",
    "log_sync",
    "log_write",
    "data_read",
    "data_write",
    "lock_wait",
)
OPS = (
    *SESSION_OPS,
    "lwlock_wait",
    "standby_wait",
    "sort",
    "temp_read",
    "temp_write",
    "checkpoint",
    "log_full",
)
OUTERS = SESSION_OPS[:3]  # the operations whose waits are counted
# In the order of struct wait of probes/db.c; none includes another.
WAITS = (*SESSION_OPS[2:], "lwlock_wait", "standby_wait", "cpu", "cpu_wait")
