"""Numbers of the I/O system calls by machine; BTF does not have them."""

from __future__ import annotations

# On x86_64, and in include/uapi/asm-generic/unistd.h.
_CALLS = {
    "read": (0, 63),
    "write": (1, 64),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "msync": (26, 227),
    "sendfile": (40, 71),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "io_destroy": (207, 1),
    "io_getevents": (208, 4),
    "io_submit": (209, 2),
    "sync": (162, 81),
    "splice": (275, 76),
    "sync_file_range": (277, 84),
    "preadv": (295, 69),
    "pwritev": (296, 70),
    "syncfs": (306, 267),
    "copy_file_range": (326, 285),
    "preadv2": (327, 286),
    "pwritev2": (328, 287),
    "io_pgetevents": (333, 292),
    "io_uring_enter": (426, 426),
}

SYSCALL_NUMBERS = {
    machine: {name: numbers[at] for name, numbers in _CALLS.items()}
    for at, machine in enumerate(("x86_64", "aarch64"))
}
