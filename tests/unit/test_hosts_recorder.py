"""``R`` on several hosts records all of them into one file; a failure is one line."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ioh.model.errors import IohError
from ioh.model.intervals import interval
from ioh.model.snapshot import LayerSnapshot
from ioh.player import recorder as player_recorder
from ioh.player.recorder import ScreenRecorder
from ioh.recorder.rotation import Recorder
from ioh.session.check import check
from ioh.session.join import Joining
from ioh.session.reader import Session
from ioh.session.recorded_file import hosts_of
from tests.support.two_hosts import ADDRESSES, host, parts


def test_r_records_all_hosts_into_one_file(here: Path) -> None:
    recorder = ScreenRecorder(("db01", "nfs01"), 1.0)
    ours, theirs = parts("db01", host("db01", 9)), parts("nfs01", host("nfs01", 9))
    recorder.write(ours[0])  # before recording was requested
    assert "recording 2 hosts into" in recorder.toggle()
    for at in range(1, 8):
        recorder.write(ours[at])
        recorder.write(theirs[at])
        assert recorder.state.size_bytes > 0
        if at == 4:
            assert recorder.mark("run 2") == "marked, also in the recording"
    assert {path.name.split("-")[1] for path in here.iterdir()} == {"db01", "nfs01"}
    said = recorder.toggle()
    (made,) = here.iterdir()
    assert said == f"recorded {made.stat().st_size:,} bytes of 2 hosts into {made}"
    assert not recorder.state.path
    assert hosts_of(str(made)) == ("db01", "nfs01")
    for name in ("db01", "nfs01"):
        with Session(f"{made}#{name}") as session:
            assert len(session) == 8
            assert [mark.text for mark in session.marks()] == ["run 2"]
            assert session.header.addresses == [ADDRESSES[name].encode()]


def test_a_lost_host_has_no_numbers_for_that_time(here: Path) -> None:
    """Its ioh started again, and so did its totals."""
    recorder = ScreenRecorder(("nfs01",), 1.0)
    recorder.toggle()
    before, after = host("nfs01", 3), host("nfs01", 5)
    later = [
        replace(s, mono_ns=s.mono_ns + 60 * 10**9, time_unix_s=s.time_unix_s + 60) for s in after
    ]
    for part in (*parts("nfs01", before), *parts("nfs01", later)):
        recorder.write(part)
    recorder.close()
    (made,) = here.iterdir()
    with Session(str(made)) as session:  # with one host it is an ordinary recording
        shown = [interval(*pair) for pair in pairwise(t.sample for t in session.ticks(0))]
    reads = []
    for each in shown:
        assert each is not None
        layer = each.layers.get("nfs_server")
        reads.append(layer.ops["read_disk"].count if isinstance(layer, LayerSnapshot) else None)
    assert reads == [10, 10, None, None, 10, 10, 10, 10]


def test_a_failure_is_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = ScreenRecorder(("db01", "nfs01"), 1.0)
    assert recorder.mark("nothing is recorded") == "marked"
    recorder.toggle()
    recorder.write(parts("db01", host("db01", 2))[0])

    def fail(self: object, text: str) -> bool:
        del self, text
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "mark", fail)
        said = recorder.mark("run 2")
    assert said == "marked on the screen only: [Errno 28] No space left on device"
    recorder.close()
    gone = here / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(player_recorder, "writable_folder", lambda: ".")
    assert recorder.toggle() == "not recording: No such file or directory"


def test_recordings_that_cannot_be_joined_stay_one_file_per_host(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = ScreenRecorder(("db01", "nfs01"), 1.0)
    recorder.toggle()
    for name in ("db01", "nfs01"):
        for part in parts(name, host(name, 4)):
            recorder.write(part)

    def full(self: object, names: object) -> None:
        del self, names
        cause = "cannot write x: No space left on device"
        raise IohError(cause, "")

    monkeypatch.setattr(Joining, "write", full)
    said = recorder.toggle()
    assert said.startswith("recorded into ")
    assert said.endswith(", one file each: cannot write x: No space left on device")
    files = sorted(here.iterdir())
    assert [path.name.split("-")[1] for path in files] == ["db01", "nfs01"]
    assert all(check(str(path)).ticks == 4 for path in files)
