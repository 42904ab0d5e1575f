"""The recording of a bench: what a mark ends is in the file when its answer has come."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from ioh.bench import watch
from tests.kernel.talker import wait_until

SIZE = 60_000  # fits into a pipe
CHILD = f"""
import os, pathlib, sys
os.write(1, bytes({SIZE}))
pathlib.Path(sys.argv[1]).touch()
sys.stdin.read()
"""


def test_all_that_was_recorded_is_in_the_file_however_slowly_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def slow(fd: int, data: memoryview) -> int:
        time.sleep(0.15)  # a busy machine
        return write(fd, data[: SIZE // 4])

    written = tmp_path / "written"
    monkeypatch.setattr(watch, "_COMMAND", (sys.executable, "-c", CHILD, str(written)))
    monkeypatch.setattr(os, "write", slow)
    recorder = watch.BenchRecorder(tmp_path / "run.ioh")
    recorder.begin(lambda: True)
    wait_until(written.exists)
    recorder.flush()
    assert (tmp_path / "run.ioh").stat().st_size == SIZE
    recorder.close()


def test_a_recording_that_never_begins_leaves_no_file_and_no_process(tmp_path: Path) -> None:
    recorder = watch.BenchRecorder(tmp_path / "run.ioh")
    (waiting,) = psutil.Process().children()
    recorder.close()
    assert not waiting.is_running()
    assert list(tmp_path.iterdir()) == []
