"""Recording from within a live view: begun and ended at any time, never in the view's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.feeds.screen_recorder import ScreenRecorder
from tests import fakes
from tests.sessions import samples_of

SAMPLES = fakes.first(8)


def test_a_key_or_the_end_of_the_view_ends_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = ScreenRecorder(lambda _: None, None)
    paths, said = [], []
    for tick, sample in enumerate(SAMPLES):
        recorder.write(sample)
        if tick in {0, 4, 5}:
            said.append(recorder.toggle("db", 1.0).partition(" ")[0])
            paths.append(recorder.state.path)
    recorder.close()  # as the view does in its end
    assert said == ["recording", "recorded", "recording"]
    assert samples_of(Path(paths[0]).read_bytes()) == SAMPLES[:5]
    assert samples_of(Path(paths[2]).read_bytes()) == SAMPLES[5:]
    assert recorder.state.path == paths[1] == ""
