"""What a trap in a server costs the server here, measured at a function of our own.

After a trap the kernel executes the instruction below it: it emulates some, and single-steps
others, which takes up to 15 times as long in a virtual machine.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time
from statistics import median
from typing import NamedTuple

from ioh.bpf.calls import set_element
from ioh.bpf.channel import close_all

_CALLS, _ROUNDS = 200, 5
_NO_SITE = 0xFFFF_FFFF  # a cookie for which the program does nothing
_UNMEASURED_NS = 2000, 14_000, 1000  # of a virtual machine
_OP, _START, _DROP = 2, 0, 3  # of struct site: any op, which is begun and forgotten
# The bodies of two functions: the kernel emulates the first's instruction, and steps the second's.
_BODIES = {
    "x86_64": (b"\x55\x5d\xc3", b"\x31\xc0\xc3"),  # push, pop, ret; xor, ret
    "aarch64": (b"\x1f\x20\x03\xd5\xc0\x03\x5f\xd6", b"\xe0\x03\x00\xaa\xc0\x03\x5f\xd6"),
}


class TrapCost(NamedTuple):
    """CPU time of a trap, without and (``counted_ns``) of the program that runs in it."""

    emulated_ns: int = _UNMEASURED_NS[0]
    stepped_ns: int = _UNMEASURED_NS[1]
    counted_ns: int = _UNMEASURED_NS[2]

    def of(self, code: bytes, machine: str) -> int:
        """The cost at an instruction, given its first bytes."""
        if machine == "x86_64":  # nop, push, call and jump
            opcode = (code.removeprefix(b"\x41") or b"\0")[0]
            is_emulated = opcode in b"\x90\xe8\xe9\xeb" or 0x50 <= opcode <= 0x57
        else:
            is_emulated = code == _BODIES["aarch64"][0][:4]
        return self.emulated_ns if is_emulated else self.stepped_ns


def measure_trap(program: int, sites: int, count: int) -> TrapCost:
    """Measure with the program of servers' probes; constants if this kernel does not allow it.

    ``sites``: its map of ``count`` places, of which the last two are free.
    """
    try:
        emulated, stepped = _BODIES[os.uname().machine]
        for at, role in ((count - 2, _START), (count - 1, _DROP)):
            set_element(sites, at, struct.pack("=II32xQ24x", _OP, role, 1))
        none_ns = _measure(program, emulated, (_NO_SITE, _NO_SITE))
        counted_ns = _measure(program, emulated, (count - 1, count - 2)) - none_ns
        return TrapCost(none_ns, _measure(program, stepped, (_NO_SITE, _NO_SITE)), counted_ns)
    except (OSError, KeyError):
        return TrapCost()


def _measure(program: int, body: bytes, cookies: tuple[int, int]) -> int:
    """CPU time of a trap at this function, the mean of its return and its start."""
    from ioh.bpf.uprobes import Place, attach_uprobes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    file = os.memfd_create("ioh trap")
    links: list[int] = []
    try:
        os.write(file, body.ljust(mmap.PAGESIZE, b"\0"))
        rights = mmap.PROT_READ | mmap.PROT_EXEC
        at = libc.mmap(None, mmap.PAGESIZE, rights, mmap.MAP_PRIVATE, file, 0)
        if at == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap")
        call = ctypes.CFUNCTYPE(None)(at)
        before_ns = median(_spent_ns(call) for _ in range(_ROUNDS))
        for cookie, at_return in zip(cookies, (True, False), strict=True):
            path, place = f"/proc/self/fd/{file}", Place(0, 0, cookie)
            links += attach_uprobes(program, path, [place], at_return=at_return)
        after_ns = median(_spent_ns(call) for _ in range(_ROUNDS))
        return max(1, round((after_ns - before_ns) / (2 * _CALLS)))
    finally:
        close_all([*links, file])


def _spent_ns(call: ctypes._CFunctionType) -> int:
    began_ns = time.thread_time_ns()
    for _ in range(_CALLS):
        call()
    return time.thread_time_ns() - began_ns
