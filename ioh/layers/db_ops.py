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

OPEN_KEY = Layout("open_key", "u32 tid, op;")
_WAIT = Layout("wait", f"u64 count[{len(WAITS)}]; s64 ns[{len(WAITS)}];")
OPEN_OP = Layout(
    "open_op",
    """
    /* The thread's time on a CPU, the same as /proc has it, and in the run queue, at the start. */
    u64 start_ns, cpu_ns, exec_ns, delay_ns;
    u64 bytes;
    u32 server, way;
    u32 depth; /* nested calls of the same way */
    u32 tid; /* the thread that began it */
    u32 is_wait; /* of the site that began it */
    u32 unused;
    struct wait waited; /* so far */
    """,
    _WAIT,
)
WAIT_KEY = Layout("wait_key", "u32 server, outer;")
SESSION_KEY = Layout("session_key", "u32 server, tid;")
SESSION = Layout("session", f"u64 count[{len(SESSION_OPS)}], ns[{len(SESSION_OPS)}];")
