"""Raw devices: written to only if the user confirms that by name and they are not in use."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess

from ioh.bench.fio import program
from ioh.model.errors import IohError, refuse_if
from ioh.model.printable import printable
from ioh.procfs.files import read_line
from ioh.rights.user import give_root_up


def check_devices(paths: tuple[str, ...]) -> int:
    """The size of the smallest device; IohError if one is not a device, or cannot be read."""
    return min(_size_bytes(path) for path in paths)


def _size_bytes(path: str) -> int:
    name = printable(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        cause = f"cannot read {name}: {getattr(error, 'strerror', '') or str(error)}"
        hint = "ioh bench has your rights under sudo: use a root shell (sudo -i)"
        raise IohError(cause, hint) from None
    try:
        is_device = stat.S_ISBLK(os.fstat(fd).st_mode)
        refuse_if(not is_device, f"{name} is not a block device", "List them with: lsblk")
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def claim_for_writing(paths: tuple[str, ...], tokens: tuple[str, ...]) -> list[int]:
    """Open devices exclusively: nobody can mount or use them until the descriptors are closed.

    ``tokens`` are what the user agrees to lose: ``sdb``, or ``sdb:ext4`` with its signature.
    Raises IohError if a device or its data is not among them, or it is in use.
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
    texts = [token.removeprefix("/dev/") for token in tokens]
    tokens_of_it = [token for token in texts if token.partition(":")[0] == name]
    device = printable(path)
    cause = f"this would destroy the data on {device}"
    refuse_if(not tokens_of_it, cause, f"To confirm: --destroy-data {name}")
    signature = _signature(path)
    cause = f"{device} contains {signature}"
    hint = f"To destroy it: --destroy-data {name}:{signature}"
    refuse_if(signature and f"{name}:{signature}" not in tokens_of_it, cause, hint)


def _claim(path: str) -> int:
    """Open with O_EXCL, which fails while the device or a partition is mounted or held."""
    try:
        return os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        why = "it is mounted, or a volume, array or swap uses it"
        why = why if error.errno == errno.EBUSY else printable(error.strerror or str(error))
        cause = f"cannot write to {path}: {why}"
        raise IohError(cause, "See: lsblk, swapon, zpool status") from None


def _number(path: str) -> str:
    """A device's number, such as 8:16."""
    number = os.stat(path).st_rdev  # noqa: PTH116
    return f"{os.major(number)}:{os.minor(number)}"


def _signature(path: str) -> str:
    """The type of data on a device, or of its partition table, by blkid; "" for none."""
    command = [program("blkid", "util-linux"), "-p", "-o", "export", os.path.realpath(path)]
    process = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False,
        preexec_fn=give_root_up,
    )  # fmt: skip
    if process.returncode not in {0, 2}:  # 2: nothing found
        text = printable(process.stderr.strip() or "several signatures", 200)
        return re.sub(r"\W+", "-", text)[:40]
    fields = dict(line.split("=", 1) for line in process.stdout.split("\n") if "=" in line)
    partitioned = read_line(f"/sys/dev/block/{_number(path)}/partition")
    table = fields.get("PTTYPE", "") if partitioned is None else ""
    return fields.get("TYPE") or table
