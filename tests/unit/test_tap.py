"""Recording from within a live view: begun and ended at any time, never in the view's way."""

from __future__ import annotations

import errno

from ioh.session.writer import SessionWriter
from ioh.sources.tap import Tap
from tests import fakes
from tests.sessions import Memory, samples_of

SAMPLES = fakes.first(8)


def test_what_is_shown_while_recording_is_recorded() -> None:
    memory = Memory()
    tap = Tap(SAMPLES)
    seen = []
    for tick, sample in enumerate(tap):
        seen.append(sample)
        if tick == 2:
            tap.start(SessionWriter(memory))
            assert tap.is_recording
        if tick == 5:
            tap.stop()
            assert not tap.is_recording
    assert seen == SAMPLES
    assert samples_of(bytes(memory.data)) == SAMPLES[2:6]
    assert memory.closed


def test_another_recording_ends_the_first_and_the_end_of_the_view_both() -> None:
    first, second = Memory(), Memory()
    tap = Tap(SAMPLES)
    for tick, _ in enumerate(tap):
        if tick in {0, 4}:
            tap.start(SessionWriter(second if tick else first))
    assert samples_of(bytes(first.data)) == SAMPLES[:5]
    assert samples_of(bytes(second.data)) == SAMPLES[4:]
    assert first.closed
    assert second.closed
    tap.stop()


def test_a_recording_that_fails_does_not_end_the_view() -> None:
    memory = Memory()
    tap = Tap(SAMPLES)
    seen = 0
    for tick, _ in enumerate(tap):
        seen += 1
        if tick == 1:
            tap.start(SessionWriter(memory))
        if tick == 3:
            memory.fail = OSError(errno.EIO, "Input/output error")
    assert seen == len(SAMPLES)
    assert tap.failure == "Input/output error"
    assert not tap.is_recording
    assert samples_of(bytes(memory.data)) == SAMPLES[1:4]


def test_a_full_disk_is_no_failure() -> None:
    memory = Memory()
    tap = Tap(SAMPLES)
    for tick, _ in enumerate(tap):
        if tick == 1:
            tap.start(SessionWriter(memory))
        memory.fail = OSError(errno.ENOSPC, "full") if 3 <= tick < 5 else None
    assert tap.failure == ""
    assert samples_of(bytes(memory.data)) == [*SAMPLES[1:4], *SAMPLES[6:]]
