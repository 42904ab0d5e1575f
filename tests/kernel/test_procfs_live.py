"""/proc, sysfs and netlink on the running kernel: mounts, a loop device's reads, shapers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ioh.layers.block import SPEC
from ioh.model.sample import LayerSample
from ioh.procfs.block_fallback import BlockFallback
from ioh.procfs.blockdev import read_block_device
from ioh.procfs.devices import resolve_device
from ioh.procfs.mountinfo import mount_of_path, read_mounts
from tests.kernel.direct import read_directly
from tests.kernel.mounts import with_own_sys
from tests.kernel.netns import Namespace
from tests.kernel.rig import ROOT, Loop, run

READS, READ_BYTES = 23, 8192


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    folder = tmp_path / "a b"
    folder.mkdir()
    with closing(Loop(folder)) as made:
        yield made


def test_direct_reads_of_a_loop_device_are_counted(loop: Loop) -> None:
    chosen = resolve_device(loop.path)
    device = read_block_device(chosen.dev)
    mount = mount_of_path(str(loop.image), read_mounts())
    assert device is not None
    # In a chroot, no visible mount is that of the file's own file system.
    on = "" if mount is None else " on "
    assert device.stack.startswith(f"file {loop.image}{on}")
    assert device.is_stacked == (mount is None or mount.fstype != "tmpfs")

    fallback = BlockFallback(SPEC, chosen.dev)
    fallback.sample()
    read_directly(loop.path, READS, READ_BYTES)
    time.sleep(0.05)  # per-CPU sums of the last request
    sample = fallback.sample()
    assert isinstance(sample, LayerSample)
    assert sample.ops["read"].count_total == READS
    assert sample.ops["read"].bytes_total == READS * READ_BYTES


def test_mount_table_sees_a_mount_appear_and_go() -> None:
    script = """
import subprocess, sys
from ioh.procfs.mountinfo import MountTable, mount_of_path
table = MountTable()
seen = [table.refresh()]
subprocess.run(["mount", "-t", "tmpfs", "ioh-test", sys.argv[1]], check=True)
seen += [table.refresh(), table.refresh(), mount_of_path(sys.argv[1] + "/x", table.mounts).source]
subprocess.run(["umount", sys.argv[1]], check=True)
seen += [table.refresh(), table.refresh()]
print(seen)
"""
    command = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-c", script, "/sys/kernel")
    told = run(*with_own_sys("true"), *command)
    assert told.strip() == "[False, True, False, 'ioh-test', True, False]"


READ_SHAPERS = (
    "import json; from ioh.procfs.network import read_shapers; print(json.dumps(read_shapers()))"
)


@pytest.mark.parametrize(("asked", "bits_per_s"), [("80mbit", 80e6), ("50gbit", 50e9)])
def test_the_rate_of_a_tbf_is_read(
    pair: tuple[Namespace, Namespace], asked: str, bits_per_s: float
) -> None:
    one, _ = pair
    program = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-c", READ_SHAPERS)
    assert json.loads(one.run(*program)) == {}
    one.run("tc", "qdisc", "add", "dev", "ioh0", "root", "tbf", "rate", asked, "burst", "1m",
            "latency", "50ms")  # fmt: skip
    assert json.loads(one.run(*program)) == {"ioh0": bits_per_s}
