"""Recordings of several hosts in one file: joined, read host by host, and played together."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import main
from ioh.feeds import screen_recorder
from ioh.feeds.hosts_recorder import HostsRecorder
from ioh.feeds.joined_feed import JoinedFeed, Played
from ioh.findings.engine import Engine
from ioh.layers import all_layers as ALL_LAYERS  # noqa: N812
from ioh.model.errors import ExitCode, IohError
from ioh.model.feed import News
from ioh.model.intervals import all_layers, interval
from ioh.model.pairs import HostInterval
from ioh.model.sample import LayerSample, Sample
from ioh.model.snapshot import LayerSnapshot
from ioh.playback.joined import Companions
from ioh.playback.replay import Span
from ioh.session.check import check
from ioh.session.frame import Kind, make_frame
from ioh.session.join import Joining
from ioh.session.packing import Packer
from ioh.session.reader import Session, hosts_of
from ioh.session.records import encode_plain
from ioh.session.rotation import Recorder
from tests import fake_ssh, fakes
from tests.pty_screen import ROOT, PtyScreen
from tests.sessions import recorded, samples_of, small

ADDRESSES = fake_ssh.ADDRESSES


def host(name: str, count: int, first: int = 0) -> list[Sample]:
    """Samples of ``db01``, which mounts from ``nfs01``, or of that one, a second apart."""
    found = ALL_LAYERS()
    made = []
    for tick in range(first, first + count):
        count = tick * fake_ssh.READS
        layers = fake_ssh.layers(name, count)
        if name == "nfs01":  # whose disk has 600 of each call's 1,000 us, 100 of them in the queue
            layers["block"] = LayerSample("bpf", {"read": fake_ssh.reads(count, 600, 100)})
        empty = fakes.sample(tick, {}, hostname=f"{name}.example")
        specs = {layer: found[layer].spec for layer in layers}
        made.append(replace(empty, layers=layers, specs=specs))
    return made


def write(path: Path, samples: list[Sample], name: str = "", **options: Any) -> str:
    addresses = [ADDRESSES[name]] if name else []
    path.write_bytes(recorded(samples, addresses=addresses, **options))
    return str(path)


def two(folder: Path, count: int = 20) -> str:
    """A file of both, ``nfs01`` beginning 5 s later and marked twice."""
    paths = [
        write(folder / "db01.ioh", host("db01", count), "db01", marks={3: "go"}),
        write(folder / "nfs01.ioh", host("nfs01", count - 5, 5), "nfs01", marks={3: "go"}),
    ]
    with Joining() as joining:
        for path in paths:
            joining.add(path, Path(path).stem)
        return joining.write([str(folder / "both.ioh")]).name


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_hosts_recording_is_in_it_byte_for_byte(tmp_path: Path) -> None:
    both = two(tmp_path)
    assert hosts_of(both) == ("db01", "nfs01")
    for name in hosts_of(both):
        alone = (tmp_path / f"{name}.ioh").read_bytes()
        with Session(f"{both}#{name}") as session:
            assert b"".join(session.pieces()) == alone
            assert session.size_bytes == len(alone)
            assert session.is_ended
            assert [mark.text for mark in session.marks()] == ["go"]
            assert [tick.sample for tick in session.ticks(0)] == samples_of(alone)
            assert session.sample_at(7) == samples_of(alone)[7]


@pytest.mark.parametrize("damaged", ["front", "back", "cut"])
def test_no_single_place_makes_it_unreadable(tmp_path: Path, damaged: str) -> None:
    both = two(tmp_path)
    data = bytearray(Path(both).read_bytes())
    if damaged == "front":
        data[9] ^= 0xFF
    elif damaged == "back":
        data[-3] ^= 0xFF
    else:
        del data[-400:]
    Path(both).write_bytes(data)
    assert hosts_of(both) == ("db01", "nfs01")
    lost = damaged == "cut"
    with Session(f"{both}#db01") as first, Session(f"{both}#nfs01") as second:
        assert len(first) == 20
        assert first.is_ended
        assert second.is_ended is not lost
        assert len(list(second.ticks(0))) <= 15 if lost else len(second) == 15


def test_sizes_beyond_all_bounds_lead_nowhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    listed = encode_plain([[[str(n).encode(), (1 << 62) - 1] for n in range(8)]])
    frame = make_frame(Kind.JOINED, 0, 0.0, Packer().pack(listed))
    path = tmp_path / "lies.ioh"
    path.write_bytes(frame + recorded(small(3)))
    assert len(hosts_of(str(path))) == 8
    for command in ("verify", "text", "replay"):
        assert main([command, str(path), *(["--as-text"] * (command == "replay"))]) != ExitCode.OK
        assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["a#b", "#", "x#y#z"])
def test_a_name_with_the_mark_in_it(tmp_path: Path, name: str) -> None:
    one, other = (write(tmp_path / f"{n}.ioh", host(n, 3), n) for n in ("db01", "nfs01"))
    with Joining() as joining:
        joining.add(one, name)
        joining.add(other)
        made = joining.write([str(tmp_path / "both#1.ioh")]).name
    with Session(f"{made}#{name}") as session:
        assert len(session) == 3


@pytest.mark.parametrize("size", [-1, 1 << 61, 3])
def test_a_list_that_lies_is_bounded(tmp_path: Path, size: int) -> None:
    listed = encode_plain([[[b"a\x1b", size], [b"b", size]]])
    frame = make_frame(Kind.JOINED, 0, 0.0, Packer().pack(listed))
    path = tmp_path / "lies.ioh"
    path.write_bytes(frame + recorded(small(3)))
    with pytest.raises(IohError), Session(f"{path}#b"):
        pass
    if size > 3:
        with Session(f"{path}#a\x1b") as session:
            assert len(session) == 3


def test_text_and_json_have_the_hosts_together(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    both = two(tmp_path)
    assert main(["json", both]) == ExitCode.OK
    told = lines(capfd.readouterr().out)
    names = [line["host"]["name"] if line["host"] else "" for line in told]
    assert names.count("db01") == 19
    assert names.count("nfs01") == 14
    assert names[-3:] == ["db01", "nfs01", ""]
    together = [line for line in told if not line["host"]]
    assert [bool(line["pairs"]) for line in together] == [False] * 5 + [True] * 14
    read = together[-1]["pairs"][0]["ops"]["read"]
    assert (read["client_calls"], read["server_calls"]) == (10, 10)
    assert (read["rtt_us"], read["server_us"], read["network_us"]) == (5000, 1000, 4000)
    assert (read["block_queue_us"], read["device_us"]) == (100, 500)
    steps = {each["name"]: each["us"] for each in told[-3]["path"]["read"]["segments"]}
    assert steps == pytest.approx(
        {"nfs_queue": 300, "network": 4000, "nfs_server": 400, "block_queue": 100, "device": 500}
    )
    found = {each["rule"] for line in told if line["host"] for each in line["findings"]}
    assert "network_adds" in found
    assert main(["text", both, "--from", "go", "-t", "3"]) == ExitCode.OK
    shown = capfd.readouterr().out
    assert shown.count("==== db01 ====\n") == 3
    assert "R |db01 from nfs01:|      10|      10|   5.000|   1.000|   0.600|   4.000|  80" in shown
    assert main(["replay", both, "--as-text"]) == ExitCode.OK
    assert capfd.readouterr().out.count("# mark ") == 2  # of two moments
    assert main(["text", f"{both}#nfs01", "-t", "2"]) == ExitCode.OK
    assert "====" not in capfd.readouterr().out


@pytest.mark.parametrize("command", ["report", "export", "compare"])
def test_other_commands_want_one_host(
    tmp_path: Path, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    both = two(tmp_path)
    again = [f"{both}#db01"] if command == "compare" else []
    assert main([command, both, *again]) != ExitCode.OK
    assert f"is of several hosts: db01, nfs01. Give one: '{both}#db01'" in capfd.readouterr().err
    assert main([command, f"{both}#db01", *again]) == ExitCode.OK
    assert main([command, f"{both}#db02", *again]) != ExitCode.OK
    assert "no host db02" in capfd.readouterr().err


def test_a_mark_behind_the_last_interval_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = [
        write(tmp_path / "db01.ioh", host("db01", 4), "db01", marks={3: "over"}),
        write(tmp_path / "nfs01.ioh", host("nfs01", 6), "nfs01"),
    ]
    with Joining() as joining:
        for path in paths:
            joining.add(path)
        both = joining.write([str(tmp_path / "both.ioh")]).name
    assert main(["text", both]) == ExitCode.OK
    told = capfd.readouterr().out
    assert told.count("# mark ") == 1
    assert told.count("==== db01.example ====  nothing recorded of this interval\n") == 2


def test_a_pipe_of_it_is_refused(tmp_path: Path) -> None:
    both = two(tmp_path)
    with pytest.raises(IohError, match="of several hosts"):
        samples_of(Path(both).read_bytes())


def test_verify_looks_at_each_host_and_takes_one_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    both = two(tmp_path)
    assert main(["verify", both]) == ExitCode.OK
    assert capfd.readouterr().out.count("verdict    whole\n") == 2
    assert main(["verify", both, "--repair", "x"]) == ExitCode.USAGE
    assert "Repair one: ioh verify" in capfd.readouterr().err
    out = str(tmp_path / "again.ioh")
    assert main(["verify", f"{both}#nfs01", "--repair", out]) == ExitCode.OK
    assert check(out).ticks == 15
    with Session(out) as session:
        assert session.header.addresses == [ADDRESSES["nfs01"].encode()]


def test_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    both = two(tmp_path)
    for name in ("db01", "nfs01"):
        os.rename(f"{name}.ioh", f"my-{name}.ioh")  # noqa: PTH104
    assert main(["join", "my-db01.ioh", "my-nfs01.ioh"]) == ExitCode.OK
    made = capfd.readouterr().out.split(":")[0]
    assert made.startswith("ioh-db01.example-nfs01.example-20")
    assert hosts_of(made) == ("db01.example", "nfs01.example")
    assert os.stat(made).st_mode & 0o777 == 0o600  # noqa: PTH116
    third = write(tmp_path / "third.ioh", host("nfs01", 3, 100))
    assert main(["join", both, third, "-o", "three.ioh"]) == ExitCode.OK
    assert hosts_of("three.ioh") == ("db01", "nfs01", "nfs01.example")
    assert "no time in common" in capfd.readouterr().err
    for words, why in (
        (["my-db01.ioh"], "one host alone"),
        (["my-db01.ioh", "my-db01.ioh"], "are both of host db01.example"),
        (["my-db01.ioh", "my-nfs01.ioh", "-o", "three.ioh"], "exists"),
        (["my-db01.ioh", "/etc/passwd"], "is not a recording"),
        (["my-db01.ioh", "nothing"], "no recording nothing"),
        (["my-db01.ioh", "-"], "files only"),
    ):
        assert main(["join", *words]) != ExitCode.OK
        assert why in capfd.readouterr().err


def played(make_judge: Callable[[], Engine | None] = lambda: None, **changes: Any) -> Played:
    usual = Played(Span(), 1000.0, all_layers, None, True, make_judge, False)
    return replace(usual, **changes)


def news_of(feed: JoinedFeed) -> list[News]:
    news: list[News] = []

    def tell(each: News) -> None:
        news.append(each)
        if each.is_over:
            feed.stop()

    feed.run(tell)
    return news


def test_one_is_played_and_the_other_goes_with_it(tmp_path: Path) -> None:
    # Slow enough that each interval is judged: nfs01 was not there for all of a span of many.
    with JoinedFeed(two(tmp_path), ("db01", "nfs01"), played(Engine, speed=20.0)) as feed:
        news = news_of(feed)
        shown = [each for each in news if each.snapshot is not None]
        assert [each.host for each in shown[-2:]] == [0, 1]
        for each in shown:
            assert each.snapshot is not None
            assert each.tick is not None
            visited = feed.feeds[each.host].visit(each.tick)
            assert visited is not None
            assert visited.time_unix_s == each.snapshot.time_unix_s
            assert visited.pairs == each.snapshot.pairs
            assert bool(visited.pairs) == (each.host == 1 or each.tick >= 6)
        last = shown[-2].snapshot
        assert last is not None
        assert "network_adds" in {found.rule for found in last.findings}
        assert {found.host for found in last.findings} == {"db01"}
        assert [each.host for each in news if each.is_over] == [0, 1]


def test_played_fast_both_ends_have_the_same_span(tmp_path: Path) -> None:
    """Several intervals are judged as one; what the other host was not there for is no pair."""
    two(tmp_path)
    companions = Companions(str(tmp_path / "both.ioh"), ("db01", "nfs01"), "db01")
    samples = host("db01", 20)
    with companions:
        for begin, calls in ((14, 10), (8, 70), (0, None)):
            found = interval(samples[begin], samples[15])
            assert found is not None
            told = [pair.ops["read"] for pair in companions.of(found)[1]]
            assert [(op.client_calls, op.server_calls) for op in told] == [(calls, calls)] * bool(
                calls
            )


def test_time_goes_for_all_of_them(tmp_path: Path) -> None:
    with JoinedFeed(two(tmp_path), ("db01", "nfs01"), played()) as feed:
        first, second = feed.feeds
        news: list[News] = []

        def tell(each: News) -> None:
            news.append(each)
            if each.is_over and len([n for n in news if n.is_over]) == 2:
                second.play_from(10)  # which is the first one's 15
            elif each.is_over and len([n for n in news if n.is_over]) == 4:
                feed.stop()

        feed.run(tell)
        again = news[next(at for at, n in enumerate(news) if n.is_over) :]
        ticks = [(each.host, each.tick) for each in again if each.tick]
        assert ticks[:2] == [(0, 15), (1, 10)]
        assert feed.set_mark("here", None).startswith("marked")
        assert [m.text for f in (first, second) for m in f.moments()] == ["go", "here"] * 2


def test_on_a_terminal(tmp_path: Path) -> None:
    both = two(tmp_path)
    words = [sys.executable, "-m", "ioh", "replay", both, "--speed", "50"]
    with PtyScreen(words, ROOT, 80, 24) as shown:
        shown.wait_for("db01 1/2", "nfs, means", "db01 from nfs01")
        shown.press("H")
        shown.wait_for("nfs01 2/2", "nfs server")
        shown.press("q")
        assert shown.wait() == 0


def parts(name: str, samples: list[Sample]) -> list[HostInterval]:
    made = []
    for older, newer in pairwise(samples):
        found = interval(older, newer)
        assert found is not None
        made.append(HostInterval(name, (ADDRESSES[name],), found, (older, newer)))
    return made


def test_r_records_all_hosts_into_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = HostsRecorder(("db01", "nfs01"), 1.0)
    here, there = parts("db01", host("db01", 9)), parts("nfs01", host("nfs01", 9))
    recorder.write(here[0])  # before it was asked for
    assert "recording 2 hosts into" in recorder.toggle()
    for at in range(1, 8):
        recorder.write(here[at])
        recorder.write(there[at])
        assert recorder.state.size_bytes > 0
        if at == 4:
            assert recorder.mark("run 2") == "marked, also in the recording"
    assert {path.name.split("-")[1] for path in tmp_path.iterdir()} == {"db01", "nfs01"}
    said = recorder.toggle()
    (made,) = tmp_path.iterdir()
    assert said == f"recorded {made.stat().st_size:,} bytes of 2 hosts into {made}"
    assert not recorder.state.path
    assert hosts_of(str(made)) == ("db01", "nfs01")
    for name in ("db01", "nfs01"):
        with Session(f"{made}#{name}") as session:
            assert len(session) == 8
            assert [mark.text for mark in session.marks()] == ["run 2"]
            assert session.header.addresses == [ADDRESSES[name].encode()]


def test_a_host_that_was_lost_has_no_numbers_of_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ioh began anew, and so did its totals."""
    monkeypatch.chdir(tmp_path)
    recorder = HostsRecorder(("nfs01",), 1.0)
    recorder.toggle()
    before, after = host("nfs01", 3), host("nfs01", 5)
    later = [
        replace(s, mono_ns=s.mono_ns + 60 * 10**9, time_unix_s=s.time_unix_s + 60) for s in after
    ]
    for part in (*parts("nfs01", before), *parts("nfs01", later)):
        recorder.write(part)
    recorder.close()
    (made,) = tmp_path.iterdir()
    with Session(str(made)) as session:  # of one host it is as any other
        shown = [interval(*pair) for pair in pairwise(t.sample for t in session.ticks(0))]
    reads = []
    for each in shown:
        assert each is not None
        layer = each.layers.get("nfs_server")
        reads.append(layer.ops["read_disk"].count if isinstance(layer, LayerSnapshot) else None)
    assert reads == [10, 10, None, None, 10, 10, 10, 10]


def test_what_fails_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = HostsRecorder(("db01", "nfs01"), 1.0)
    assert recorder.mark("nothing is recorded") == "marked"
    recorder.toggle()
    recorder.write(parts("db01", host("db01", 2))[0])

    def fail(self: object, text: str) -> bool:
        del self, text
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "mark", fail)
        said = recorder.mark("run 2")
    assert said == "marked on the screen alone: [Errno 28] No space left on device"
    recorder.close()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(screen_recorder, "can_create_here", lambda: True)
    assert recorder.toggle() == "not recording: No such file or directory"


def test_what_cannot_be_joined_stays_as_a_file_of_each_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = HostsRecorder(("db01", "nfs01"), 1.0)
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
    files = sorted(tmp_path.iterdir())
    assert [path.name.split("-")[1] for path in files] == ["db01", "nfs01"]
    assert all(check(str(path)).ticks == 4 for path in files)
