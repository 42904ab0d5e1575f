"""tests/chroot/enter.sh: its mounts are private, so that its directory can be removed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# This machine's programs instead of a distribution's.
ENTER = 'mount --bind /usr "$1/usr" && exec "$0" "$@"'


class Chroot:
    """A directory as tests/chroot/make.sh leaves it, but without a system in it."""

    def __init__(self, where: Path) -> None:
        self.root = where / "chroot"
        self.cache = where / "cache"
        for name in ("dev", "proc", "sys", "usr", "srv/ioh"):
            (self.root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            (self.root / name).symlink_to(f"usr/{name}")

    def enter(self, *command: str) -> subprocess.Popen[str]:
        script = str(ROOT / "tests/chroot/enter.sh")
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", ENTER, script, self.root, *command],
            env={**os.environ, "XDG_CACHE_HOME": str(self.cache), "OF_THE_HOST": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def mounts(self) -> list[str]:
        """Mounts in the chroot that this process sees."""
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        return [line for line in mounts if str(self.root) in line]


@pytest.fixture
def chroot(tmp_path: Path) -> Chroot:
    return Chroot(tmp_path)


def test_a_command_runs_inside(chroot: Chroot) -> None:
    (chroot.cache / "ioh/kernels/6.1").mkdir(parents=True)
    with chroot.enter(
        "sh", "-c", "pwd; env; ls $XDG_CACHE_HOME/ioh/kernels; test -c /dev/null"
    ) as inside:
        said, _ = inside.communicate(timeout=30)
    assert inside.returncode == 0
    assert said.splitlines()[0] == "/srv/ioh"
    assert said.splitlines()[-1] == "6.1"
    assert "OF_THE_HOST" not in said


def test_the_status_is_that_of_the_command(chroot: Chroot) -> None:
    with chroot.enter("sh", "-c", "exit 42") as inside:
        inside.communicate(timeout=30)
    assert inside.returncode == 42


def test_nothing_is_mounted_for_others(chroot: Chroot) -> None:
    with chroot.enter("sh", "-c", "echo begun; exec sleep 100") as inside:
        assert inside.stdout is not None
        assert inside.stdout.readline() == "begun\n"
        assert chroot.mounts == []
        assert list((chroot.root / "dev").iterdir()) == []
        inside.send_signal(signal.SIGKILL)  # so that no trap of the script runs
        inside.wait(timeout=30)
    shutil.rmtree(chroot.root)
    assert Path("/dev/null").is_char_device()
