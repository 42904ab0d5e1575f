"""Sandbox for ioh after it drops root: seccomp refuses system calls, Landlock refuses paths.

Only for a process that was root: a user's own ioh has that user's rights anyway.  seccomp has a
list of refused calls, not of allowed ones, because Python and its libraries change their calls
with each version.  It refuses ways out of a process without capabilities: programs, other
processes, namespaces, the kernel's large interfaces, terminal input, the network.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

# System calls with their numbers on x86_64 and on aarch64; "-": does not exist.
_REFUSED = """
execve 59 221, execveat 322 281, ptrace 101 117, process_vm_readv 310 270,
process_vm_writev 311 271, process_madvise 440 440, kcmp 312 272, pidfd_getfd 438 438,
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, open_tree 428 428,
move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433,
mount_setattr 442 442, setns 308 268, unshare 272 97, init_module 175 105, finit_module 313 273,
delete_module 176 106, kexec_load 246 104, kexec_file_load 320 294, perf_event_open 298 241,
userfaultfd 323 282, io_uring_setup 425 425, name_to_handle_at 303 264, open_by_handle_at 304 265,
fanotify_init 300 262, add_key 248 217, request_key 249 218, keyctl 250 219, swapon 167 224,
swapoff 168 225, reboot 169 142, acct 163 89, syslog 103 116, settimeofday 164 170,
clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266, sethostname 170 161,
setdomainname 171 162, personality 135 92, vmsplice 278 75, mknod 133 -, mknodat 259 33,
modify_ldt 154 -, iopl 172 -, ioperm 173 -, quotactl 179 60, vhangup 153 58
"""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, AUDIT_ARCH_*
_CLONE, _CLONE3, _SOCKET, _IOCTL, _BPF = (56, 220), (435, 435), (41, 198), (16, 29), (321, 280)
_NEW_NAME_SPACES = 0x7E020000  # CLONE_NEW*
_FAMILIES = (1, 16)  # AF_UNIX, AF_NETLINK
_NETWORK = (2, 10)  # AF_INET, AF_INET6
_TYPING = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
# On open maps: look up, update, delete, next key, information, and the same in batches.
_BPF_COMMANDS = (1, 2, 3, 4, 15, 21, 24, 25, 26, 27)
_X32_BIT = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_NUMBER_AT, _MACHINE_AT, _ARGUMENT_AT = 0, 4, (16, 24)
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER_MODE = 22, 38, 2

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # landlock_*, on every machine
_READ, _WRITE_FILE, _READ_FILE = 0b1100, 0b10, 0b100
_READABLE = ("/proc", "/sys", "/usr", "/lib", "/lib64", "/etc", "/var/lib/btrfs")

_landlocked = 0  # Landlock version in force; /proc does not show it

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value


def forbid_calls(*, network: bool = False) -> bool:
    """Install the seccomp filter for this process and its children; False if not supported.

    ``network`` allows sockets of IPv4 and IPv6, for --pg.
    """
    if os.uname().machine not in _MACHINES:
        return False
    packed = b"".join(struct.pack("=HBBI", *each) for each in _program(network=network))
    code = ctypes.create_string_buffer(packed, len(packed))
    program = struct.pack("@HP", len(packed) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, program, 0, 0) == 0)


def _program(*, network: bool) -> list[_Instruction]:
    column, machine = _MACHINES[os.uname().machine]
    numbers = [line.split()[1 + column] for line in _REFUSED.replace("\n", " ").split(",")]
    program = [(_LOAD, 0, 0, _MACHINE_AT), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _EPERM)]
    program += [(_LOAD, 0, 0, _NUMBER_AT), (_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _EPERM)]
    program += _if_call(_CLONE3[column], [(_RETURN, 0, 0, _ENOSYS)])  # libc then uses clone
    program += _if_call(_CLONE[column], _choose(_ANY_BIT, 0, (_NEW_NAME_SPACES,), _EPERM, _ALLOW))
    families = (*_FAMILIES, *(_NETWORK if network else ()))
    program += _if_call(_SOCKET[column], _choose(_EQUAL, 0, families, _ALLOW, _EPERM))
    program += _if_call(_IOCTL[column], _choose(_EQUAL, 1, _TYPING, _EPERM, _ALLOW))
    program += _if_call(_BPF[column], _choose(_EQUAL, 0, _BPF_COMMANDS, _ALLOW, _EPERM))
    for number in numbers:
        if number != "-":
            program += _if_call(int(number), [(_RETURN, 0, 0, _EPERM)])
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _if_call(number: int, then: Sequence[_Instruction]) -> list[_Instruction]:
    return [(_EQUAL, 0, len(then), number), *then]


def _choose(
    test: int, argument: int, values: Sequence[int], found: int, otherwise: int
) -> list[_Instruction]:
    """Return ``found`` if the low half of an argument passes the test with one of the values."""
    tests = [(test, len(values) - at, 0, value) for at, value in enumerate(values)]
    load = (_LOAD, 0, 0, _ARGUMENT_AT[argument])
    return [load, *tests, (_RETURN, 0, 0, otherwise), (_RETURN, 0, 0, found)]


def landlock_abi() -> int:
    """The kernel's version of Landlock (Linux 5.13 and later); 0 if it has none, or it is off."""
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1)))


def forbid_paths() -> bool:
    """Allow this process only to read what ioh reads and to write to devices; False: unsupported.

    Open files stay open.  Another process creates ioh's new files, see files.py.
    """
    global _landlocked  # noqa: PLW0603 (a process does this once)
    abi = landlock_abi()
    if not abi:
        return False
    libc = ctypes.CDLL(None)
    # All rights of version 1, LANDLOCK_ACCESS_FS_REFER (2) and TRUNCATE (3).
    handled = struct.pack("=Q", (1 << 13) - 1 | (1 << 13) * (abi >= 2) | (1 << 14) * (abi >= 3))
    rules = libc.syscall(_CREATE_RULESET, handled, len(handled), 0)
    if rules < 0:
        return False
    code = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), *sys.path]
    try:
        for path in {*_READABLE, *code}:
            _permit(libc, rules, path, _READ)
        _permit(libc, rules, "/dev", _READ | _WRITE_FILE)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _landlocked = abi if libc.syscall(_RESTRICT_SELF, rules, 0) == 0 else 0
        return bool(_landlocked)
    finally:
        os.close(rules)


def held() -> str:
    """User, capabilities and sandbox of this process, as the kernel reports them, in one line."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    uid = status["Uid"].split()[1]
    try:
        name = pwd.getpwuid(int(uid)).pw_name
    except KeyError:
        name = "?"
    capabilities = int(status["CapEff"], 16)
    words = [f"user {name} ({uid})"]
    words.append(f"capabilities {capabilities:x}" if capabilities else "no capability")
    words += ["no_new_privs"] * (status.get("NoNewPrivs") == "1")
    words.append("seccomp filter" if status.get("Seccomp") == "2" else "no seccomp filter")
    words.append(f"Landlock (version {_landlocked})" if _landlocked else "no Landlock")
    return ", ".join(words)


def _permit(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    """Allow a path; ignore one that does not exist."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):  # noqa: PTH112
        rights &= _WRITE_FILE | _READ_FILE
    libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, fd), 0)
    os.close(fd)
