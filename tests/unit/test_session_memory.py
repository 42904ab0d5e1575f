"""Recordings in memory: all of what they hold can be read, and they hold no more than they may."""

from __future__ import annotations

import os
import threading

from ioh.session.memory import MemoryRecording
from tests.sessions import long_one

SAMPLES, _ = long_one()


def _filled(max_bytes: int, count: int = 260) -> MemoryRecording:
    memory = MemoryRecording(max_bytes)
    for sample in SAMPLES[:count]:
        assert memory.write(sample)
    return memory


def test_the_older_half_goes_when_it_is_full_and_numbers_stay() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    one_byte_each = _filled(1 << 30)
    max_bytes = one_byte_each.size_bytes // 3
    one_byte_each.close()
    memory = MemoryRecording(max_bytes)
    assert (len(memory), memory.sample_at(0), list(memory.ticks(0))) == (0, None, [])
    largest = 0
    for tick, sample in enumerate(SAMPLES):
        before = memory.size_bytes
        assert memory.write(sample)
        largest = max(largest, memory.size_bytes - before)
        assert memory.size_bytes <= max_bytes + 2 * largest
        assert len(memory) == tick + 1
    first = memory.first_tick
    assert 100 < first < 259
    assert memory.size_bytes > max_bytes // 4
    assert memory.sample_at(first - 1) is None
    assert memory.sample_at(260) is memory.sample_at(-1) is None
    assert memory.sample_at(first + 5) == SAMPLES[first + 5]
    found = [(item.tick, item.sample) for item in memory.ticks(0)]
    assert found == list(enumerate(SAMPLES))[first:]
    memory.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208


def test_reading_that_is_overtaken_ends() -> None:
    memory = _filled(60_000, 10)
    reading = memory.ticks(0)
    assert next(reading).sample == SAMPLES[0]
    for sample in SAMPLES[10:]:
        memory.write(sample)
    assert memory.first_tick > 10
    assert next(reading, None) is None
    memory.close()


def test_one_thread_writes_while_another_reads() -> None:
    memory = MemoryRecording(200_000)
    faults: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set() and not faults:
            tick = len(memory) - 1
            first = memory.first_tick
            for at in (tick, first, (tick + first) // 2) if tick > first else ():
                found = memory.sample_at(at)
                if found != SAMPLES[at] and at >= memory.first_tick:
                    faults.append((at, found))
            wrong = (i for i in memory.ticks(max(0, tick - 3)) if i.sample != SAMPLES[i.tick])
            faults.extend(wrong)

    reader = threading.Thread(target=read)
    reader.start()
    for sample in SAMPLES:
        memory.write(sample)
    assert memory.first_tick > 0
    done.set()
    reader.join()
    memory.close()
    assert not faults
