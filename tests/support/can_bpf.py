"""Print why this process cannot load a BPF program; print nothing and exit with 0 if it can.

It does not use ioh on purpose: if ioh wrongly concluded that BPF is refused, asking ioh would
leave out the kernel tests, and the run would look green.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
BPF_PROG_LOAD = 5
RAW_TRACEPOINT = 17
RETURN_0 = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)


def refusal() -> str:
    """Load the smallest program of the type that ioh uses; the reason if it fails, or ""."""
    if os.geteuid() != 0:
        return "not root"
    number = SYS_BPF.get(platform.machine())
    if number is None:
        return f"the bpf system call's number on {platform.machine()} is not known here"
    code = ctypes.create_string_buffer(RETURN_0)
    license_name = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "=IIQQIIQII48x",
        RAW_TRACEPOINT,
        len(RETURN_0) // 8,
        ctypes.addressof(code),
        ctypes.addressof(license_name),
        *(0, 0, 0, 0, 0),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(number, BPF_PROG_LOAD, attributes, len(attributes))
    if descriptor < 0:
        return f"the kernel refuses BPF programs: {os.strerror(ctypes.get_errno())}"
    os.close(descriptor)
    return ""


if __name__ == "__main__":
    reason = refusal()
    if reason:
        print(reason)
        sys.exit(1)
