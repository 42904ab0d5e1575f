"""Numbers of the I/O system calls, by machine; the kernel's BTF does not hold them."""

from __future__ import annotations

_X86_64 = {
    "read": 0,
    "write": 1,
    "pread64": 17,
    "pwrite64": 18,
    "readv": 19,
    "writev": 20,
    "msync": 26,
    "sendfile": 40,
    "fsync": 74,
    "fdatasync": 75,
    "io_destroy": 207,
    "io_getevents": 208,
    "io_submit": 209,
    "splice": 275,
    "sync_file_range": 277,
    "preadv": 295,
    "pwritev": 296,
    "copy_file_range": 326,
    "preadv2": 327,
    "pwritev2": 328,
    "io_pgetevents": 333,
    "io_uring_enter": 426,
}

# The generic table of include/uapi/asm-generic/unistd.h.
_AARCH64 = {
    "io_destroy": 1,
    "io_submit": 2,
    "io_getevents": 4,
    "read": 63,
    "write": 64,
    "readv": 65,
    "writev": 66,
    "pread64": 67,
    "pwrite64": 68,
    "preadv": 69,
    "pwritev": 70,
    "sendfile": 71,
    "splice": 76,
    "fsync": 82,
    "fdatasync": 83,
    "sync_file_range": 84,
    "msync": 227,
    "copy_file_range": 285,
    "preadv2": 286,
    "pwritev2": 287,
    "io_pgetevents": 292,
    "io_uring_enter": 426,
}

SYSCALL_NUMBERS = {"x86_64": _X86_64, "aarch64": _AARCH64}
