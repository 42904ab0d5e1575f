"""The files of an endless recording, read as one: each sample once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ioh.commands import main
from ioh.model.errors import IohError
from ioh.model.sample import Sample
from ioh.playback.replay import ReplaySource
from ioh.recorder.rotated_files import part_name
from ioh.recorder.rotation import Recorder
from ioh.session.check import check
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.records import Header
from ioh.session.stream import Tick
from tests.support import fakes
from tests.support.sessions import Shown, items, recorded


@cache
def parts(count: int, keep: int | None) -> tuple[list[Sample], dict[str, bytes]]:
    """Samples, and the files r-0001.ioh and so on that hold them, with a mark after each 10th."""
    samples = fakes.first(count)
    with TemporaryDirectory() as folder:
        recorder = Recorder(
            lambda part: FileOutput(part_name(f"{folder}/r.ioh", part)), max_bytes=10_000, keep=keep
        )
        for at, sample in enumerate(samples):
            assert recorder.write(sample)
            if at % 10 == 9:
                recorder.mark(f"mark {at}")
        recorder.close()
        return samples, {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def endless(folder: Path, count: int = 60, keep: int | None = None) -> list[Sample]:
    """Write such files into a directory; return their samples."""
    samples, files = parts(count, keep)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return samples


def joined(folder: Path) -> bytes:
    """What ``cat r-*.ioh`` prints."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("r-*.ioh")))


@pytest.mark.parametrize("piece", [997, 1 << 24])
def test_each_sample_is_read_once(tmp_path: Path, piece: int) -> None:
    samples = endless(tmp_path)
    assert len(list(tmp_path.iterdir())) > 2
    found = list(items(joined(tmp_path), piece, joins=True))
    ticks = [item for item in found if isinstance(item, Tick)]
    assert [tick.sample for tick in ticks] == samples
    assert [tick.tick for tick in ticks] == list(range(len(samples)))
    assert len([item for item in found if isinstance(item, Header)]) == 1


def test_verify_merges_the_files_into_one(tmp_path: Path, shown: Shown) -> None:
    samples = endless(tmp_path, keep=3)
    parts = sorted(path.name for path in tmp_path.iterdir())
    together, whole = tmp_path / "cat", tmp_path / "whole.ioh"
    together.write_bytes(joined(tmp_path))
    out = shown("verify", together, "--repair", whole)
    assert f"part       {int(parts[0][2:6])} to {int(parts[-1][2:6])}\n" in out
    assert "verdict    whole\n" in out
    with Session(str(whole)) as session:
        held = [tick.sample for tick in session.ticks(0)]
        marks = [mark.text for mark in session.marks()]
    assert held == samples[-len(held) :]
    assert len(held) > 10
    assert marks[-1] == "mark 59"
    assert check(str(whole)).faults == []


def test_the_files_in_a_pipe_are_one_recording(tmp_path: Path) -> None:
    samples = endless(tmp_path)
    (tmp_path / "cat").write_bytes(joined(tmp_path))
    with (
        (tmp_path / "cat").open("rb") as file,
        ReplaySource("-", speed=None, stdin_fd=file.fileno()) as source,
    ):
        played = [item.sample for item in source if isinstance(item, Tick)]
    assert played == samples


@pytest.mark.parametrize("last", [None, 0.5])
@pytest.mark.parametrize("command", ["text", "report", "export"])
def test_concatenated_files_are_refused_with_what_to_do(
    tmp_path: Path, shown: Shown, refused: Shown, command: str, last: float | None
) -> None:
    endless(tmp_path, 30)
    together, whole = tmp_path / "cat.ioh", tmp_path / "whole.ioh"
    data = joined(tmp_path)
    if last is not None:  # the last one is truncated and has no index of its own
        data = data[: -int(max(tmp_path.iterdir()).stat().st_size * last)]
    together.write_bytes(data)
    assert refused(command, together) == (
        f"ioh: {together} holds several recordings, one after the other. "
        f"Merge them: ioh verify {together} --repair NEW\n"
    )
    main(["verify", str(together), "--repair", str(whole)])
    assert main([command, str(whole)]) == 0


def test_a_file_of_two_recordings_that_begin_at_sample_0_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cat.ioh"
    samples = fakes.first(30)
    later = [replace(sample, time_unix_s=sample.time_unix_s + 60) for sample in samples]
    for pair in ((samples, later), (samples, samples[:20]), (samples[:3], samples)):
        path.write_bytes(b"".join(map(recorded, pair)))
        with pytest.raises(IohError, match="holds several recordings"):
            Session(str(path))


def test_parts_that_do_not_follow_each_other_are_refused(tmp_path: Path) -> None:
    endless(tmp_path)
    first, second, third = (tmp_path / f"r-000{part}.ioh" for part in (1, 2, 3))
    for pair in ((first, third), (second, first), (first, first)):
        data = b"".join(path.read_bytes() for path in pair)
        with pytest.raises(IohError, match="continues with a different recording"):
            list(items(data, 4096, joins=True))


def test_a_name_that_exists_only_in_parts_lists_the_parts(here: Path, refused: Shown) -> None:
    endless(here)
    last = max(path.name for path in here.iterdir())
    assert refused("report", "r.ioh") == (
        f"ioh: no recording r.ioh, but r-0001.ioh to {last}. "
        "Give one of them, or all: cat r-*.ioh | ioh replay -\n"
    )
    made = "ioh: no recording other.ioh. Make one with: ioh record\n"
    assert refused("report", "other.ioh") == made
