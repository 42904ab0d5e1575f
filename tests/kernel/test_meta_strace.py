"""What real programs call, by op and by mount: exactly as strace says, on three file systems."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernel.meta_calls import COMM
from tests.kernel.mounts import mounted
from tests.kernel.part import part_of
from tests.kernel.rig import Ioh, Loop, recording, run
from tests.kernel.strace import ABSOLUTE, Truth, traced

# One message: written to tmp/, made durable, linked into new/, and read by the reader of mail.
DELIVERY = """
import os
for name in ("tmp", "new", "cur"):
    os.mkdir(name)
for number in range(23):
    name = f"{number}.host"
    with open(f"tmp/{name}", "xb") as stream:
        stream.write(b"mail" * 500)
        stream.flush()
        os.fsync(stream.fileno())
    if number % 2:
        os.link(f"tmp/{name}", f"new/{name}")
        os.unlink(f"tmp/{name}")
    else:
        os.rename(f"tmp/{name}", f"new/{name}")
    folder = os.open("new", os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
for name in os.listdir("new"):
    os.stat(f"new/{name}")
    os.rename(f"new/{name}", f"cur/{name}:2,S")
    os.utime(f"cur/{name}:2,S")
    os.chmod(f"cur/{name}:2,S", 0o600)
"""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "tar": ("tar", "--extract", "--file", "{archive}"),
    "cp": ("cp", "--archive", "tree", "copy"),
    "find": ("find", ".", "-newermt", "2001-01-01", "-type", "f", "-size", "+1k"),
    "git init": ("git", "init", "--quiet", "tree"),
    "git add": ("git", "-C", "tree", "add", "."),
    "git commit": ("git", "-C", "tree", "commit", "--quiet", "--message=first"),
    "git status": ("git", "-C", "tree", "status"),
    "git checkout": ("git", "-C", "tree", "checkout", "--quiet", "-b", "other"),
    "maildir": (os.path.realpath(sys.executable), "-I", "-S", "-c", DELIVERY),
    "rm": ("rm", "--recursive", "copy", "tree", "cur"),
}
SETTINGS = "[user]\nname = n\nemail = e\n[gc]\nauto = 0\n[maintenance]\nauto = false\n"


@pytest.fixture(scope="module")
def named() -> Iterator[Ioh]:
    with recording("--comm", COMM, "--layers", "syscall") as ioh:
        yield ioh


@pytest.fixture(params=["ext4", "xfs", "btrfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with closing(Loop(tmp_path)) as loop:
        run(f"mkfs.{request.param}", "-q", loop.path)
        with mounted(loop.path, tmp_path / "mnt") as volume:
            yield volume


def make_archive(folder: Path, files: int = 131) -> Path:
    """A tree of files in 13 folders, with a symbolic and a hard link in each."""
    tree = folder / "tree"
    for number in range(files):
        path = tree / f"d{number % 13}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(97 * number))
        if number < 13:
            path.with_name("soft").symlink_to(path.name)
            path.with_name("hard").hardlink_to(path)
    archive = folder / "tree.tar"
    with tarfile.open(archive, "w") as stream:
        stream.add(tree, "tree")
    return archive


def test_programs_call_what_strace_says(named: Ioh, place: Path, tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    (tmp_path / ".gitconfig").write_text(SETTINGS)
    program = tmp_path / COMM  # ioh looks at this name alone
    sums = Truth()
    for name, (command, *options) in PROGRAMS.items():
        program.unlink(missing_ok=True)
        program.symlink_to(shutil.which(command) or command)
        words = [option.format(archive=archive) if "{a" in option else option for option in options]
        with part_of(named) as ioh:
            truth = traced(tmp_path / "strace", place, program, *words)
        print(name, dict(truth.ops), dict(truth.mounts))
        rows = ioh.table("syscall", "mount", "mount")
        assert (name, ioh.metadata()) == (name, dict(truth.ops))
        assert {at: rows.get((at,), {}).get("metas", 0) for at in truth.mounts} == truth.mounts
        assert not ioh.lost("syscall")
        sums.ops += truth.ops
        sums.mounts += truth.mounts
    # What strace did not understand, or programs did not do, would prove nothing.
    assert all(sums.ops[op] > 20 for op in ("open", "create", "stat", "readdir"))
    assert all(sums.ops[op] > 20 for op in ("unlink", "rename", "setattr"))
    assert sums.mounts[str(place)] > 1000
    assert sums.mounts[ABSOLUTE] > 10
