"""What people run on files: copies, archives, packages, builds, logs; nothing is wrong with them.

Every ``time.sleep`` here is how long the program runs.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from tests.kernel.rig import MIB, Volume, run
from tests.scenarios.plays import LAYERS
from tests.scenarios.stage import Stage

SECONDS = 11
_FILES = 1000


def _again(stage: Stage, command: str) -> None:
    """Run a command in a directory of the volume, again and again."""
    volume = stage.volume(2048 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.load("sh", "-c", f"cd {volume.mount}; while :; do {command} || exit 1; done")
    time.sleep(SECONDS)


def _dd(options: str, stage: Stage) -> None:
    # Into a new file each time: if a file is truncated and rewritten, ext4 writes it back.
    _again(stage, f"dd if=/dev/zero of=f {options}; rm f")


dd_buffered = partial(_dd, "bs=1M count=900")
dd_direct = partial(_dd, "bs=1M count=900 oflag=direct")
dd_sync = partial(_dd, "bs=64k count=2000 oflag=sync")
dd_dsync = partial(_dd, "bs=64k count=2000 oflag=dsync")


# Appends lines to a log, 400 a second at most: path, whether each is made durable.
_LOG = """
import os, sys, time
log = open(sys.argv[1], "a"); start = time.monotonic(); lines = 0
while True:
    log.write("2026-11-23T03:30:00Z host program[4711]: a request took 12 ms and was answered\\n")
    log.flush(); lines += 1
    if sys.argv[2] == "durable": os.fsync(log.fileno())
    time.sleep(max(0.0, lines / 400 - (time.monotonic() - start)))
"""


def _log(kind: str, stage: Stage) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_LOG, f"{volume.mount}/log", kind)
    time.sleep(SECONDS)


log_durable, log_plain = partial(_log, "durable"), partial(_log, "plain")


def _tree(volume: Volume) -> Path:
    """Make files like sources: of 300 bytes to 40 KB, half of which compresses."""
    tree = volume.mount / "tree"
    for number in range(_FILES):
        path = tree / f"{number % 50}" / f"{number}.c"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = 300 * (1 + number * number % 137)
        path.write_bytes(os.urandom(size // 2).hex().encode())
    volume.sync()
    return tree


def _cold(stage: Stage, volume: Volume, *commands: tuple[str, ...]) -> None:
    """Run the commands in turn, for SECONDS, each with nothing of the volume in memory."""
    stage.record("--device", volume.loop.name, *LAYERS)
    end_s = time.monotonic() + SECONDS
    while time.monotonic() < end_s:
        for command in commands:
            run("umount", volume.mount)
            run("mount", "-o", "noatime", volume.device, volume.mount)
            run(*command)


def tar(stage: Stage) -> None:
    volume = stage.volume(1024 * MIB)
    tree = _tree(volume)
    # Through a pipe: if GNU tar writes to /dev/null itself, it does not read the files at all.
    _cold(stage, volume, ("sh", "-c", f"tar -C {tree} -cf - . | cat >/dev/null"),
          ("tar", "-C", str(tree), "-cf", f"{volume.mount}/tree.tar", "."))  # fmt: skip


def rsync(stage: Stage) -> None:
    volume = stage.volume(1024 * MIB)
    tree, copy = _tree(volume), volume.mount / "copy"
    _cold(stage, volume, ("rsync", "-a", f"{tree}/", str(copy)), ("rm", "-r", str(copy)))


def git(stage: Stage) -> None:
    volume = stage.volume(1024 * MIB)
    tree, clone = str(_tree(volume)), f"{volume.mount}/clone"
    run("git", "-C", tree, "init", "-q")
    run("git", "-C", tree, "add", ".")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    run("git", "-C", tree, *who, "commit", "-q", "-m", "all")
    _cold(stage, volume, ("git", "clone", "-q", "--no-local", tree, clone),
          ("git", "-C", clone, "status"), ("git", "-C", clone, "gc", "-q"),
          ("rm", "-r", clone))  # fmt: skip


def dpkg(stage: Stage) -> None:
    """dpkg unpacks a package with an fsync of each file."""
    volume = stage.volume(1024 * MIB)
    tree, root = _tree(volume), volume.mount / "root"
    control = tree / "DEBIAN" / "control"
    control.parent.mkdir()
    control.write_text("Package: big\nVersion: 1\nArchitecture: all\nMaintainer: a\n"
                       "Description: sources\n")  # fmt: skip
    package = f"{volume.mount}/big.deb"
    run("dpkg-deb", "-Zgzip", "-z1", "-b", tree, package)
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    words = ("dpkg", f"--root={root}", "--log=/dev/null", "--force-all")
    _cold(stage, volume, (*words, "--unpack", package), (*words, "--purge", "big"))


def gcc(stage: Stage) -> None:
    """Small files are compiled, and linked."""
    volume = stage.volume()
    for number in range(40):
        names = "\n".join(f"int f{number}_{i}(int x) {{ return x * {i}; }}" for i in range(40))
        (volume.mount / f"{number}.c").write_text(f"#include <stdio.h>\n{names}\n")
    (volume.mount / "main.c").write_text("int main(void) { return 0; }\n")
    build = f"cd {volume.mount} && gcc -c *.c && gcc -o program *.o"
    _cold(stage, volume, ("sh", "-c", build))


def mapped_database(volume: Volume) -> tuple[Path, Path]:
    """Return the place for LMDB's database of 130 MB, and the text that mdb_load makes it from."""
    text = volume.mount / "text"
    lines = "".join(f" {n:08x}\n {os.urandom(250).hex()}\n" for n in range(200_000))
    text.write_text(f"VERSION=3\nformat=bytevalue\ntype=btree\nmapsize={512 * MIB}\n"
                    f"HEADER=END\n{lines}DATA=END\n")  # fmt: skip
    return volume.mount / "database", text


def lmdb(stage: Stage) -> None:
    """A database is loaded, and read from end to end by mdb_dump and mdb_copy."""
    volume = stage.volume(1024 * MIB)
    database, text = mapped_database(volume)
    copy = f"{volume.mount}/copy"
    _cold(stage, volume, ("rm", "-rf", str(database), copy), ("mkdir", str(database), copy),
          ("mdb_load", "-f", str(text), str(database)),
          ("sh", "-c", f"mdb_dump {database} >/dev/null"),
          ("mdb_copy", str(database), copy))  # fmt: skip
