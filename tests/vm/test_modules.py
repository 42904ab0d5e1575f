"""Kernel modules: in use while there is something to measure, and released afterwards.

Also the requests of calls on NFS files.  No other test may have an NFS mount meanwhile, so these
run by themselves, before the others.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.kernel.direct import read_directly, write_directly
from tests.kernel.part import Part, part_of
from tests.kernel.rig import MIB, Ioh, about, opened, run
from tests.kernel.talker import wait_until
from tests.vm.nfs import ATTACHED_S, Server, mounted, wait_for_source


def holders(module: str) -> int:
    return int(Path(f"/sys/module/{module}/refcnt").read_text())


def test_the_module_can_be_unloaded_once_the_last_mount_has_gone(server: Server) -> None:
    """ioh starts before the first mount, and goes on after the last."""
    with Ioh("--layers", "nfs_client", cycle_s=0.5) as ioh:
        ioh.wait_for_lines(1)
        assert ioh.intervals[0]["unavailable"]["nfs_client"]["reason"].startswith("no NFS")
        with mounted("3", client=1) as place:
            wait_for_source(ioh, "bpf", "nfs_client")
            assert holders("nfs") > 6  # our six probes
            (place / "late").write_bytes(b"x")
            ioh.settle()
        wait_for_source(ioh, None, "nfs_client")
        assert ioh.total("nfs_client", "write") == 1
        # The module itself, its versions and whatever else is stacked upon it.
        run("modprobe", "-r", "nfsv3", "nfsv4", "nfs")
        assert not Path("/sys/module/nfs").exists()


def test_the_server_module_can_be_unloaded_once_nfsd_has_stopped(server: Server) -> None:
    try:
        with Ioh("--layers", "nfs_server", cycle_s=0.5) as ioh:
            wait_for_source(ioh, "bpf", "nfs_server")
            running = holders("nfsd")
            server.stop()
            wait_for_source(ioh, None, "nfs_server")
            assert holders("nfsd") <= running - 6  # our probes on tracepoints of that module
    finally:
        server.start()


RSIZE = 128 << 10
CALLS = 8


def read_through(path: Path) -> None:
    with opened(path, os.O_RDONLY) as fd:
        for _ in range(CALLS):
            assert len(os.read(fd, MIB)) == MIB


def wait_until_followed(ioh: Ioh, path: Path) -> None:
    """Wait for the probes that follow calls to the server: attached after the first mount."""

    def is_followed() -> int:
        with part_of(ioh) as part:
            read_directly(path, CALLS, MIB)
        # Not read_lower_ops: a direct read counts as one even where nothing can be charged.
        return part.metric("syscall", "read_lower_bytes")

    why = lambda: ioh.intervals[-1]["layers"]["syscall"]["notes"]  # noqa: E731
    wait_until(is_followed, ATTACHED_S, why=why)


def charged(part: Part) -> dict[str, int]:
    names = "read_calls read_calls_cached read_lower_ops read_lower_bytes"
    names += " write_lower_ops write_lower_bytes"
    return {name: part.metric("syscall", name) for name in names.split()}


def test_each_call_is_charged_with_its_requests(server: Server) -> None:
    """ioh starts before the first mount; afterwards the module can be unloaded."""
    with Ioh("--layers", "syscall", "--pid", str(os.getpid()), cycle_s=0.5) as ioh:
        wait_for_source(ioh, "bpf", "syscall")
        with mounted("4.2", f"rsize={RSIZE}", f"wsize={RSIZE}") as place:
            path = place / "calls"
            path.write_bytes(os.urandom(CALLS * MIB))
            wait_until_followed(ioh, path)
            server.drop_caches()
            with part_of(ioh) as direct:
                read_directly(path, CALLS, MIB)
            with part_of(ioh) as first:
                read_through(path)
            with part_of(ioh) as again:
                read_through(path)
            with part_of(ioh) as written:
                write_directly(path, 1, MIB)
        uses = Path("/sys/module/nfs/refcnt")
        wait_until(lambda: int(uses.read_text()) <= 2, ATTACHED_S)  # nfsv4's and nfsv3's
        run("modprobe", "-r", "nfsv3", "nfsv4", "nfs")
    told = charged(direct)
    assert (told["read_calls"], told["read_calls_cached"]) == (CALLS, 0)
    assert told["read_lower_ops"] == CALLS * MIB // RSIZE
    assert told["read_lower_bytes"] == about(CALLS * MIB)
    told = charged(first)
    assert told["read_calls"] == CALLS
    assert told["read_lower_bytes"] == about(CALLS * MIB)
    told = charged(again)
    assert (told["read_calls"], told["read_calls_cached"]) == (CALLS, CALLS)
    assert told["read_lower_ops"] == 0
    told = charged(written)
    assert told["write_lower_ops"] == MIB // RSIZE
    assert told["write_lower_bytes"] == about(MIB)
