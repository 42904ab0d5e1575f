"""The structs of calls and requests in flight in ``probes/syscall.c``."""

from __future__ import annotations

from ioh.bpf.layout import Layout
from ioh.layers.flows import FLOW_KEY

# The file of an operation; on btrfs, ino includes the subvolume.
_TARGET = Layout(
    "target",
    file="u64",
    ino="u64",
    dev="u32",
    op="u16",
    is_opaque="u16",  # a read whose operations below are invisible
    name="u32",  # hash of its name in its folder; if it differs, so does the file or its name
    is_at_end="u32",  # a read beginning at or after the end; if opaque, the thread's sleeps
)
# Submissions to the block layer in one direction while a call was open.
_LOWER = Layout("lower", bios="u32", requests="u32", bytes="u64")
# Where a call's last direct read begins, and its size.
_PLACE = Layout("place", file="u64", ino="u64", page="u64", bytes="u64")
CALL = Layout(
    "call",
    _TARGET,
    _LOWER,
    _PLACE,
    tid="u32",
    crowd="u32",
    start_ns="u64",
    target="target",
    tgid="u32",
    linked="u32",  # another request waits for io_uring's last one
    lower="lower[2]",  # reads, writes
    batch="u32[2]",  # asynchronous reads and writes submitted and not yet settled
    direct="u16",  # of these reads, those of O_DIRECT
    at_end="u16",  # other reads that begin at or after the end of their file
    splits="u32",
    largest="u32",  # most bytes, in whole pages, of a libaio read
    unused="u32",
    read_account="u64",  # the kernel's account of the thread when the call began
    request="u64",  # io_uring's watched request, or libaio's context
    cpu_wait_ns="u64",  # the thread's, when the call began
    place="place",
)
ASYNC_KEY = Layout("async_key", request="u64", tgid="u64")
ASYNC = Layout(
    "async",
    _TARGET,
    start_ns="u64",
    target="target",
    tgid="u32",
    rw_flags="u32",  # and WATCHED, if it counts in read_calls
    context="u64",  # libaio's, from io_setup
)
FAULT = Layout("fault", FLOW_KEY, start_ns="u64", bytes="u64", key="flow_key")
