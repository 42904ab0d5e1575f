"""Fixtures of the kernel tests: devices, file systems, network namespaces; all are removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernel.netns import Namespace
from tests.kernel.part import WatchedVolume
from tests.kernel.rig import Ioh, Loop, Volume, recording, run


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    """A new ext4 file system of 512 MiB on its own loop device."""
    with closing(Volume(tmp_path)) as made:
        yield made


@pytest.fixture(scope="session")
def one_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedVolume]:
    with (
        closing(Volume(tmp_path_factory.mktemp("watched"))) as made,
        recording("--device", made.loop.number, "--layers", "syscall,block") as ioh,
    ):
        yield WatchedVolume(made, ioh)


@pytest.fixture
def watched(one_for_all: WatchedVolume) -> Iterator[WatchedVolume]:
    """The volume that most tests share, emptied for each, and the ioh that watches it."""
    one_for_all.volume.empty()
    yield one_for_all
    one_for_all.volume.loop.restore_queue()


@pytest.fixture(scope="module")
def own() -> Iterator[Ioh]:
    """One ioh for all tests of a module; it watches the calls of this process."""
    with recording("--pid", str(os.getpid()), "--layers", "syscall") as ioh:
        yield ioh


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """A bare loop device of 512 MiB without a file system."""
    folder = tmp_path / "bare"
    folder.mkdir()
    with closing(Loop(folder)) as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that everybody can read and only root can write; pytest's own is root's alone."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with closing(Namespace("a")) as made:
        yield made


@pytest.fixture
def pair(namespace: Namespace) -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces joined by a veth pair: 10.99.0.1, 10.99.0.2, fd99::1, fd99::2."""
    other = Namespace("b")
    run("ip", "link", "add", "ioh0", "netns", str(namespace.holder.pid), "type", "veth",
        "peer", "name", "ioh0", "netns", str(other.holder.pid))  # fmt: skip
    for number, end in enumerate((namespace, other), 1):
        end.run("ip", "address", "add", f"10.99.0.{number}/24", "dev", "ioh0")
        end.run("ip", "address", "add", f"fd99::{number}/64", "dev", "ioh0", "nodad")
        end.run("ip", "link", "set", "ioh0", "up")
    yield namespace, other
    other.close()
