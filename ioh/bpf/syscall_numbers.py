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
# Calls on names and attributes, locks, close: the name, x86_64, others; "-" if it is not there.
_META_CALLS = """
    open 2 -, creat 85 -, openat 257 56, openat2 437 437, open_by_handle_at 304 265,
    stat 4 -, lstat 6 -, fstat 5 80, newfstatat 262 79, statx 332 291,
    access 21 -, faccessat 269 48, faccessat2 439 439,
    readlink 89 -, readlinkat 267 78, statfs 137 43, fstatfs 138 44,
    getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, getxattrat 464 464,
    listxattr 194 11, llistxattr 195 12, flistxattr 196 13, listxattrat 465 465,
    file_getattr 468 468, getdents 78 -, getdents64 217 61,
    unlink 87 -, unlinkat 263 35, rmdir 84 -, rename 82 -, renameat 264 38, renameat2 316 276,
    link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36,
    mkdir 83 -, mkdirat 258 34, mknod 133 -, mknodat 259 33,
    chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452,
    chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54,
    truncate 76 45, ftruncate 77 46, fallocate 285 47,
    utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463,
    removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, removexattrat 466 466,
    file_setattr 469 469, flock 73 32, fcntl 72 25, close 3 57
"""
_NO_CALL = 1 << 16  # and following numbers: no machine has as many calls


def _with_meta_calls() -> dict[str, tuple[int, int]]:
    calls = dict(_CALLS)
    for at, line in enumerate(_META_CALLS.split(",")):
        name, *numbers = line.split()
        x86, other = (_NO_CALL + at if number == "-" else int(number) for number in numbers)
        calls[name] = x86, other
    return calls


SYSCALL_NUMBERS = {
    machine: {name: numbers[at] for name, numbers in _with_meta_calls().items()}
    for at, machine in enumerate(("x86_64", "aarch64"))
}
