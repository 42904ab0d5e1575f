"""The operations of layer db and the waits inside them, by the probe's numbers, and its structs."""

from ioh.bpf.layout import Layout

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
# None includes another.
WAITS = (*SESSION_OPS[2:], "lwlock_wait", "standby_wait", "cpu", "cpu_wait")

OPEN_KEY = Layout("open_key", tid="u32", op="u32")
_WAIT = Layout("wait", count=f"u64[{len(WAITS)}]", ns=f"s64[{len(WAITS)}]")
# An operation in progress, and its waits so far.  cpu_ns and delay_ns are the thread's time on a
# CPU and in the run queue at the start; exec_ns is the former as /proc has it.
OPEN_OP = Layout(
    "open_op",
    _WAIT,
    start_ns="u64",
    cpu_ns="u64",
    exec_ns="u64",
    delay_ns="u64",
    bytes="u64",
    server="u32",
    way="u32",
    depth="u32",  # nested calls of the same way
    tid="u32",  # the thread that began it
    is_wait="u32",  # of the site that began it
    unused="u32",
    waited="wait",
)
WAIT_KEY = Layout("wait_key", server="u32", outer="u32")
SESSION_KEY = Layout("session_key", server="u32", tid="u32")
SESSION = Layout("session", count=f"u64[{len(SESSION_OPS)}]", ns=f"u64[{len(SESSION_OPS)}]")
