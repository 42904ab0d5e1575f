"""BPF maps read by descriptor: whole maps at once, per-CPU values summed."""

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
# A hash bucket's lock is held (since 6.15 the kernel says so in two more ways): it is the next one
# to be read.
_BUSY = (errno.EBUSY, errno.EDEADLK, errno.ETIMEDOUT)


@cache
def possible_cpus() -> int:
    """How many values a per-CPU map holds: the kernel's possible CPUs, not those online."""
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
        last = file.read().strip().replace(",", "-").split("-")[-1]
    return int(last) + 1


def preload() -> None:
    """Import now what reading maps needs, before the privilege to read the files is gone."""
    if possible_cpus() > FEW_CPUS:
        import_numpy()


def _shared(buffer: mmap.mmap | bytearray) -> tuple[Any, memoryview]:
    """What the kernel writes to, and the same as bytes; pages of an mmap exist once it does."""
    return (ctypes.c_char * len(buffer)).from_buffer(buffer), memoryview(buffer)


def _refused(code: int) -> OSError:
    return OSError(code, os.strerror(code))


@dataclass(frozen=True, slots=True)
class MapSpec:
    """What the loader says of a map: the kernel's own numbers (BPF_MAP_CREATE), sizes in bytes."""

    name: str
    kind: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0


class Map:
    """One BPF map by its descriptor; OSError, from every method, where the kernel refuses."""

    def __init__(self, spec: MapSpec, fd: int) -> None:
        self.spec = spec
        self.fd = fd
        self._lib = libbpf()
        self.percpu = spec.kind in _PERCPU_TYPES
        self._words = (spec.value_size + 7) // 8
        self._read_size = 8 * self._words * possible_cpus() if self.percpu else spec.value_size
        self._value, self._view = _shared(bytearray(self._read_size))
        self._batch: tuple[Any, Any, memoryview, int] | None = None

    def lookup(self, key: bytes) -> bytes | None:
        """The value as the kernel gives it (per-CPU: all CPUs', each padded to 8 bytes)."""
        if self._lib.bpf_map_lookup_elem(self.fd, key, self._value) == 0:
            return bytes(self._view)
        code = ctypes.get_errno()
        if code == errno.ENOENT:
            return None
        raise _refused(code)

    def at(self, index: int) -> memoryview:
        """The value of one slot of an array, there until the next one is asked for."""
        if self._lib.bpf_map_lookup_elem(self.fd, index.to_bytes(4, sys.byteorder), self._value):
            raise _refused(ctypes.get_errno())
        return self._view

    def update(self, key: bytes, value: bytes) -> None:
        """Set one value."""
        if self._lib.bpf_map_update_elem(self.fd, key, value, 0) != 0:
            raise _refused(ctypes.get_errno())

    def ensure(self, key: bytes) -> None:
        """Make an entry of zeros where there is none and where there is room."""
        value = bytes(self._read_size)
        if self._lib.bpf_map_update_elem(self.fd, key, value, _NOEXIST) != 0:
            code = ctypes.get_errno()
            if code not in {errno.EEXIST, errno.E2BIG}:
                raise _refused(code)

    def delete(self, key: bytes) -> None:
        """Drop one entry; that it is gone already is no error."""
        if self._lib.bpf_map_delete_elem(self.fd, key) != 0:
            code = ctypes.get_errno()
            if code != errno.ENOENT:
                raise _refused(code)

    def items_bytes(self) -> list[tuple[bytes, bytes]]:
        """Every entry of a hash."""
        return [(key, bytes(value)) for key, value in self.entries()]

    def entries(self) -> Iterator[tuple[bytes, Bytes]]:
        """The same one by one: a value is there until the next one is asked for."""
        size = self._read_size
        for keys, values in self._batches(self._lib.bpf_map_lookup_batch):
            for at, key in enumerate(keys):
                yield key, values[at * size : (at + 1) * size]

    def changed_entries(
        self, words: int, before: dict[bytes, tuple[int, ...]]
    ) -> Iterator[tuple[bytes, Bytes]]:
        """Those of a per-CPU hash whose first ``words`` counters do not add up to what they did.

        ``before`` has these sums by key, and is brought up to date.
        """
        size = self._read_size
        for keys, values in self._batches(self._lib.bpf_map_lookup_batch):
            for at, (key, sums) in enumerate(zip(keys, self._sums_of(values, words), strict=True)):
                if before.get(key) != sums:
                    before[key] = sums
                    yield key, values[at * size : (at + 1) * size]

    def sums(self, words: int) -> list[tuple[bytes, tuple[int, ...]]]:
        """Every entry of a per-CPU hash with its first ``words`` counters added up."""
        found: list[tuple[bytes, tuple[int, ...]]] = []
        for keys, values in self._batches(self._lib.bpf_map_lookup_batch):
            found += zip(keys, self._sums_of(values, words), strict=True)
        return found

    def take_sums(
        self, keys: Iterable[bytes], words: int
    ) -> list[tuple[bytes, bytes, tuple[int, ...]]]:
        """Remove entries; of those that were there the key, the last value, and its sums."""
        taken = [(key, value) for key in keys if (value := self.take(key)) is not None]
        rows = self._sums_of(b"".join(value for _, value in taken), words)
        return [(key, value, row) for (key, value), row in zip(taken, rows, strict=True)]

    def _sums_of(self, values: Bytes, words: int) -> list[tuple[int, ...]]:
        """The first ``words`` counters of values that lie end to end, added up over the CPUs."""
        return sum_entries(values, self._words, possible_cpus(), words)

    def drain(self) -> list[tuple[bytes, bytes]]:
        """Every entry, taken out of the map; an entry updated meanwhile keeps its last value."""
        size = self._read_size
        return [
            (key, bytes(values[at * size : (at + 1) * size]))
            for keys, values in self._batches(self._lib.bpf_map_lookup_and_delete_batch)
            for at, key in enumerate(keys)
        ]

    def take(self, key: bytes) -> bytes | None:
        """Remove one entry and return its last value; None when it was gone already."""
        if self._lib.bpf_map_lookup_and_delete_elem(self.fd, key, self._value) == 0:
            return bytes(self._view)
        if ctypes.get_errno() == errno.ENOENT:
            return None
        # Hashes have it since 5.14; before, what is added in between is not seen.
        value = self.lookup(key)
        self.delete(key)
        return value

    def _batches(self, call: Callable[..., int]) -> Iterator[tuple[list[bytes], memoryview]]:
        """Keys and values, the latter end to end, by one of the kernel's calls for many at once."""
        key_size, value_size = self.spec.key_size, self._read_size
        if self._batch is None:
            room = max(1, min(_BATCH, self.spec.max_entries, (4 << 20) // value_size))
            self._batch = self._buffers(room)
        keys, values, view, room = self._batch
        cursor = ctypes.create_string_buffer(max(key_size, 8))
        start: Any = None
        while True:
            count = ctypes.c_uint32(room)
            failed = call(self.fd, start, cursor, keys, values, ctypes.byref(count), None)
            code = ctypes.get_errno() if failed else 0
            if code == errno.ENOSPC and room < self.spec.max_entries:
                # One hash bucket holds more entries than the buffers do.
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

    def _buffers(self, room: int) -> tuple[Any, Any, memoryview, int]:
        """Room for the keys and values of a batch, the latter as bytes, too; for how many."""
        keys, _ = _shared(mmap.mmap(-1, self.spec.key_size * room))
        return keys, *_shared(mmap.mmap(-1, self._read_size * room)), room

    def sum_cpus(self, raw: Bytes) -> list[int]:
        """A per-CPU value of 64-bit counters, added up over the CPUs."""
        return sum_columns(raw, self._words, self._words)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


Maps = Mapping[str, Map]
