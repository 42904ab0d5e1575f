"""Counts to compare with: /proc/diskstats, ftrace, and BPF programs of a few lines."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ioh.bpf.btf import Btf

PROBES = Path(__file__).parents[2] / "probes"
SECTOR_BYTES = 512
EVENT = "block/block_rq_complete"
BUFFER_KIB = 64  # events that do not fit are counted all the same
PROGRAM = """
BPF_HASH(runs, u32, u64, 256);
static inline void *at(void *base, int offset)
{
	void *found = NULL;

	bpf_probe_read_kernel(&found, sizeof(found), base + offset);
	return found;
}
int on_complete(struct bpf_raw_tracepoint_args *ctx)
{
	u32 number[2] = {}, dev;
	u64 one = 1, *count;

	bpf_probe_read_kernel(&number, sizeof(number), DISK + MAJOR);
	dev = number[0] << 20 | number[1];
	count = runs.lookup(&dev);
	if (count)
		lock_xadd(count, 1);
	return 0;
}
"""


@dataclass(frozen=True)
class DiskStats:
    """One device's line of /proc/diskstats, or the difference of two; ``hidden``: see Witness."""

    reads: int
    read_merges: int
    read_bytes: int
    writes: int
    write_merges: int
    write_bytes: int
    busy_ms: int
    weighted_ms: int
    discards: int
    discard_bytes: int
    flushes: int
    hidden: int

    def __sub__(self, older: DiskStats) -> DiskStats:
        names = self.__dataclass_fields__
        return DiskStats(*(getattr(self, name) - getattr(older, name) for name in names))


def diskstats(name: str, hidden: int) -> DiskStats:
    for line in Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        if words[2] == name:
            n = [int(word) for word in words[3:]]
            return DiskStats(
                n[0], n[1], n[2] * SECTOR_BYTES, n[4], n[5], n[6] * SECTOR_BYTES,
                n[9], n[10], n[11], n[13] * SECTOR_BYTES, n[15], hidden,
            )  # fmt: skip
    msg = f"{name} is not in /proc/diskstats"
    raise AssertionError(msg)


@cache
def program() -> Any:
    """Count completions by device, as long as this process lives."""
    os.environ["BCC_KERNEL_SOURCE"] = str(PROBES)
    import bcc

    btf = Btf()
    if btf.offset("request", "rq_disk") is not None:  # until Linux 5.17
        disk = f"at((void *)ctx->args[0], {btf.offset('request', 'rq_disk')})"
    else:
        queue = f"at((void *)ctx->args[0], {btf.offset('request', 'q')})"
        disk = f"at({queue}, {btf.offset('request_queue', 'disk')})"
    text = PROGRAM.replace("DISK", disk).replace("MAJOR", str(btf.offset("gendisk", "major")))
    made = bcc.BPF(text=text.encode())
    made.attach_raw_tracepoint(tp=b"block_rq_complete", fn_name=b"on_complete")
    return made


class Fired:
    """How often ftrace has seen a kernel event; exact while none happens."""

    def __init__(self, event: str, which: str) -> None:
        self._mount = Path(tempfile.mkdtemp(prefix="ioh-tracefs-"))
        subprocess.run(["mount", "-t", "tracefs", "tracefs", self._mount], check=True)
        self._instance = Path(tempfile.mkdtemp(prefix="ioh-", dir=self._mount / "instances"))
        (self._instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
        self._event = self._instance / "events" / event
        (self._event / "filter").write_text(which)
        (self._event / "enable").write_text("1")

    @property
    def count(self) -> int:
        fired = 0
        for stats in (self._instance / "per_cpu").glob("cpu*/stats"):
            numbers = dict(line.split(": ", 1) for line in stats.read_text().splitlines())
            assert (numbers["dropped events"], numbers["commit overrun"]) == ("0", "0")
            fired += int(numbers["entries"]) + int(numbers["overrun"])
        return fired

    def close(self) -> None:
        with contextlib.suppress(OSError):
            (self._event / "enable").write_text("0")
        self._instance.rmdir()
        subprocess.run(["umount", self._mount], check=True)
        self._mount.rmdir()


class Witness:
    """Completions of one device for which the kernel ran no BPF program.

    Some kernels skip programs while certain tasks are interrupted, without counting a miss: a
    sandbox's 6.18 did so for every completion that interrupted a thread of the sandbox's own
    agent, and for no other.  ftrace sees those, too.
    """

    def __init__(self, dev: int) -> None:
        self._dev = ctypes.c_uint32(dev)
        program()[b"runs"][self._dev] = ctypes.c_uint64(0)
        self._fired = Fired(EVENT, f"dev == {dev}")

    @property
    def hidden(self) -> int:
        """How many since the witness was made; exact while the device is idle."""
        ran: int = program()[b"runs"][self._dev].value
        return self._fired.count - ran

    def close(self) -> None:
        self._fired.close()
        del program()[b"runs"][self._dev]


ENDS = b"""
BPF_ARRAY(ends, u64, 1);
int on_state(struct bpf_raw_tracepoint_args *ctx)
{
	int zero = 0;
	u64 *count = ends.lookup(&zero);

	if (count && (int)ctx->args[2] == 7)
		lock_xadd(count, 1);
	return 0;
}
"""
RUNS = 8
Result = TypeVar("Result")


def nothing_hidden(run: Callable[[], Result]) -> Result:
    """Repeat a run until BPF saw each connection end, at most 8 times; return the last result.

    The number of ends that BPF did not see is printed for each run: some machines always hide some.
    """
    os.environ["BCC_KERNEL_SOURCE"] = str(PROBES)
    import bcc

    made = bcc.BPF(text=ENDS)
    made.attach_raw_tracepoint(tp=b"inet_sock_set_state", fn_name=b"on_state")
    try:
        for _ in range(RUNS):
            fired = Fired("sock/inet_sock_set_state", "newstate == 7")
            before = made[b"ends"][0].value
            try:
                result = run()
                hidden = fired.count - (made[b"ends"][0].value - before)
            finally:
                fired.close()
            print(f"ends of connections hidden from BPF: {hidden}")
            if not hidden:
                break
        return result
    finally:
        made.cleanup()
