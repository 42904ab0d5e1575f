"""The demo: the same for the same seed, at any pace; it says DEMO wherever it is shown."""

from __future__ import annotations

import itertools
import json
import time

import pytest

from ioh.findings.engine import Engine
from ioh.model.derive import derive
from ioh.model.sample import Sample
from ioh.pipeline import snapshots
from ioh.sinks.json import JsonSink
from ioh.sources.demo import DemoSource
from tests.demo_samples import LAYERS, START_S, layer, make, samples
from tests.sessions import recorded, samples_of


def test_the_same_seed_makes_the_same_samples_and_another_one_others() -> None:
    assert make(30) == make(30)
    assert make(30) != make(30, seed=2)


def test_a_sample_depends_on_its_number_alone_not_on_when_the_source_began() -> None:
    def without_clock(made: list[Sample]) -> list[object]:
        return [(s.layers, s.host, s.mono_ns, s.self_cpu_ns_total) for s in made]

    assert without_clock(make(20)) == without_clock(make(20, start_unix_s=5.0))
    assert [s.time_unix_s for s in make(3, start_unix_s=5.0)] == [5.0, 6.0, 7.0]


@pytest.mark.parametrize("interval_s", [0.1, 1.0, 5.0])
def test_samples_are_an_interval_apart(interval_s: float) -> None:
    made = make(20, interval_s=interval_s)
    lengths = {b.mono_ns - a.mono_ns for a, b in itertools.pairwise(made)}
    assert lengths == {round(interval_s * 1e9)}


def test_rates_do_not_depend_on_the_interval() -> None:
    """A story of 0.5 s ticks moves as much as one of 2 s ticks, by and large."""
    totals = []
    for interval_s in (0.5, 2.0):
        last = make(int(60 / interval_s) + 1, interval_s=interval_s)[-1]
        totals.append(layer(last, "block").ops["read"].bytes_total or 0)
    assert totals[0] == pytest.approx(totals[1], rel=0.05)


def test_it_says_demo_everywhere() -> None:
    for sample in samples()[:3]:
        assert sample.hostname == "DEMO (made-up load)"
        assert {layer(sample, name).source for name in LAYERS} == {"demo"}


def test_a_tick_is_cheap() -> None:
    make(30)
    began_s = time.process_time()
    make(241)
    assert (time.process_time() - began_s) / 240 < 0.02  # 3 ms; a busy test machine may be slower


def test_in_real_time_the_first_interval_is_there_at_once_and_stop_ends_it() -> None:
    began_s = time.monotonic()
    with DemoSource(interval_s=30.0) as source:
        ticks = iter(source)
        first, second = next(ticks), next(ticks)
        assert time.monotonic() - began_s < 5
        assert derive(first, second).interval_s == 30.0
        assert abs(second.time_unix_s - time.time()) < 5
        assert abs(second.mono_ns - time.monotonic_ns()) < 5e9
        source.stop()
        assert next(ticks, None) is None


def test_speed_makes_ticks_come_sooner() -> None:
    began_s = time.monotonic()
    with DemoSource(interval_s=10.0, speed=200.0) as source:
        made = list(itertools.islice(source, 8))
    took_s = time.monotonic() - began_s
    assert took_s >= 6 * 10 / 200 * 0.9
    assert (made[-1].mono_ns - made[0].mono_ns) / 1e9 >= 70


def test_ticks_missed_are_joined_and_their_maximum_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = make(12)
    with DemoSource(1, 1.0, START_S, realtime=False) as source:
        monkeypatch.setattr(source, "_ticks_due", lambda due_s: 10)
        joined = list(itertools.islice(source, 2))[1]
    assert joined.mono_ns == plain[10].mono_ns
    read, wanted = layer(joined, "block").ops["read"], layer(plain[10], "block").ops["read"]
    assert read.count_total == wanted.count_total
    slowest = max(layer(s, "block").ops["read"].max_ns or 0 for s in plain[1:11])
    assert read.max_ns == slowest


def test_text_says_demo_in_every_block(capfd: pytest.CaptureFixture[str]) -> None:
    from ioh.commands import main

    assert main(["demo", "--speed", "100", "-t", "5", "-d", "all", "--top", "all"]) == 0
    out = capfd.readouterr().out
    assert out.count("DEMO (made-up load)") == 5
    assert out.count("source demo: app, nfs client, tcp, nfs server, block") == 5
    assert out.count("date: ") == 5
    assert "nfs server cached" in out


def test_json_says_demo_in_every_line(capfd: pytest.CaptureFixture[str]) -> None:
    from ioh.commands import main

    assert main(["demo", "--json", "--speed", "100", "-t", "3", "--layers", "tcp,block"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert line["host"]["hostname"] == "DEMO (made-up load)"
        assert {made["source"] for made in line["layers"].values()} == {"demo"}
        assert list(line["layers"]) == ["tcp", "block"]


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        (["--seed", "x"], "whole number"),
        (["--seed", "-1"], "whole number"),
        (["--seed", "4294967296"], "whole number"),
        (["--speed", "0"], "above 0"),
        (["--text", "--json"], "not allowed"),
        (["--layers", "nosuch"], "nosuch"),
        (["--pid", "1"], "--pid"),
    ],
)
def test_bad_arguments(args: list[str], cause: str, capfd: pytest.CaptureFixture[str]) -> None:
    from ioh.commands import main

    assert main(["demo", *args]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert cause in err


def test_a_recording_of_the_demo_says_what_the_demo_said() -> None:
    made = samples()[:40]
    played = list(samples_of(recorded(made)))
    assert len(played) == len(made)
    for old, new in zip(snapshots(made), snapshots(played), strict=True):
        assert JsonSink(None).render(new) == JsonSink(None).render(old)


def test_the_demos_clock_keeps_up_with_a_reader_that_was_held_up() -> None:
    with DemoSource(interval_s=0.1) as source:
        ticks = iter(source)
        for _ in range(3):
            next(ticks)
        time.sleep(0.75)
        behind_s = [(time.monotonic_ns() - next(ticks).mono_ns) / 1e9 for _ in range(3)]
    assert max(behind_s) < 0.5


def test_its_scans_are_found_to_be_cut_by_rsize_and_by_no_disk() -> None:
    """READs are charged to their calls: what NFS cuts must not be laid to a device's charge."""
    engine = Engine()
    found: set[tuple[str, str]] = set()
    with DemoSource(1, 1.0, START_S, realtime=False) as source:
        for snapshot in itertools.islice(snapshots(source), 75):
            found |= {(f.rule, f.subject) for f in engine.judge(snapshot).findings}
    assert ("nfs_fragmentation", "reads /mnt/db") in found
    assert not {rule for rule, _ in found} & {"fragmentation", "read_ahead_waste"}
