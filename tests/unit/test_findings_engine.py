"""The engine: a verdict becomes a finding once it lasts; it ends some time after the verdict."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ioh.commands.explain import render_rule
from ioh.findings.config import Config, read_config
from ioh.findings.engine import MAX_SUBJECTS, Engine
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, all_rules
from ioh.findings.window import DETAIL_S, Recall, RecentIntervals, Window, busiest_file
from ioh.model.errors import ExitCode, IohError
from ioh.model.finding import Evidence
from ioh.model.lazy import LazyMapping
from ioh.model.snapshot import HostStats, LayerSnapshot, Snapshot, TableRow
from ioh.pipeline import snapshots
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextOptions, TextSink
from tests.support import fakes
from tests.support.demo_samples import intervals
from tests.unit.snapshot_maker import START_S, by_chance, calls, disk, layer, op
from tests.unit.snapshot_maker import ticks as seconds

BAD = "\x1b[31m[/b]\n\u202eevil"


def rule(judge: Callable[[RecentIntervals, Limits], Iterable[Verdict]], **changes: object) -> Rule:
    made = Rule(
        title="Made up", layer="platter", watches="w", sources="s", blind="b", false_alarm="f",
        wrong_if="w", check="c", thresholds={"least": (2.0, "because")},
        may_be_short=True, name="made_up", judge=judge,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def verdict(**changes: object) -> Verdict:
    made = Verdict(f"cause {BAD}", (Evidence(f"text {BAD}", "x_us", 3.0, 2.0, BAD),), "do", "cmd")
    return replace(made, **changes)  # type: ignore[arg-type]


def ticks(count: int, interval_s: float = 1.0) -> list[Snapshot]:
    first = next(snapshots(fakes.quiet(2)))
    return [
        replace(first, time_unix_s=1e9 + (i + 1) * interval_s, interval_s=interval_s)
        for i in range(count)
    ]


def says(times: Iterable[int]) -> Callable[[RecentIntervals, Limits], Verdicts]:
    """A rule that fires in these ticks of 1 s."""
    wanted = set(times)

    def judge(recent: RecentIntervals, limits: Limits) -> Verdicts:
        del limits
        if round(recent[-1].time_unix_s - 1e9) in wanted:
            yield verdict()

    return judge


def shown(engine: Engine, given: Iterable[Snapshot]) -> list[int]:
    """The ticks with a finding."""
    return [round(s.time_unix_s - 1e9) for s in map(engine.judge, given) if s.findings]


def test_a_finding_ends_when_a_stronger_one_begins() -> None:
    weaker = rule(says(range(1, 9)), hold_s=0.0, release_s=5.0, yields_to=("stronger",))
    stronger = rule(says([4, 5, 6]), name="stronger", hold_s=2.0, release_s=1.0)
    engine = Engine([weaker, stronger])
    names = [{f.rule for f in engine.judge(each).findings} for each in ticks(9)]
    assert names == [*[{"made_up"}] * 4, *[{"stronger"}] * 2, *[{"made_up"}] * 3]


def test_a_rule_that_compares_keeps_the_time_before_its_finding() -> None:
    """Of 5 s; the finding lasts for 20, and what was before it goes with it."""
    seen: list[list[int]] = []

    def judge(recent: RecentIntervals, limits: Limits) -> Verdicts:
        seen.append([round(each.time_unix_s - 1e9) for each in recent.usual])
        return says(range(8, 28))(recent, limits)

    engine = Engine(
        [rule(judge, span_s=5.0, recent_s=1.0, hold_s=2.0, release_s=2.0, compares=True)]
    )
    assert shown(engine, ticks(40)) == list(range(9, 29))
    assert seen[7] == [3, 4, 5, 6, 7]
    assert seen[9] == seen[27] == [4, 5, 6]
    assert seen[-1] == [35, 36, 37, 38, 39]


def test_a_verdict_must_last_before_it_is_a_finding() -> None:
    engine = Engine([rule(says([2, 3, 4, 5]), hold_s=3.0, release_s=2.0)])
    assert shown(engine, ticks(9)) == [4, 5, 6]


def test_a_pause_before_the_hold_time_starts_it_again() -> None:
    assert shown(Engine([rule(says([2, 3, 5, 6, 8]))]), ticks(12)) == []


def test_a_pause_shorter_than_the_release_time_is_bridged() -> None:
    engine = Engine([rule(says([1, 2, 3, 5, 8]), release_s=3.0)])
    found = [engine.judge(snapshot) for snapshot in ticks(12)]
    assert [len(s.findings) for s in found] == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert {f.since_unix_s for s in found for f in s.findings} == {1e9}


def test_one_long_interval_is_enough_evidence() -> None:
    engine = Engine([rule(lambda _r, _l: [verdict()])])
    assert engine.judge(ticks(1, interval_s=60.0)[0]).findings


@pytest.mark.parametrize(("interval_s", "recent_s"), [(0.5, 5.0), (1.0, 5.0), (2.0, 6.0)])
def test_a_finding_says_of_which_time_its_numbers_are(interval_s: float, recent_s: float) -> None:
    engine = Engine([rule(lambda _r, _l: [verdict()])])
    found = [engine.judge(snapshot) for snapshot in ticks(20, interval_s)][-1]
    assert [finding.recent_s for finding in found.findings] == [recent_s]


@pytest.mark.parametrize("jump_s", [-5.0, 20.0])
def test_a_gap_or_a_clock_set_back_starts_the_hold_time_again(jump_s: float) -> None:
    engine = Engine([rule(lambda _r, _l: [verdict()])])
    before = [engine.judge(s) for s in ticks(4)]
    assert before[-1].findings
    after = [replace(s, time_unix_s=s.time_unix_s + 4 + jump_s) for s in ticks(3)]
    found = [engine.judge(s) for s in after]
    assert [len(s.findings) for s in found] == [0, 0, 1]
    assert found[-1].findings[0].since_unix_s == after[0].time_unix_s - 1


def test_another_host_starts_the_hold_time_again() -> None:
    engine = Engine([rule(lambda _r, _l: [verdict()])])
    given = ticks(5)
    assert engine.judge(given[0]).findings == ()
    assert shown(engine, [replace(s, hostname="other") for s in given[1:4]]) == [4]


def test_the_window_is_bounded_in_time_and_in_number() -> None:
    seen: list[tuple[int, float]] = []

    def judge(recent: RecentIntervals, limits: Limits) -> list[Verdict]:
        window = recent.window
        seen.append((len(window), window.newest.time_unix_s - next(iter(window)).time_unix_s))
        return []

    engine = Engine([rule(judge, span_s=20.0)])
    for snapshot in [*ticks(1500, interval_s=0.01), *ticks(50)]:
        engine.judge(snapshot)
    assert max(count for count, _ in seen) == 800
    assert 19.0 <= max(span_s for _, span_s in seen) <= 20.0


def test_rules_that_look_far_back_declare_what_they_recall() -> None:
    far = {rule.name for rule in all_rules().values() if rule.span_s > DETAIL_S + 5}
    assert far == {rule.name for rule in all_rules().values() if rule.recalls}


def test_a_window_keeps_only_what_is_recalled_of_old_intervals() -> None:
    recalls = [
        Recall("block", "read", with_percentiles=True),
        Recall("block", "write"),
        Recall("block", "device"),
        Recall("block", "nosuch"),
        Recall("nosuch", "read"),
    ]
    window = Window(60.0, recalls)
    for snapshot in intervals()[:40]:
        window.add(snapshot)
    old, new = next(iter(window)), window.newest
    assert old.time_unix_s == intervals()[0].time_unix_s
    assert (set(old.layers), set(new.layers)) == ({"block"}, set(intervals()[0].layers))
    block, before = old.layers["block"], intervals()[0].layers["block"]
    assert isinstance(block, LayerSnapshot)
    assert isinstance(before, LayerSnapshot)
    assert (set(block.ops), set(block.tables), block.parts) == ({"read", "write"}, {"device"}, {})
    assert block.ops["read"].p50_us == before.ops["read"].p50_us is not None
    assert (block.ops["read"].latency, block.ops["read"].size_lat) == (None, None)
    write = before.ops["write"]
    assert write.p50_us is not None
    assert block.ops["write"] == replace(
        write, p50_us=None, p95_us=None, p99_us=None, p999_us=None, latency=None, size_lat=None
    )
    assert block.tables["device"] == before.tables["device"]
    # The last DETAIL_S seconds are complete: rules look at them in full.
    assert all(set(s.layers) == set(new.layers) for s in window.recent(DETAIL_S))


def test_a_rule_that_cannot_be_evaluated_says_why() -> None:
    judge = says([1])
    lacking = rule(judge, needs=("nfs_client",))
    by_proc = rule(judge, name="by_bpf", probed=("wire",))
    absent = rule(judge, name="absent", needs=("program",))
    engine = Engine([lacking, by_proc, absent])
    reasons = {n.rule: n.reason for n in engine.judge(ticks(1)[0]).not_evaluated}
    assert reasons["made_up"] == "layer nfs_client is not measured"
    assert reasons["by_bpf"] == "layer wire is measured from /proc, not by BPF"
    assert reasons["absent"] == "layer prog: needs root"


def test_names_from_outside_are_printable_and_bounded() -> None:
    bad = verdict(subject=BAD, advice=BAD, command=BAD, title=BAD * 1000)
    engine = Engine([rule(lambda _r, _l: [bad], hold_s=0.0)])
    found = engine.judge(ticks(1)[0])
    (finding,) = found.findings
    (evidence,) = finding.evidence
    texts = [finding.cause, finding.subject, finding.advice, finding.command, finding.title]
    assert all(text.isprintable() and len(text) <= 600 for text in texts)
    assert evidence.text.isprintable()
    assert evidence.source.isprintable()
    printed = TextSink(TextOptions(frozenset({"findings"}))).render(found)
    assert all(line.isprintable() for line in printed.splitlines())


def test_a_rule_reports_only_a_few_subjects() -> None:
    many = [verdict(subject=str(i)) for i in range(100)]
    found = Engine([rule(lambda _r, _l: many, hold_s=0.0)]).judge(ticks(1)[0])
    assert len(found.findings) == MAX_SUBJECTS


def test_findings_are_sorted_worst_first() -> None:
    said = [verdict(subject=s, severity=s) for s in ("info", "critical", "warning")]
    found = Engine([rule(lambda _r, _l: said, hold_s=0.0)]).judge(ticks(1)[0])
    assert [f.severity for f in found.findings] == ["critical", "warning", "info"]


def test_thresholds_come_from_the_config_and_rules_can_be_off() -> None:
    seen: list[float] = []

    def judge(recent: RecentIntervals, limits: Limits) -> list[Verdict]:
        seen.append(limits["least"])
        return [verdict()]

    Engine([rule(judge)], Config(limits={"made_up": {"least": 7.0}})).judge(ticks(1)[0])
    Engine([rule(judge)]).judge(ticks(1)[0])
    Engine([rule(judge)], Config(off=frozenset({"made_up"}))).judge(ticks(1)[0])
    assert seen == [7.0, 2.0]


def test_text_prints_the_advice_once_and_the_cause_each_time() -> None:
    engine = Engine([rule(lambda _r, _l: [verdict(advice="mend it")], hold_s=0.0)])
    sink = TextSink(TextOptions())
    texts = [sink.render(engine.judge(s)) for s in ticks(3)]
    assert [t.count("Made up: cause") for t in texts] == [1, 1, 1]
    assert [t.count("mend it") for t in texts] == [1, 0, 0]
    assert "x_us" not in texts[0]


def test_json_has_all_of_a_finding() -> None:
    engine = Engine(
        [rule(lambda _r, _l: [verdict(severity="critical", ways=("read",))], hold_s=0.0)]
    )
    told = json.loads(JsonSink().render(engine.judge(ticks(1)[0])))
    (finding,) = told["findings"]
    assert finding["rule"] == "made_up"
    assert finding["severity"] == "critical"
    assert finding["ways"] == ["read"]
    assert finding["since_unix_s"] == 1e9
    assert finding["evidence"][0]["value"] == 3.0
    assert finding["evidence"][0]["limit"] == 2.0
    assert told["not_evaluated"] == []


@pytest.mark.parametrize("name", all_rules())
def test_every_rule_documents_itself(name: str) -> None:
    found = all_rules()[name]
    assert found.name == name
    assert name.replace("_", "").isalnum()
    texts = [found.title, found.watches, found.sources, found.blind, found.false_alarm]
    assert all(text and text.isprintable() for text in texts)
    texts += [why for _, why in found.thresholds.values()]
    assert {name for text in texts for name in re.findall(r"\bsee (\w+)", text)} <= set(all_rules())
    assert all(len(why) > 10 for _, why in found.thresholds.values())
    lines = list(render_rule(found, found.defaults, is_off=False))
    assert any(line.strip().startswith("wrong if") for line in lines)
    assert found.wrong_if.isprintable()
    assert not re.search(r"[A-Z]{4}|\.\.\.", found.check.replace("TARGET,OPTIONS", ""))
    subprocess.run(["/bin/sh", "-n"], input=found.check, text=True, check=True)
    assert found.hold_s <= found.span_s


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[nothing]", 'no rule "nothing"'),
        ("losses = 3", "losses is not a table"),
        ("[losses]\nlost_min_pct = 'a'", "losses.lost_min_pct is not a number"),
        ("[losses]\nlost_min_pct = -1", "losses.lost_min_pct is not a number"),
        ("[losses]\nenabled = 1", "losses.enabled is neither true nor false"),
        ('[losses]\n"a\\u001bb" = 1', 'losses has no "a\\x1bb"'),
        ("[losses", "is not TOML"),
        ("\xff", "is not TOML"),
        ("a = " + "[" * 9000, "is not TOML"),
    ],
)  # fmt: skip
def test_an_invalid_config_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(IohError) as caught:
        read_config(str(path))
    assert caught.value.code == ExitCode.USAGE
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_config_changes_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text("[losses]\nlost_min_pct = 5\nenabled = false\n")
    config = read_config(str(path))
    assert config.off == {"losses"}
    assert config.limits_of(all_rules()["losses"])["lost_min_pct"] == 5.0


def test_only_a_config_file_given_by_name_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/none")
    assert read_config(None) == Config()
    for path in (f"{tmp_path}/none.toml", str(tmp_path), "a\0b"):
        with pytest.raises(IohError, match="cannot be read"):
            read_config(str(path))


ZEROS = Config(limits={x.name: dict.fromkeys(x.defaults, 0.0) for x in all_rules().values()})


@pytest.mark.parametrize("name", ZEROS.limits)
def test_an_idle_machine_can_be_judged_by_thresholds_of_zero(name: str) -> None:
    for zero in all_rules()[name].defaults:
        engine = Engine([all_rules()[name]], Config(limits={name: {zero: 0.0}}))
        for snapshot in ticks(20):
            engine.judge(snapshot)


@pytest.mark.parametrize("config", [Config(), ZEROS], ids=["as they are", "thresholds of zero"])
@pytest.mark.parametrize("seed", range(3))
def test_any_snapshot_can_be_judged(seed: int, config: Config) -> None:
    """Numbers may be unknown, zero or absurd: no rule fails or prints what cannot be shown."""
    random, engine = Random(seed), Engine(config=config)
    for i in range(60):
        for finding in engine.judge(by_chance(random, START_S + i)).findings:
            texts = [finding.cause, finding.advice, finding.command, finding.subject]
            texts += [item.text for item in finding.evidence]
            assert all(text.isprintable() for text in texts)
            assert "nan" not in finding.cause.split()
            assert finding.cause.endswith(".")


def test_without_a_least_rate_of_syncs_writes_without_any_are_judged() -> None:
    engine = Engine(config=Config(limits={"sync_writes": {"syncs_min_per_s": 0.0}}))
    for snapshot in seconds(9, {"syscall": calls("write_buffered", op(100, 4096, 90))}):
        assert "sync_writes" not in {f.rule for f in engine.judge(snapshot).findings}


def test_from_what_load_on_the_cpus_are_busy_is_configured() -> None:
    below = layer("block", **disk("sda", op(100, 8192, 500)))
    layers = {"block": below, "syscall": calls("read_direct", op(100, 8192, 30_000))}
    engine = Engine(config=Config(limits={"time_above_disk": {"starved_min_pct": 60.0}}))
    for snapshot in seconds(15, layers, host=HostStats(cpu_pct=70.0)):
        judged = engine.judge(snapshot)
    (found,) = [f for f in judged.findings if f.rule == "time_above_disk"]
    assert (found.confidence, found.advice[:18]) == ("low", "The CPUs are busy:")


def test_only_the_newest_interval_with_calls_has_rows_of_files() -> None:
    window = Window()
    for snapshot in intervals()[:9]:
        window.add(snapshot)
    calls = window.newest.layers["syscall"]
    assert isinstance(calls, LayerSnapshot)
    files = [len(s.rows("syscall", "file")) for s in window]
    assert {*files[:-1]} == {0} != {files[-1]}
    path = busiest_file(window.recent(3.0))
    idle = replace(calls, ops={}, tables=LazyMapping({"file": tuple[TableRow, ...]}))
    for _ in range(2):
        newest = window.newest
        at_s = newest.time_unix_s + 1
        window.add(replace(newest, time_unix_s=at_s, layers={"syscall": idle}))
    assert [len(s.rows("syscall", "file")) for s in window.recent(4.0)] == [0, 1, 0, 0]
    assert busiest_file(window.recent(3.0)) == path != ""
