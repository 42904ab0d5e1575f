"""Gives root away: to the user who called sudo, or at least every capability."""

from __future__ import annotations

import ctypes
import os
import struct
from enum import Enum

_LINUX_CAPABILITY_VERSION_3 = 0x20080522
_CAP_BPF = 39
_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_SET_NO_NEW_PRIVS = 38


class Kept(Enum):
    """What ioh itself still holds after start."""

    NOTHING = "no capability"
    CAP_BPF = "CAP_BPF, since this kernel (before 5.19) lets only it read maps"
    ROOT = "root, since this kernel (before 5.8) lets only root read maps"


def is_privileged() -> bool:
    """Whether this process may load BPF programs: effective CAP_SYS_ADMIN or CAP_BPF."""
    effective = effective_capabilities()
    return bool(effective & (1 << 21)) or bool(effective & (1 << _CAP_BPF))


def effective_capabilities() -> int:
    """The effective capability set as a bit mask; 0 where /proc does not say."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("CapEff:"):
                    return int(line.split()[1], 16)
    except OSError:
        pass
    return 0


def map_reading_needs(kernel: str, unprivileged_bpf_disabled: str | None) -> Kept:
    """What reading a map through its descriptor takes on this kernel.

    Only the kernel's documented behaviour can tell before the privilege is gone for good:
    with ``unprivileged_bpf_disabled`` set, kernels before 5.19 (commit c8644cd0efe7) refuse
    every bpf(2) command to the unprivileged; CAP_BPF exists since 5.8.
    """
    if unprivileged_bpf_disabled == "0":
        return Kept.NOTHING
    major, minor = (int(part) for part in kernel.split("-", maxsplit=1)[0].split(".")[:2])
    if (major, minor) >= (5, 19):
        return Kept.NOTHING
    return Kept.CAP_BPF if (major, minor) >= (5, 8) else Kept.ROOT


def drop_privileges(keep: Kept) -> None:
    """Become the user who called sudo (else stay the same user) without capabilities.

    Raises:
        OSError: The kernel refused; then ioh must not go on as root unawares.
    """
    if keep is Kept.ROOT:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = _caller()
    if keep is Kept.CAP_BPF:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    if uid is not None and gid is not None:
        os.setgroups([gid])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    bits = 1 << _CAP_BPF if keep is Kept.CAP_BPF else 0
    low, high = bits & 0xFFFFFFFF, bits >> 32
    header = struct.pack("=Ii", _LINUX_CAPABILITY_VERSION_3, 0)
    data = struct.pack("=IIIIII", low, low, 0, high, high, 0)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset refused")
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Changing the uid hides /proc/self from ourselves; there is no secret in here.
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def _caller() -> tuple[int | None, int | None]:
    """The user and group behind sudo; (None, None) without sudo or when root called it."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.getuid() != 0 or not (uid.isdigit() and gid.isdigit()) or int(uid) == 0:
        return None, None
    return int(uid), int(gid)
