"""`ioh export`, `report`, `compare` and `verify`, on recordings with known numbers."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import main
from ioh.model.derive import derive
from ioh.model.errors import ExitCode, IohError
from ioh.model.hist import LATENCY_EDGES_US
from ioh.model.sample import LayerSample, Sample, Unavailable
from ioh.playback.aggregate_interval import read_aggregate
from ioh.playback.time_range import Span, parse_when
from ioh.session.frame import Kind, make_frame
from ioh.session.reader import Session
from ioh.session.writer import SessionWriter
from ioh.sinks import openmetrics
from ioh.sinks.compare import format_change
from ioh.sinks.csv import guarded
from tests.support import fakes
from tests.support.hostile_recordings import frames, packed
from tests.support.sessions import Memory, Shown, recorded, samples_of

SAMPLES = fakes.first(12)


def disk_of(sample: Sample) -> LayerSample:
    disk = sample.layers["platter"]
    assert isinstance(disk, LayerSample)
    return disk


def with_disk(sample: Sample, **changes: Any) -> Sample:
    disk = replace(disk_of(sample), **changes)
    return replace(sample, layers={**sample.layers, "platter": disk})


def test_csv_is_tidy_and_agrees_with_json(session_file: Path, shown: Shown) -> None:
    rows = list(csv.DictReader(io.StringIO(shown("export", session_file))))
    assert list(rows[0]) == ["time", "layer", "op", "metric", "value"]
    told = {(r["time"], r["layer"], r["op"], r["metric"]): float(r["value"]) for r in rows}
    ticks = [json.loads(line) for line in shown("json", session_file).splitlines()]
    seen = 0
    for tick in ticks:
        for layer, found in tick["layers"].items():
            for op, numbers in found["ops"].items():
                for metric, value in numbers.items():
                    key = (str(tick["time_unix_s"]), layer, op, metric)
                    if metric == "hist":
                        continue
                    if value is None:
                        assert key not in told
                    else:
                        assert told[key] == pytest.approx(value)
                        seen += 1
    assert seen > 1000


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@x", "\tx", 'a,"b', "a\nb\x1b["])
def test_csv_names_are_quoted_and_never_formulas(name: str, tmp_path: Path, shown: Shown) -> None:
    assert not guarded(name).startswith(("=", "+", "-", "@", "\t", "\r"))
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(with_disk(s, parts={name: disk_of(s).ops}) for s in SAMPLES[:3]))
    rows = list(csv.reader(io.StringIO(shown("export", path))))
    assert all(len(row) == 5 for row in rows)
    assert any(row[2] == guarded(f"{name}/read") for row in rows)


def test_jsonl_is_what_ioh_json_prints(session_file: Path, shown: Shown) -> None:
    assert shown("export", session_file, "--format", "jsonl") == shown("json", session_file)


_LINE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\} (\S+) (\d+\.\d{3})')


def _metric(line: str) -> str:
    """The metric that a line belongs to: family and labels, whatever the bucket."""
    name = re.sub(r"_(total|bucket|count|sum)\{", "{", line.rsplit(" ", 2)[0])
    return re.sub(r',le="[^"]*"', "", name)


def test_openmetrics_too_large_for_memory_keep_their_order(
    session_file: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = shown("export", session_file, "--format", "openmetrics")
    monkeypatch.setattr(openmetrics, "_HELD_BYTES", 100)
    assert shown("export", session_file, "--format", "openmetrics") == told


def test_openmetrics_families_are_contiguous_and_histograms_add_up(
    session_file: Path, shown: Shown
) -> None:
    lines = shown("export", session_file, "--format", "openmetrics").splitlines()
    assert lines[-1] == "# EOF"
    family, seen = "", set()
    values: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in lines[:-1]:
        if line.startswith("# TYPE "):
            family = line.split()[2]
            assert family not in seen
            seen.add(family)
        elif not line.startswith("#"):
            found = _LINE.fullmatch(line)
            assert found is not None, line
            assert found[1].startswith(family)
            values.setdefault((found[1], found[2]), []).append((float(found[4]), float(found[3])))
    # The specification wants each metric's points contiguous, too; a histogram is one metric.
    metrics = [key for key, _ in itertools.groupby(map(_metric, filter(_LINE.fullmatch, lines)))]
    assert len(metrics) == len(set(metrics)) > 10
    for series in values.values():
        assert [when for when, _ in series] == sorted({when for when, _ in series})
    host = 'host="db01",op="read"'
    totals = disk_of(SAMPLES[-1]).ops["read"]
    assert values["ioh_platter_operations_total", host][-1][1] == totals.count_total
    assert values["ioh_platter_latency_seconds_count", host][-1][1] == totals.count_total
    assert totals.size_lat is not None
    by_latency = totals.size_lat.by_latency()
    for at, edge in enumerate(LATENCY_EDGES_US):
        key = ("ioh_platter_latency_seconds_bucket", f'{host},le="{edge / 1e6!r}"')
        assert values[key][-1][1] == sum(by_latency[: at + 1])


def test_a_report_is_the_whole_span_as_one_interval(session_file: Path, shown: Shown) -> None:
    with Session(str(session_file)) as session:
        period = read_aggregate(session)
        part = read_aggregate(session, Span(parse_when("run 3"), parse_when("run 7")))
        with pytest.raises(IohError, match="no interval"):
            read_aggregate(session, Span(parse_when("100")))
    assert (period.ticks, part.ticks) == (11, 4)
    whole = derive(SAMPLES[0], SAMPLES[-1])
    for name, layer in whole.layers.items():
        mine = period.snapshot.layers[name]
        assert not isinstance(layer, Unavailable)
        assert not isinstance(mine, Unavailable)
        assert mine.tables == layer.tables
        for op, stats in layer.ops.items():
            got = mine.ops[op]
            assert (got.count, got.bytes, got.latency, got.size_lat, got.p50_us) == (
                stats.count, stats.bytes, stats.latency, stats.size_lat, stats.p50_us,
            )  # fmt: skip
            maxima = [_max_us(a, b, name, op) for a, b in itertools.pairwise(SAMPLES)]
            assert got.max_us == max(maxima, key=lambda value: value or 0.0)
    told = shown("report", session_file, "--from", "run 3", "--to", "run 7", "--utc", "-d", "all")
    assert "from 2012-04-24 15:44:50 to 2012-04-24 15:44:54: 4 intervals, 4 s" in told
    assert "mark 2012-04-24 15:44:50  run 3" in told
    assert "---- top platter queues ----" in told


def _max_us(older: Sample, newer: Sample, layer: str, op: str) -> float | None:
    found = derive(older, newer).layers[layer]
    return None if isinstance(found, Unavailable) else found.ops[op].max_us


def test_a_layer_whose_source_changed_is_reported_and_never_mixed(
    tmp_path: Path, shown: Shown
) -> None:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded([*(with_disk(s, source="proc") for s in SAMPLES[:4]), *SAMPLES[4:]]))
    with Session(str(path)) as session:
        period = read_aggregate(session)
    shown_disk = period.snapshot.layers["platter"]
    assert not isinstance(shown_disk, Unavailable)
    count = sum(
        derive(a, b).layers["platter"].ops["read"].count  # type: ignore[union-attr,misc]
        for a, b in itertools.pairwise(SAMPLES[4:])
    )
    assert shown_disk.ops["read"].count == count
    assert period.remarks[0].startswith("platter: 7 of 11 intervals, 7 s")
    assert "! platter: 7 of 11" in shown("report", path)


def test_two_spans_are_compared_op_by_op(session_file: Path, shown: Shown) -> None:
    same = shown("compare", session_file, session_file)
    assert "R platter" in same
    assert {line.split()[-1] for line in same.splitlines() if line.startswith("  MB/s")} == {"."}
    told = shown(
        "compare", session_file, session_file, "--from", "0", "--to", "run 3",
        "--from-b", "run 3", "--to-b", "run 7", "--utc", "--all",
    )  # fmt: skip
    assert re.search(r"^A .* db01 +from 2012-04-24 15:44:47, 3 s$", told, re.MULTILINE)
    assert re.search(r"^B .* db01 +from 2012-04-24 15:44:50, 4 s$", told, re.MULTILINE)
    first, second = derive(SAMPLES[0], SAMPLES[3]), derive(SAMPLES[3], SAMPLES[7])
    rates = [s.layers["platter"].ops["read"].ops_per_s for s in (first, second)]  # type: ignore[union-attr]
    block = told[told.index("R platter") :]
    assert f"{rates[0]:.1f}" in block.splitlines()[2]
    assert format_change(*rates) in block.splitlines()[2]
    span = ("--to", "run 3", "--from-b", "run 3", "--utc")
    to_the_end = shown("compare", session_file, session_file, *span)
    assert re.search(r"^B .* from 2012-04-24 15:44:50, 8 s$", to_the_end, re.MULTILINE)


def test_compare_says_what_the_two_count_differently(
    session_file: Path, tmp_path: Path, shown: Shown
) -> None:
    assert "!" not in shown("compare", session_file, session_file)
    note = "only --comm fio: nothing else is counted"
    other = tmp_path / "other.ioh"
    other.write_bytes(
        recorded(with_disk(s, source="proc", notes=(*disk_of(s).notes, note)) for s in SAMPLES)
    )
    told = shown("compare", session_file, other).split("\n\n")[0].splitlines()[2:]
    source = disk_of(SAMPLES[0]).source
    assert told == [f"!  platter: A is measured by {source}, B by proc", f"!  platter: B: {note}"]


def test_changes_in_words() -> None:
    assert format_change(None, 1.0) == format_change(1.0, None) == "-"
    assert format_change(2.0, 3.0) == "+50.0%"
    assert format_change(4.0, 1.0) == "-75.0%"
    assert format_change(0.0, 1.0) == "new"
    assert format_change(0.0, 0.0) == "."
    assert format_change(1.0, 100.0) == "+9900%"


def test_verify_lists_what_is_in_a_recording(session_file: Path, shown: Shown) -> None:
    told = shown("verify", session_file)
    assert "note       made\\x1bup\n" in told
    assert "samples    12, 11 s from" in told
    assert "layer      platter, 12 samples" in told
    assert "  run 7\n" in told
    assert told.endswith("end        complete\nverdict    whole\n")


def test_verify_counts_samples_lost_to_damage_and_copies_the_rest(
    session_file: Path, tmp_path: Path, shown: Shown
) -> None:
    data = session_file.read_bytes()
    ninth = next(frame for frame in frames(data) if (frame.kind, frame.number) == (Kind.DELTA, 9))
    hurt = bytearray(data)
    hurt[ninth.end - 1] ^= 1
    session_file.write_bytes(hurt)
    new = tmp_path / "new.ioh"
    told = shown("verify", session_file, "--repair", new, code=ExitCode.FAILED)
    assert f"! byte {ninth.offset}: {ninth.end - ninth.offset} bytes are damaged\n" in told
    assert "samples    9, 8 s from" in told
    assert "! samples 9 to 11 are lost\n" in told
    assert "verdict    DAMAGED: 3 samples lost\n" in told
    assert samples_of(new.read_bytes()) == SAMPLES[:9]
    assert new.stat().st_mode & 0o777 == 0o600
    again = shown("verify", new)
    assert "verdict    whole" in again
    assert again.count("run 3\n") == 1


def test_verify_of_a_recording_whose_beginning_is_gone(session_file: Path, shown: Shown) -> None:
    data = session_file.read_bytes()
    fourth = next(frame for frame in frames(data) if frame.number == 4)
    session_file.write_bytes(bytes(fourth.offset) + data[fourth.offset :])
    told = shown("verify", session_file, code=ExitCode.FAILED)
    assert "samples    none\n" in told
    assert "layer" not in told
    assert "verdict    DAMAGED: 12 samples lost\n" in told


def test_a_recording_without_samples_is_not_copied(
    session_file: Path, tmp_path: Path, shown: Shown
) -> None:
    data = session_file.read_bytes()
    whole = next(frame for frame in frames(data) if frame.kind == Kind.WHOLE)
    session_file.write_bytes(data[: whole.end - 9])
    told = shown("verify", session_file)
    assert "samples    none\n" in told
    assert "1970" not in told
    assert "end        cut off, or still being recorded\n" in told
    new = tmp_path / "new.ioh"
    told = shown("verify", session_file, "--repair", new, code=ExitCode.FAILED)
    assert told.endswith("verdict    whole up to the cut\nwritten    nothing: it has no samples\n")
    assert not new.exists()


def test_gaps_survive_a_repair(tmp_path: Path, shown: Shown) -> None:
    memory = Memory()
    writer = SessionWriter(memory)
    for tick, sample in enumerate(SAMPLES):
        memory.fail = OSError(errno.ENOSPC, "full\x1b") if 3 <= tick < 6 else None
        writer.write(sample)
    writer.close()
    old, new = tmp_path / "old.ioh", tmp_path / "new.ioh"
    old.write_bytes(bytes(memory.data))
    told = shown("verify", old, "--repair", new)
    assert re.search(r"^gap .*, 4 s: full\\x1b$", told, re.MULTILINE)
    assert re.search(r"^gap .*, 4 s: full\\x1b$", shown("verify", new), re.MULTILINE)
    assert samples_of(new.read_bytes()) == samples_of(old.read_bytes())


def test_a_repair_never_overwrites_a_file(
    session_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = session_file.read_bytes()
    assert main(["verify", str(session_file), "--repair", str(session_file)]) == ExitCode.USAGE
    said = capfd.readouterr().err
    assert "ioh does not overwrite files" in said
    assert "Give another name with --repair" in said
    assert session_file.read_bytes() == before


def test_a_repair_leaves_out_numbers_beyond_64_bits(tmp_path: Path, shown: Shown) -> None:
    totals = [*(times * ((1 << 64) - 1) for times in range(4)), 7]  # each increment fits
    data = recorded(
        replace(sample, self_cpu_ns_total=total)
        for sample, total in zip(SAMPLES, totals, strict=False)
    )
    at = next(frame for frame in frames(data) if frame.kind == Kind.DELTA).end
    # The sample after the gap needs a whole record, which cannot hold its number.
    gap = make_frame(Kind.GAP, 2, 1.0, packed([1.0, 2.0, b"made up"]))
    old, new = tmp_path / "old.ioh", tmp_path / "new.ioh"
    old.write_bytes(data[:at] + gap + data[at:])
    told = shown("verify", old, "--repair", new, code=ExitCode.FAILED)
    assert "! sample 2 holds numbers beyond 64 bits: left out of the copy\n" in told
    assert "verdict    DAMAGED: 2 samples lost\n" in told
    kept = [(s.mono_ns, s.self_cpu_ns_total) for s in samples_of(new.read_bytes())]
    whole = [SAMPLES[at] for at in (0, 1, 4)]
    assert [mono for mono, _ in kept] == [sample.mono_ns for sample in whole]
    assert [total for _, total in kept] == [0, (1 << 64) - 1, 7]
