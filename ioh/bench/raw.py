"""Raw devices: read freely; written to only where the user names them and nobody uses them."""

from __future__ import annotations

import os
import re
import stat
import subprocess

from ioh.bench.fio import program
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.procfs.files import read_line
from ioh.rights.user import give_root_up


def check_devices(paths: tuple[str, ...]) -> int:
    """The bytes of the smallest; IohError where one is no device, or cannot be read."""
    return min(_size_bytes(path) for path in paths)


def _size_bytes(path: str) -> int:
    shown = printable(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        cause = f"cannot read {shown}: {printable(getattr(error, 'strerror', '') or str(error))}"
        hint = "ioh bench has your rights under sudo: use a root shell (sudo -i)"
        raise IohError(cause, hint) from None
    try:
        if not stat.S_ISBLK(os.fstat(fd).st_mode):
            cause = f"{shown} is no block device"
            raise IohError(cause, "List them with: lsblk", ExitCode.USAGE)
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def claim_for_writing(paths: tuple[str, ...], tokens: tuple[str, ...]) -> list[int]:
    """Take devices for oneself: nobody mounts or uses them until the descriptors are closed.

    ``tokens`` are what the user may lose: ``sdb``, or ``sdb:ext4`` with the signature that is on
    it.  Raises IohError where one is not named, is in use, or carries data that was not named.
    """
    claimed: list[int] = []
    try:
        for path in paths:
            _check_token(path, tokens)
            claimed.append(_claim(path))
    except BaseException:
        for fd in claimed:
            os.close(fd)
        raise
    return claimed


def _check_token(path: str, tokens: tuple[str, ...]) -> None:
    # By the kernel's name: the path may be /dev/disk/by-id/….
    folder = os.path.realpath(f"/sys/dev/block/{_number(path)}")
    name = os.path.basename(folder).replace("!", "/")  # noqa: PTH119
    meant = [token.removeprefix("/dev/") for token in tokens]
    named = [token for token in meant if token.partition(":")[0] == name]
    shown = printable(path)
    if not named:
        cause = f"this would destroy what is on {shown}"
        raise IohError(cause, f"If that is meant: --destroy-data {printable(name)}", ExitCode.USAGE)
    signature = _signature(path)
    if signature and f"{name}:{signature}" not in named:
        cause = f"{shown} carries {printable(signature)}"
        hint = f"If it may go: --destroy-data {printable(name)}:{printable(signature)}"
        raise IohError(cause, hint, ExitCode.USAGE)


def _claim(path: str) -> int:
    """O_EXCL on a block device is refused while it, or a partition of it, is mounted or held."""
    try:
        return os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        why = "it is mounted, or a volume, array or swap holds it"
        why = why if error.errno == 16 else printable(error.strerror or str(error))
        cause = f"cannot write to {printable(path)}: {why}"
        raise IohError(cause, "See: lsblk, swapon, zpool status") from None


def _number(path: str) -> str:
    """The kernel's number of a device, such as 8:16."""
    number = os.stat(path).st_rdev  # noqa: PTH116
    return f"{os.major(number)}:{os.minor(number)}"


def _signature(path: str) -> str:
    """What blkid takes the data on a device for, a partition table included; "" for nothing."""
    command = [program("blkid", "util-linux"), "-p", "-o", "export", os.path.realpath(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False,
        preexec_fn=give_root_up,
    )  # fmt: skip
    if done.returncode not in {0, 2}:  # 2: nothing found
        shown = printable(done.stderr.strip() or "several signatures", 200)
        return re.sub(r"\W+", "-", shown)[:40]
    found = dict(line.split("=", 1) for line in done.stdout.split("\n") if "=" in line)
    partitioned = read_line(f"/sys/dev/block/{_number(path)}/partition")
    table = found.get("PTTYPE", "") if partitioned is None else ""
    return found.get("TYPE") or table
