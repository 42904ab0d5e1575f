"""Reads BPF maps by descriptor: whole maps in batches, per-CPU values summed."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ioh.bpf.counters import FEW_CPUS, Bytes, import_numpy, sum_columns, sum_entries
from ioh.bpf.libbpf import libbpf

_PERCPU_TYPES = frozenset({5, 6, 10, 21})  # per-CPU hash, array, LRU hash, cgroup storage
_NOEXIST = 1  # BPF_NOEXIST
_BATCH = 1024
# The lock of a hash bucket is held (since 6.15 with two more error codes): continue with that
# bucket.
_BUSY = (errno.EBUSY, errno.EDEADLK, errno.ETIMEDOUT)


@cache
def possible_cpus() -> int:
    """The number of values in a per-CPU map: possible CPUs, not online ones."""
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
        last = file.read().strip().replace(",", "-").split("-")[-1]
    return int(last) + 1


def preload() -> None:
    """Import what reading maps needs, before the privilege to read the files is dropped."""
    if possible_cpus() > FEW_CPUS:
        import_numpy()


def _shared(buffer: mmap.mmap | bytearray) -> tuple[Any, memoryview]:
    """A buffer for the kernel, and a view of it; an mmap takes memory only where written."""
    return (ctypes.c_char * len(buffer)).from_buffer(buffer), memoryview(buffer)


def _refused(code: int) -> OSError:
    return OSError(code, os.strerror(code))


@dataclass(frozen=True, slots=True)
class MapSpec:
    """A map's parameters: the kernel's own numbers (BPF_MAP_CREATE), sizes in bytes."""

    name: str
    kind: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0


class Map:
    """One BPF map by its descriptor; every method raises OSError if the kernel refuses."""

    def __init__(self, spec: MapSpec, fd: int) -> None:
        self.spec = spec
        self.fd = fd
        self._lib = libbpf()
        self._words = (spec.value_size + 7) // 8
        is_percpu = spec.kind in _PERCPU_TYPES
        self._read_size = 8 * self._words * possible_cpus() if is_percpu else spec.value_size
        self._value, self._view = _shared(bytearray(self._read_size))
        self._batch: tuple[Any, Any, memoryview, int] | None = None

    def lookup(self, key: bytes) -> bytes | None:
        """The raw value (per-CPU: of all CPUs, each padded to 8 bytes); None if missing."""
        if self._lib.bpf_map_lookup_elem(self.fd, key, self._value) == 0:
            return bytes(self._view)
        code = ctypes.get_errno()
        if code == errno.ENOENT:
            return None
        raise _refused(code)

    def at(self, index: int) -> memoryview:
        """The value of an array's slot; valid until the next call."""
        if self._lib.bpf_map_lookup_elem(self.fd, index.to_bytes(4, sys.byteorder), self._value):
            raise _refused(ctypes.get_errno())
        return self._view

    def span(self, first: int, count: int) -> memoryview:
        """The values of adjacent slots of an array; valid until the next batch."""
        if self._batch is None or self._batch[3] < count:
            self._batch = self._buffers(max(count, self._room()))
        keys, values, view, _ = self._batch
        before = (first - 1).to_bytes(4, sys.byteorder) if first else None
        found, cursor = ctypes.c_uint32(count), ctypes.create_string_buffer(8)
        if self._lib.bpf_map_lookup_batch(
            self.fd, before, cursor, keys, values, ctypes.byref(found), None
        ):
            code = ctypes.get_errno()
            if code != errno.ENOENT:  # behind the last slot
                raise _refused(code)
        return view[: self._read_size * found.value]

    def update(self, key: bytes, value: bytes) -> None:
        """Set one value."""
        if self._lib.bpf_map_update_elem(self.fd, key, value, 0) != 0:
            raise _refused(ctypes.get_errno())

    def ensure(self, key: bytes) -> None:
        """Add an entry of zeros, unless it exists or the map is full."""
        value = bytes(self._read_size)
        if self._lib.bpf_map_update_elem(self.fd, key, value, _NOEXIST) != 0:
            code = ctypes.get_errno()
            if code not in {errno.EEXIST, errno.E2BIG}:
                raise _refused(code)

    def delete(self, key: bytes) -> None:
        """Delete an entry; ignore a missing one."""
        if self._lib.bpf_map_delete_elem(self.fd, key) != 0:
            code = ctypes.get_errno()
            if code != errno.ENOENT:
                raise _refused(code)

    def items_bytes(self) -> list[tuple[bytes, bytes]]:
        """Every entry of a hash."""
        return [(key, bytes(value)) for key, value in self.entries()]

    def entries(self) -> Iterator[tuple[bytes, Bytes]]:
        """Iterate over the entries; a value is valid until the next step."""
        size = self._read_size
        for keys, values in self._batches(self._lib.bpf_map_lookup_batch):
            for at, key in enumerate(keys):
                yield key, values[at * size : (at + 1) * size]

    def changed_entries(
        self, words: int, before: dict[bytes, tuple[int, ...]]
    ) -> Iterator[tuple[bytes, Bytes]]:
        """Iterate over entries of a per-CPU hash whose first ``words`` counters have changed sums.

        ``before`` has the old sums by key, and is updated.
        """
        size = self._read_size
        for keys, values in self._batches(self._lib.bpf_map_lookup_batch):
            for at, (key, sums) in enumerate(zip(keys, self._sums_of(values, words), strict=True)):
                if before.get(key) != sums:
                    before[key] = sums
                    yield key, values[at * size : (at + 1) * size]

    def sums(self, words: int) -> list[tuple[bytes, tuple[int, ...]]]:
        """Every entry of a per-CPU hash, with the sums of its first ``words`` counters."""
        found: list[tuple[bytes, tuple[int, ...]]] = []
        for keys, values in self._batches(self._lib.bpf_map_lookup_batch):
            found += zip(keys, self._sums_of(values, words), strict=True)
        return found

    def take_sums(
        self, keys: Iterable[bytes], words: int
    ) -> list[tuple[bytes, bytes, tuple[int, ...]]]:
        """Remove entries; return key, last value and sums of those that existed."""
        taken = [(key, value) for key in keys if (value := self.take(key)) is not None]
        rows = self._sums_of(b"".join(value for _, value in taken), words)
        return [(key, value, row) for (key, value), row in zip(taken, rows, strict=True)]

    def _sums_of(self, values: Bytes, words: int) -> list[tuple[int, ...]]:
        """The sums over the CPUs of the first ``words`` counters of adjacent values."""
        return sum_entries(values, self._words, possible_cpus(), words)

    def drain(self) -> list[tuple[bytes, bytes]]:
        """Remove and return every entry, each with its last value."""
        size = self._read_size
        return [
            (key, bytes(values[at * size : (at + 1) * size]))
            for keys, values in self._batches(self._lib.bpf_map_lookup_and_delete_batch)
            for at, key in enumerate(keys)
        ]

    def take(self, key: bytes) -> bytes | None:
        """Remove an entry and return its last value; None if missing."""
        if self._lib.bpf_map_lookup_and_delete_elem(self.fd, key, self._value) == 0:
            return bytes(self._view)
        if ctypes.get_errno() == errno.ENOENT:
            return None
        # Hashes support it since 5.14; before that, an update in between is lost.
        value = self.lookup(key)
        self.delete(key)
        return value

    def _batches(self, call: Callable[..., int]) -> Iterator[tuple[list[bytes], memoryview]]:
        """Batches of keys and adjacent values, by one of the kernel's batch calls."""
        key_size, value_size = self.spec.key_size, self._read_size
        if self._batch is None:
            self._batch = self._buffers(self._room())
        keys, values, view, room = self._batch
        cursor = ctypes.create_string_buffer(max(key_size, 8))
        start: Any = None
        while True:
            count = ctypes.c_uint32(room)
            failed = call(self.fd, start, cursor, keys, values, ctypes.byref(count), None)
            code = ctypes.get_errno() if failed else 0
            if code == errno.ENOSPC and room < self.spec.max_entries:
                # One hash bucket has more entries than fit into the buffers.
                self._batch = self._buffers(min(self.spec.max_entries, room * 4))
                keys, values, view, room = self._batch
                continue
            if code not in (0, errno.ENOENT, *_BUSY):
                raise _refused(code)
            raw_keys = ctypes.string_at(keys, key_size * count.value)
            split = [raw_keys[at : at + key_size] for at in range(0, len(raw_keys), key_size)]
            yield split, view[: value_size * count.value]
            if code == errno.ENOENT:
                return
            start = cursor

    def _room(self) -> int:
        """Entries in a batch."""
        return max(1, min(_BATCH, self.spec.max_entries, (4 << 20) // self._read_size))

    def _buffers(self, room: int) -> tuple[Any, Any, memoryview, int]:
        """Buffers for the keys and values of a batch, a view of the values, and the room."""
        keys, _ = _shared(mmap.mmap(-1, self.spec.key_size * room))
        return keys, *_shared(mmap.mmap(-1, self._read_size * room)), room

    def sum_cpus(self, raw: Bytes) -> list[int]:
        """Sum a per-CPU value of 64-bit counters over the CPUs."""
        return sum_columns(raw, self._words, self._words)

    def give_back(self) -> None:
        """Free the buffers, which keep the memory of the largest batch so far."""
        self._batch = None

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


Maps = Mapping[str, Map]
