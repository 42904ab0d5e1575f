"""Create, stat, read, rename and unlink small files as N users, each call timed: PostMark's mix.

A program of its own, with the standard library only: ``python -I - JOB < small_files.py``, in the
directory of the files.  JOB is JSON, see ``Job``; the result is in the form of fio's JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

LEAST_BYTES = 512  # of a file
_APPEND_BYTES = 4096
_A_LEVEL = 5  # directories
_PR_SET_PDEATHSIG = 1
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)
_clock = time.perf_counter_ns
_Acts = Iterator[tuple[str, Callable[[], int | None]]]  # kinds of calls, and the calls


@dataclass(frozen=True)
class Job:
    """``op``: prepare, create, stat, open_read, rename, unlink, mix.

    Users share the directories of ``files`` files of 512 to ``most_bytes`` bytes, and each has its
    own files.  ``run_s`` is a limit: create and unlink end with the files.  ``is_durable``: each
    change of a file or a directory is followed by its fsync.
    """

    op: str
    users: int
    files: int
    most_bytes: int
    run_s: float
    is_durable: bool
    name: str = ""


class Calls:
    """One kind of calls: sums, and latencies in ns in fio's bins, 64 for each power of two."""

    def __init__(self) -> None:
        self.count = self.total_ns = self.squares = self.max_ns = 0
        self.min_ns = 1 << 62
        self.bytes: int | None = None
        self.bins: dict[int, int] = {}

    def add(self, ns: int, moved: int | None) -> None:
        """Count a call, and the bytes that it moved; None if it moves none."""
        self.count += 1
        self.total_ns += ns
        self.squares += ns * ns
        self.min_ns, self.max_ns = min(self.min_ns, ns), max(self.max_ns, ns)
        if moved is not None:
            self.bytes = (self.bytes or 0) + moved
        shift = max(0, ns.bit_length() - 7)
        middle = (ns >> shift << shift) + (1 << shift) // 2
        self.bins[middle] = self.bins.get(middle, 0) + 1

    def as_fio(self, run_ns: int) -> dict[str, Any]:
        """A direction of fio's JSON; without bytes if the calls move none."""
        mean = self.total_ns / self.count
        deviation = max(0.0, self.squares / self.count - mean * mean) ** 0.5
        latency = {"N": self.count, "min": self.min_ns, "max": self.max_ns, "mean": mean}
        rate = 1e9 / run_ns
        return {
            "total_ios": self.count,
            "iops": self.count * rate,
            "runtime": run_ns / 1e6,
            "lat_ns": {**latency, "stddev": deviation, "bins": self.bins},
        } | ({} if self.bytes is None else {"io_bytes": self.bytes, "bw_bytes": self.bytes * rate})


class User:
    """One user with its files."""

    def __init__(self, job: Job, number: int) -> None:
        self._job, self._number = job, number
        self._random = random.Random(number)  # noqa: S311 (the same in each run)
        self._names = [_path(n, str(n)) for n in range(number, job.files, job.users)]
        self._data = memoryview(os.urandom(2 * job.most_bytes))
        self._buffer = bytearray(2 * job.most_bytes)
        self._untimed_ns = 0
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        needed = folders() if job.is_durable else (".",)
        self._folders = {folder: os.open(folder, flags) for folder in needed}

    def run(self) -> dict[str, Any]:
        """Make the job's calls until its time is over, or all are made; return a job of fio's."""
        calls: dict[str, Calls] = {}
        begin = now = _clock()
        until = begin + int(self._job.run_s * 1e9)
        for kind, call in getattr(self, f"_{self._job.op}")():
            before, self._untimed_ns = _clock(), 0
            moved = call()
            now = _clock()
            calls.setdefault(kind, Calls()).add(now - before - self._untimed_ns, moved)
            if now >= until:
                break
        return {kind: each.as_fio(max(1, now - begin)) for kind, each in calls.items()}

    def _prepare(self) -> _Acts:
        """Write the files, to the storage, and take them out of the cache."""
        for name in self._names:
            self._write_new(name)
        if _libc.syncfs(self._folders["."]):
            raise OSError(ctypes.get_errno(), "cannot write the files")
        for name in self._names:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        yield from ()

    def _create(self) -> _Acts:
        for name in self._names:
            yield "create", partial(self._write_new, name)

    def _stat(self) -> _Acts:
        while self._names:
            yield "stat", partial(_stat, self._random.choice(self._names))

    def _open_read(self) -> _Acts:
        while self._names:
            yield "open_read", partial(self._read, self._random.choice(self._names))

    def _rename(self) -> _Acts:
        for at in cycle(range(len(self._names))):
            old = self._names[at]
            self._names[at] = old[:-1] if old.endswith("-") else f"{old}-"
            yield "rename", partial(self._move, old, self._names[at])

    def _unlink(self) -> _Acts:
        self._random.shuffle(self._names)
        for name in self._names:
            yield "unlink", partial(self._remove, name)

    def _mix(self) -> _Acts:
        """PostMark's transactions: a read or an append, then a create or a delete."""
        pick = self._random
        for made in count():
            if self._names:
                name = pick.choice(self._names)
                acts = ("open_read", self._read), ("append", self._append)
                kind, act = pick.choice(acts)
                yield kind, partial(act, name)
            if self._names and pick.random() < 0.5:
                name = self._names.pop(pick.randrange(len(self._names)))
                yield "unlink", partial(self._remove, name)
            else:
                self._names.append(_path(made, f"{self._number}.{made}"))
                yield "create", partial(self._write_new, self._names[-1])

    def _write_new(self, name: str) -> int:
        most = self._job.most_bytes
        moved = self._write(os.open(name, _NEW, 0o600), self._random.randint(LEAST_BYTES, most))
        self._settle(name)
        return moved

    def _append(self, name: str) -> int:
        fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        return self._write(fd, self._random.randint(LEAST_BYTES, _APPEND_BYTES))

    def _write(self, fd: int, size_bytes: int) -> int:
        # A different part of the random bytes each time, so that nothing is deduplicated.
        at = self._random.randrange(len(self._data) - size_bytes)
        moved = os.write(fd, self._data[at : at + size_bytes])
        if self._job.is_durable and self._job.op != "prepare":
            os.fsync(fd)
        os.close(fd)
        return moved

    def _read(self, name: str) -> int:
        """Open, read and close a file; the next read of its data is from the storage again."""
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        moved = os.readv(fd, [self._buffer])
        before = _clock()
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self._untimed_ns = _clock() - before
        os.close(fd)
        return moved

    def _move(self, old: str, new: str) -> None:
        os.rename(old, new)  # noqa: PTH104 (one call, as for unlink)
        self._settle(new)

    def _remove(self, name: str) -> None:
        os.unlink(name)  # noqa: PTH108
        self._settle(name)

    def _settle(self, name: str) -> None:
        """Make the change of a directory durable."""
        if self._job.is_durable and self._job.op != "prepare":
            os.fsync(self._folders[name.rpartition("/")[0]])


def folders() -> Iterator[str]:
    """All directories, each after the one that it is in."""
    yield "."
    for first in range(_A_LEVEL):
        yield f"{first}"
        yield from (f"{first}/{second}" for second in range(_A_LEVEL))


def _stat(name: str) -> None:
    os.stat(name)  # noqa: PTH116 (one call, nothing else)


def _path(number: int, name: str) -> str:
    return f"{number % _A_LEVEL}/{number // _A_LEVEL % _A_LEVEL}/{name}"


def _child(job: Job, number: int, pipes: tuple[int, int, int]) -> None:
    """A user's process: wait until all are ready, make the calls, write the result."""
    ready, go, result = pipes
    user = User(job, number)
    os.write(ready, b"r")
    os.read(go, 1)
    with os.fdopen(result, "w") as file:
        json.dump({"jobname": job.name, **user.run()}, file)


def run(job: Job) -> list[dict[str, Any]]:
    """Run all users at the same time; return a job of fio's for each.

    ``prepare`` makes the directories, so it comes first.  SystemExit if a user fails, which
    says why on stderr.
    """
    for folder in folders() if job.op == "prepare" else ():
        Path(folder).mkdir(0o700, exist_ok=True)
    parent = os.getpid()
    (ready, is_ready), (go, begin) = os.pipe(), os.pipe()
    results = []
    for number in range(job.users):
        result, theirs = os.pipe()
        if not os.fork():
            status = 1
            try:
                _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                os.close(begin)
                if os.getppid() == parent:
                    _child(job, number, (is_ready, go, theirs))
                    status = 0
            except OSError as error:
                sys.stderr.write(f"user {number + 1}: {error}\n")
                sys.stderr.flush()
            finally:
                os._exit(status)
        os.close(theirs)
        results.append(result)
    os.close(is_ready)
    waiting = job.users
    while waiting and (answers := os.read(ready, waiting)):
        waiting -= len(answers)
    os.close(begin)
    texts = []
    for result in results:
        with os.fdopen(result) as file:
            texts.append(file.read())
    if not all(texts):
        raise SystemExit(1)
    return [json.loads(text) for text in texts]


if __name__ == "__main__":
    json.dump({"jobs": run(Job(**json.loads(sys.argv[1])))}, sys.stdout)
