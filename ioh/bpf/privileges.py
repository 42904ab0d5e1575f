"""Drops root: ioh becomes the user who called sudo, or an unprivileged one."""

from __future__ import annotations

import ctypes
import os
import struct
from enum import Enum

from ioh.rights.sandbox import forbid_calls, forbid_paths
from ioh.rights.user import become, caller, make_dumpable, service_user

_LINUX_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_READ_SEARCH, _CAP_SYS_PTRACE, _CAP_SYS_ADMIN, _CAP_BPF = 2, 19, 21, 39
_PR_SET_KEEPCAPS = 8
_PR_SET_NO_NEW_PRIVS = 38


class Kept(Enum):
    """The capabilities that ioh keeps after start."""

    NOTHING = "no capability"
    PROC = "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, to read every process's /proc/PID/io"
    CAP_BPF = "CAP_BPF, because kernels before 5.19 require it to read maps"


_KEPT_BITS = {
    Kept.CAP_BPF: 1 << _CAP_BPF,
    Kept.PROC: 1 << _CAP_SYS_PTRACE | 1 << _CAP_DAC_READ_SEARCH,
}


def is_privileged() -> bool:
    """Whether this process can load BPF programs: CAP_SYS_ADMIN or CAP_BPF is permitted."""
    return bool(_permitted() & (1 << _CAP_SYS_ADMIN | 1 << _CAP_BPF))


def has_rights() -> bool:
    """Whether there is anything to drop: it is root, or has any capability, as in a container."""
    return os.getuid() == 0 or _permitted() != 0


def _permitted() -> int:
    """The capabilities of this process, as bits; 0 if /proc does not tell."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            permitted = next(line.split()[1] for line in status if line.startswith("CapPrm:"))
    except (OSError, StopIteration):
        return 0
    return int(permitted, 16)


def needed(kernel: str, *, use_bpf: bool) -> Kept:
    """The capabilities needed to read maps, or only /proc, on this host, if they are permitted."""
    if not use_bpf:
        bits = _KEPT_BITS[Kept.PROC]
        return Kept.PROC if _permitted() & bits == bits else Kept.NOTHING
    try:
        with open("/proc/sys/kernel/unprivileged_bpf_disabled", encoding="ascii") as file:
            disabled = file.read().strip()
    except OSError:
        disabled = None
    # Decide before dropping the privilege, so rely on what is documented: with this setting,
    # kernels before 5.19 (commit c8644cd0efe7) refuse every bpf(2) command to unprivileged users.
    is_refused = disabled != "0" and version(kernel) < (5, 19)
    return Kept.CAP_BPF if is_refused else Kept.NOTHING


def version(kernel: str) -> tuple[int, int]:
    """The first two numbers of ``6.1.0-56-amd64``."""
    major, minor = kernel.split("-", maxsplit=1)[0].split(".")[:2]
    return int(major), int(minor)


def drop_privileges(keep: Kept, *, network: bool = False) -> None:
    """Drop root permanently: become the caller or the service user, and block every way back.

    Args:
        keep: What is needed to read this kernel's maps, or every process's /proc/PID/io.
        network: Whether to allow connections to a server.

    Raises:
        OSError: The kernel refused; ioh must not continue as root.
        IohError: As in user.caller().
    """
    user = caller()
    libc = ctypes.CDLL(None, use_errno=True)
    was_root = os.getuid() == 0
    bits = _KEPT_BITS.get(keep, 0)
    if bits:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    if was_root:
        try:
            become(user or service_user())
        except OSError:  # a container without other user ids, or without CAP_SETUID
            if user is not None:
                raise
    _set_capabilities(bits)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Changing the uid hides /proc/self from this process; undo that, it holds no secret.
    make_dumpable()
    if was_root:
        # Landlock would block other processes' /proc/PID/io.  A caller may access their own files.
        if user is None and keep is not Kept.PROC:
            forbid_paths()
        forbid_calls(network=network)


def forget_capabilities() -> None:
    """Drop the remaining capabilities of this thread."""
    _set_capabilities(0)


def _set_capabilities(bits: int) -> None:
    """Set effective and permitted capabilities; none is inheritable."""
    header = struct.pack("=Ii", _LINUX_CAPABILITY_VERSION_3, 0)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    data = struct.pack("=6I", low, low, 0, high, high, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset refused")
