"""Compares what ioh counted of a fio run with fio's own JSON and with /proc/diskstats."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ioh.bpf.host import are_probes_preempted
from tests.kernel.part import remarks
from tests.kernel.rig import MIB, Ioh, Volume, fio

NO_URING = "this kernel does not provide io_uring."

Jobs = list[Mapping[str, Any]]


@dataclass(frozen=True)
class Load:
    """A fio run; ``mib`` is for each of its jobs."""

    engine: str
    direct: int
    pattern: str
    bs: str
    jobs: int
    depth: int
    mib: int

    def __str__(self) -> str:
        kind = "direct" if self.direct else "buffered"
        return f"{self.engine}-{kind}-{self.pattern}-{self.bs}x{self.jobs}"

    @property
    def options(self) -> dict[str, object]:
        return {
            "ioengine": self.engine,
            "direct": self.direct,
            "rw": self.pattern,
            "bs": self.bs,
            "numjobs": self.jobs,
            "iodepth": self.depth,
            "size": self.mib * MIB,
            "overwrite": 1,
            "fallocate": "none",
        }

    def lay_out(self, volume: Volume) -> None:
        """Write fio's files, which is not measured, and leave nothing cached."""
        fio(volume.mount, **{**self.options, "create_only": 1})
        volume.drop_caches()

    def run(self, volume: Volume) -> Callable[[Ioh], None]:
        """Run fio; the function returned compares, once ioh has printed all of it."""
        before = volume.loop.stats()
        done = fio(volume.mount, **self.options)
        volume.sync()
        disk = volume.loop.stats() - before

        def compare(ioh: Ioh) -> None:
            if self.engine == "io_uring" and NO_URING in remarks(ioh):
                # Before Linux 6.0 io_uring's completions do not name their request.
                assert [int(n) for n in platform.release().split(".")[:2]] < [6, 0]
                assert counted(ioh) == {"read": (0, 0), "write": (0, 0)}
            else:
                self._compare_calls(ioh, directions(done))
            ioh.assert_block_agrees(disk)
            assert ioh.metric("block", "read_merges") == disk.read_merges
            assert ioh.metric("block", "write_merges") == disk.write_merges

        return compare

    def _compare_calls(self, ioh: Ioh, done: Mapping[str, tuple[int, int]]) -> None:
        kind = "direct" if self.direct else "buffered"
        leaves = {f"{d}_{kind}": count for d, (count, _) in done.items() if count}
        seen = {k: v for k, v in ioh.counts("syscall").items() if k != "fsync"}
        lost = ioh.lost("syscall")
        if are_probes_preempted() and lost:
            # A skipped program may have missed as many requests as one call carries; a request
            # whose completion was missed is also reported when its address is used again.
            told = lost.pop("recursion") * self.depth
            told += lost.pop("aio_unseen", 0) + lost.pop("uring_unseen", 0)
            print(f"{self}: {leaves} done, {seen} seen, {told} told to be lost")
            assert seen.keys() <= leaves.keys()
            assert all(count - told <= seen.get(op, 0) <= count for op, count in leaves.items())
        else:
            assert counted(ioh) == done
            assert seen == leaves
            # If an interrupt ends a request while the program runs at another one's end, the kernel
            # skips the program: ioh reports that, and no call is counted there.
            lost.pop("recursion", None)
        assert lost == {}


def directions(jobs: Jobs) -> dict[str, tuple[int, int]]:
    """fio's own operations and bytes, by direction."""
    return {
        d: (sum(j[d]["total_ios"] for j in jobs), sum(j[d]["io_bytes"] for j in jobs))
        for d in ("read", "write")
    }


def counted(ioh: Ioh) -> dict[str, tuple[int, int]]:
    """Operations and bytes by direction, as the syscall layer counted them."""
    return {
        d: (ioh.total("syscall", d), ioh.total("syscall", d, "bytes")) for d in ("read", "write")
    }
