"""The structs of calls and requests in flight in ``probes/syscall.c``."""

from __future__ import annotations

from ioh.bpf.layout import Layout
from ioh.layers.flows import FLOW_KEY

_TARGET = Layout(
    "target",  # the file of an operation; on btrfs, ino includes the subvolume
    """
    u64 file, ino;
    u32 dev;
    u16 op;
    u16 is_opaque; /* a read whose operations below are invisible */
    u32 name; /* hash of its name in its folder; if it differs, so does the file or its name */
    u32 is_at_end; /* a read beginning at or after the end; if opaque, the thread's sleeps */
    """,
)
# Submissions to the block layer in one direction while a call was open.
_LOWER = Layout("lower", "u32 bios, requests; u64 bytes;")
# Where a call's last direct read begins, and its size.
_PLACE = Layout("place", "u64 file, ino, page, bytes;")
CALL = Layout(
    "call",
    """
    u32 tid, crowd;
    u64 start_ns;
    struct target target;
    u32 tgid;
    u32 linked; /* another request waits for io_uring's last one */
    struct lower lower[2]; /* reads, writes */
    u32 batch[2]; /* asynchronous reads and writes submitted and not yet settled */
    u16 direct; /* of these reads, those of O_DIRECT */
    u16 at_end; /* other reads that begin at or after the end of their file */
    u32 splits;
    u32 largest; /* most bytes, in whole pages, of a libaio read */
    u32 unused;
    u64 read_account; /* the kernel's account of the thread when the call began */
    u64 request; /* io_uring's watched request, or libaio's context */
    u64 cpu_wait_ns; /* the thread's, when the call began */
    struct place place;
    """,
    *(_TARGET, _LOWER, _PLACE),
)
ASYNC_KEY = Layout("async_key", "u64 request, tgid;")
ASYNC = Layout(
    "async",
    """
    u64 start_ns;
    struct target target;
    u32 tgid;
    u32 rw_flags; /* and WATCHED, if it counts in read_calls */
    u64 context; /* libaio's, from io_setup */
    """,
    _TARGET,
)
FAULT = Layout("fault", "u64 start_ns, bytes; struct flow_key key;", FLOW_KEY)
