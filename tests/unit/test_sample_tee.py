"""Recording from within a live view: begun and ended at any time, never in the view's way."""

from __future__ import annotations

from ioh.feeds.sample_tee import SampleTee
from ioh.session.writer import SessionWriter
from tests import fakes
from tests.sessions import Memory, samples_of

SAMPLES = fakes.first(8)


def test_another_recording_ends_the_first_and_the_end_of_the_view_both() -> None:
    first, second = Memory(), Memory()
    tee = SampleTee(SAMPLES)
    for tick, _ in enumerate(tee):
        if tick in {0, 4}:
            tee.start(SessionWriter(second if tick else first))
    assert samples_of(bytes(first.data)) == SAMPLES[:5]
    assert samples_of(bytes(second.data)) == SAMPLES[4:]
    assert first.closed
    assert second.closed
    tee.stop()
