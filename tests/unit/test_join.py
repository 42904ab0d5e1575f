"""Recordings of several hosts in one file: joined, read host by host, and played together."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import main
from ioh.findings.engine import Engine
from ioh.history.file import PlayOptions
from ioh.model.errors import ExitCode, IohError
from ioh.model.intervals import interval
from ioh.model.player import News
from ioh.playback.joined import Companions
from ioh.player.file import FilePlayer
from ioh.session.check import check
from ioh.session.frame import Kind, make_frame
from ioh.session.join import Joining
from ioh.session.packing import Packer
from ioh.session.reader import Session
from ioh.session.recorded_file import hosts_of
from ioh.session.records import encode_plain
from tests.support.pty_screen import ROOT, PtyScreen
from tests.support.sessions import Shown, recorded, samples_of, small
from tests.support.two_hosts import ADDRESSES, host, two_in_one, write


def test_a_joined_file_holds_each_recording_byte_for_byte(tmp_path: Path) -> None:
    both = two_in_one(tmp_path)
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
def test_damage_in_one_place_does_not_make_it_unreadable(tmp_path: Path, damaged: str) -> None:
    both = two_in_one(tmp_path)
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


def test_a_hosts_name_may_contain_the_separator(tmp_path: Path) -> None:
    name = "x#y#z"
    one, other = (write(tmp_path / f"{n}.ioh", host(n, 3), n) for n in ("db01", "nfs01"))
    with Joining() as joining:
        joining.add(one, name)
        joining.add(other)
        made = joining.write([str(tmp_path / "both#1.ioh")]).name
    with Session(f"{made}#{name}") as session:
        assert len(session) == 3


@pytest.mark.parametrize("size", [-1, (1 << 62) - 1, 3])
def test_a_list_of_hosts_with_false_sizes_does_no_harm(
    tmp_path: Path, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    listed = encode_plain([[[f"{n}\x1b".encode(), size] for n in range(8)]])
    frame = make_frame(Kind.JOINED, 0, 0.0, Packer().pack(listed))
    path = str(tmp_path / "lies.ioh")
    Path(path).write_bytes(frame + recorded(small(3)))
    with pytest.raises(IohError), Session(f"{path}#1\x1b"):
        pass
    if size > 3:
        assert len(hosts_of(path)) == 8
        with Session(f"{path}#0\x1b") as session:
            assert len(session) == 3
        for words in (["verify", path], ["text", path], ["replay", path, "--as-text"]):
            assert main(words) != ExitCode.OK
            assert "Traceback" not in capfd.readouterr().err


def test_text_and_json_show_the_hosts_together(tmp_path: Path, shown: Shown) -> None:
    both = two_in_one(tmp_path)
    told = [json.loads(line) for line in shown("json", both).splitlines()]
    names = [line["host"]["name"] if line["host"] else "" for line in told]
    assert (names.count("db01"), names.count("nfs01")) == (19, 14)
    assert names[-3:] == ["db01", "nfs01", ""]
    together = [line for line in told if not line["host"]]
    assert [bool(line["pairs"]) for line in together] == [False] * 5 + [True] * 14
    read = together[-1]["pairs"][0]["ops"]["read"]
    assert (read["client_calls"], read["server_calls"]) == (10, 10)
    assert (read["rtt_us"], read["server_us"], read["network_us"]) == (5000, 1000, 4000)
    assert (read["block_queue_us"], read["device_us"]) == (100, 500)
    assert (read["matched_calls"], read["network_p50_us"]) == (8, 4096)
    steps = {each["name"]: each["us"] for each in told[-3]["path"]["read"]["segments"]}
    assert steps == pytest.approx(
        {"nfs_queue": 300, "network": 4000, "nfs_server": 400, "block_queue": 100, "device": 500}
    )
    found = {each["rule"] for line in told if line["host"] for each in line["findings"]}
    assert "network_adds" in found
    text = shown("text", both, "--from", "go", "-t", "3")
    assert text.count("==== db01 ====\n") == 3
    assert "R |db01 from nfs01:|      10|      10|   5.000|   1.000|   0.600|   4.000|  80" in text
    assert shown("replay", both, "--as-text").count("# mark ") == 2  # of two moments
    assert "====" not in shown("text", f"{both}#nfs01", "-t", "2")


@pytest.mark.parametrize("command", ["report", "export", "compare"])
def test_other_commands_require_one_host(
    tmp_path: Path, command: str, shown: Shown, refused: Shown
) -> None:
    both = two_in_one(tmp_path)
    again = [f"{both}#db01"] if command == "compare" else []
    told = refused(command, both, *again)
    assert f"has several hosts: db01, nfs01. Give one: '{both}#db01'" in told
    assert shown(command, f"{both}#db01", *again)
    assert "no host db02" in refused(command, f"{both}#db02", *again, code=1)


def test_a_mark_after_the_last_interval_is_shown(tmp_path: Path, shown: Shown) -> None:
    first = write(tmp_path / "db01.ioh", host("db01", 4), "db01", marks={3: "over"})
    longer = write(tmp_path / "nfs01.ioh", host("nfs01", 6), "nfs01")
    both = tmp_path / "both.ioh"
    shown("join", first, longer, "-o", both)
    told = shown("text", both)
    assert told.count("# mark ") == 1
    assert told.count("==== db01.example ====  nothing recorded in this interval\n") == 2


def test_a_joined_file_in_a_pipe_is_refused(tmp_path: Path) -> None:
    both = two_in_one(tmp_path)
    with pytest.raises(IohError, match="has several hosts"):
        samples_of(Path(both).read_bytes())


def test_verify_checks_each_host_and_can_extract_one(
    tmp_path: Path, shown: Shown, refused: Shown
) -> None:
    both = two_in_one(tmp_path)
    assert shown("verify", both).count("verdict    whole\n") == 2
    assert "Repair one: ioh verify" in refused("verify", both, "--repair", "x")
    out = str(tmp_path / "again.ioh")
    shown("verify", f"{both}#nfs01", "--repair", out)
    assert check(out).ticks == 15
    with Session(out) as session:
        assert session.header.addresses == [ADDRESSES["nfs01"].encode()]


def test_join_writes_one_file_or_says_why_not(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    both = two_in_one(here)
    for name in ("db01", "nfs01"):
        os.rename(f"{name}.ioh", f"my-{name}.ioh")  # noqa: PTH104
    assert main(["join", "my-db01.ioh", "my-nfs01.ioh"]) == ExitCode.OK
    made = capfd.readouterr().out.split(":")[0]
    assert made.startswith("ioh-db01.example-nfs01.example-20")
    assert hosts_of(made) == ("db01.example", "nfs01.example")
    assert os.stat(made).st_mode & 0o777 == 0o600  # noqa: PTH116
    third = write(here / "third.ioh", host("nfs01", 3, 100))
    assert main(["join", both, third, "-o", "three.ioh"]) == ExitCode.OK
    assert hosts_of("three.ioh") == ("db01", "nfs01", "nfs01.example")
    assert "do not overlap in time" in capfd.readouterr().err
    for words, why in (
        (["my-db01.ioh"], "all of one host"),
        (["my-db01.ioh", "my-db01.ioh"], "are both of host db01.example"),
        (["my-db01.ioh", "my-nfs01.ioh", "-o", "three.ioh"], "exists"),
        (["my-db01.ioh", "/etc/passwd"], "is not a recording"),
        (["my-db01.ioh", "nothing"], "no recording nothing"),
        (["my-db01.ioh", "-"], "files only"),
    ):
        assert main(["join", *words]) != ExitCode.OK
        assert why in capfd.readouterr().err


def played(make_judge: Callable[[], Engine | None] = lambda: None, **changes: Any) -> PlayOptions:
    usual = PlayOptions(speed=1000.0, make_judge=make_judge)
    return replace(usual, **changes)


HOSTS = ("db01", "nfs01")


def news_of(player: FilePlayer) -> list[News]:
    news: list[News] = []

    def tell(each: News) -> None:
        news.append(each)
        if each.is_over:
            player.stop()

    player.run(tell)
    return news


def test_one_host_is_played_and_the_other_follows(tmp_path: Path) -> None:
    # Slow enough that each interval is judged alone: nfs01 is missing in a part of longer ones.
    with FilePlayer(two_in_one(tmp_path), played(Engine, speed=20.0), HOSTS) as player:
        news = news_of(player)
        shown = [each for each in news if each.snapshot is not None]
        assert [each.host for each in shown[-2:]] == [0, 1]
        for each in shown:
            assert each.snapshot is not None
            assert each.tick is not None
            visited = player.histories[each.host].visit(each.tick)
            assert visited is not None
            assert visited.time_unix_s == each.snapshot.time_unix_s
            assert visited.pairs == each.snapshot.pairs
            assert bool(visited.pairs) == (each.host == 1 or each.tick >= 6)
        last = shown[-2].snapshot
        assert last is not None
        assert "network_adds" in {found.rule for found in last.findings}
        assert {found.host for found in last.findings} == {"db01"}
        assert [each.host for each in news if each.is_over] == [0, 1]


def test_in_fast_play_both_ends_have_the_same_span(tmp_path: Path) -> None:
    """Several intervals are judged as one; a pair needs the other host in all of them."""
    two_in_one(tmp_path)
    companions = Companions(str(tmp_path / "both.ioh"), ("db01", "nfs01"), "db01")
    samples = host("db01", 20)
    with companions:
        for begin, calls in ((14, 10), (8, 70), (0, None)):
            found = interval(samples[begin], samples[15])
            assert found is not None
            told = [pair.ops["read"] for pair in companions.of(found)[1]]
            assert [op.matched_calls for op in told] == [calls * 8 // 10 for _ in told if calls]
            assert [(op.client_calls, op.server_calls) for op in told] == [(calls, calls)] * bool(
                calls
            )


def test_moving_in_time_moves_all_hosts(tmp_path: Path) -> None:
    with FilePlayer(two_in_one(tmp_path), played(), HOSTS) as player:
        first, second = player.histories
        news: list[News] = []

        def tell(each: News) -> None:
            news.append(each)
            if each.is_over and len([n for n in news if n.is_over]) == 2:
                player.play_from(10, host=1)  # tick 15 of the first one
            elif each.is_over and len([n for n in news if n.is_over]) == 4:
                player.stop()

        player.run(tell)
        again = news[next(at for at, n in enumerate(news) if n.is_over) :]
        ticks = [(each.host, each.tick) for each in again if each.tick]
        assert ticks[:2] == [(0, 15), (1, 10)]
        assert player.set_mark("here", None).startswith("marked")
        assert [m.text for f in (first, second) for m in f.moments()] == ["go", "here"] * 2


def test_a_joined_recording_on_a_terminal(tmp_path: Path) -> None:
    both = two_in_one(tmp_path)
    words = [sys.executable, "-m", "ioh", "replay", both, "--speed", "50"]
    with PtyScreen(words, ROOT, 80, 24) as shown:
        shown.wait_for("db01 1/2", "nfs, means", "db01 from nfs01")
        shown.press("H")
        shown.wait_for("nfs01 2/2", "nfs server")
        shown.press("q")
        assert shown.wait() == 0
