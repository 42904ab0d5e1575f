"""The stage for scenarios that need all kernel modules: slow disks, arrays, an NFS server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.rig import MIB, run
from tests.kernel.talker import wait_until
from tests.scenarios.stage import Limit, Stage, fill
from tests.vm.disks import EXPORTED, Disks
from tests.vm.nfs import EXPORT, Server, unmount
from tests.vm.recorder import Recorder

SERVED = EXPORT / "slow"
FILE = "f"
FILE_BYTES = 48 * MIB
_LEAD_S = 6
_SETTLED_S = 2.5  # of rest, before the load


class VmStage(Stage):
    """A stage on which one ioh records all scenarios, one after another."""

    def __init__(self, folder: Path, recorder: Recorder) -> None:
        super().__init__(folder, folder / "unused")
        self._recording = recorder
        self._begin_s = 0.0
        self._mark_s: float | None = None
        self._started: Path | None = None
        self.disks = Disks()
        self.server = Server()
        export_slow_disk(self.disks)

    def __enter__(self) -> VmStage:  # noqa: PYI034
        return self

    def record(self, *options: str, prefix: tuple[str, ...] = ()) -> None:
        """Begin the scenario's part of the recording: the scenario is set up."""
        assert not options
        assert not prefix
        self._begin_s = time.time()
        time.sleep(_SETTLED_S)

    def fio(self, *options: str, limit: Limit | None = None) -> None:
        """Run fio without an end; it lets begins() know when its first job starts."""
        self._started = self.folder / "started"
        super().fio(*options, f"--exec_prerun=touch {self._started}", limit=limit)

    def begins(self) -> None:
        """Mark the beginning: now, or once fio has started, which takes seconds under emulation."""
        wait_until(lambda: self._started is None or self._started.exists(), why=lambda: "no fio")
        self._mark_s = time.time()

    def end_recording(self) -> None:
        """Nothing to end: see keep()."""

    def keep(self, output: Path) -> None:
        """Write what was recorded of this scenario, once its last interval is in."""
        end_s = time.time()
        time.sleep(_SETTLED_S)
        # fio takes up to 20 s to start, most of which shows nothing.
        begin_s = max(self._begin_s, (self._mark_s or 0.0) - _LEAD_S)
        self._recording.cut(output, begin_s, self._mark_s, end_s)

    def array(self, *options: str) -> str:
        """Make an md array of both disks, until the scenario ends; return its path."""
        return f"/dev/{self._stack.enter_context(self.disks.array(*options))}"

    def mount(self, version: str, *options: str, client: int = 1) -> Path:
        """Mount the slow disk for a client, until the scenario ends; its file is in no cache."""
        self.server.drop_caches()
        return self._stack.enter_context(_mounted(version, options, client))

    def setting(self, path: str, value: str) -> None:
        """Change a setting of the kernel until the scenario ends."""
        file = Path(path)
        self._stack.callback(file.write_text, file.read_text().strip())
        file.write_text(value)

    @staticmethod
    def read(path: Path) -> None:
        """Read a file into this machine's page cache."""
        path.read_bytes()


@contextlib.contextmanager
def _mounted(version: str, options: tuple[str, ...], client: int) -> Iterator[Path]:
    where = Path(f"/mnt/slow-{client}-v{version[0]}")
    where.mkdir(exist_ok=True)
    source = f"10.99.{client}.1:" + (f"/{SERVED.name}" if version[0] == "4" else str(SERVED))
    words = [f"vers={version}", "proto=tcp", "nolock" if version == "3" else "hard", *options]
    # One client alone uses v4 here, so this machine's host name will do.
    # Not `ip netns exec`, which would mount in a mount namespace of its own.
    enter = ["nsenter", f"--net=/run/netns/cli{client}"]
    run(*enter, "mount", "-t", "nfs", "-o", ",".join(words), source, where)
    try:
        yield where
    finally:
        unmount(where)


def export_slow_disk(disks: Disks) -> None:
    """Have the server export ext4 with one full file, once for all scenarios."""
    if SERVED.is_mount():
        return
    SERVED.mkdir(exist_ok=True)
    disks.answer_after(0)
    run("mkfs.ext4", "-q", "-F", f"/dev/{EXPORTED}")
    run("mount", "-o", "noatime", f"/dev/{EXPORTED}", SERVED)
    SERVED.chmod(0o1777)
    fill(SERVED / FILE, FILE_BYTES)
    run("exportfs", "-o", "rw,sync,no_root_squash,no_subtree_check,insecure,fsid=9", f"*:{SERVED}")
