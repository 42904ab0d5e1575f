"""Kernel modules: used while there is something to measure, and let go of then.

No other test may have an NFS mount meanwhile: run by itself, before them.
"""

from __future__ import annotations

from pathlib import Path

from tests.kernel.rig import Ioh, run
from tests.vm.nfs import Server, mounted, wait_for_source


def holders(module: str) -> int:
    return int(Path(f"/sys/module/{module}/refcnt").read_text())


def test_the_module_can_be_unloaded_once_the_last_mount_has_gone(server: Server) -> None:
    """By an ioh that started before the first mount, and goes on after the last."""
    ioh = Ioh("--layers", "nfs_client", cycle_s=0.5)
    try:
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
    finally:
        ioh.end()


def test_the_server_module_can_be_unloaded_once_nfsd_has_stopped(server: Server) -> None:
    ioh = Ioh("--layers", "nfs_server", cycle_s=0.5)
    try:
        wait_for_source(ioh, "bpf", "nfs_server")
        running = holders("nfsd")
        server.stop()
        wait_for_source(ioh, None, "nfs_server")
        assert holders("nfsd") <= running - 6  # our probes on tracepoints of that module
    finally:
        ioh.end()
        server.start()
