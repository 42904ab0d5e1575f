"""Write fioparse's CSV for R scripts, and read it for grading."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from ioh.bench.files import read_file
from ioh.bench.grade import STATISTICS, Measured
from ioh.bench.plans import show_size, size_of
from ioh.bench.results import HIST_COLUMNS, Figures, Results, Test
from ioh.model.errors import IohError
from ioh.sinks.csv import guarded

_PERCENTILES = {
    "p95_00": "p95_us",
    "p99_00": "p99_us",
    "p99_50": "p995_us",
    "p99_90": "p999_us",
    "p99_95": "p9995_us",
    "p99_99": "p9999_us",
}
_FIXED = ("system", "name", "users", "bs", "MB", "lat", "min", "max", "std", "iops")
HEAD = (*_FIXED, *HIST_COLUMNS, *_PERCENTILES)
# fioparse's names of fio.sh's tests.
_NAMES = {"seqread": "read"}
_KINDS = {name: kind for kind, name in _NAMES.items()}
_NEEDED = ("system", "name", "users", "bs", "lat", "p95_00", "p99_00")


def to_csv(results: Results) -> str:
    """Format every test as fioparse does: MB/s of 2^20 bytes, latencies in ms, histogram in %.

    Tests with the verdict "not the storage" are left out: the scripts would grade them.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    for test in results.tests:
        if test.verdict.ok:
            writer.writerows(_rows(test, results.conditions.host))
    return out.getvalue()


def _rows(test: Test, system: str) -> Iterator[list[str]]:
    spec = test.spec
    kind = _NAMES.get(spec.kind, spec.kind)
    for op, figures in test.run.fio.items():
        is_alone = len(test.run.fio) == 1 and spec.kind != "metadata"
        name = kind if is_alone else f"{kind}_{op}"
        mb = None if figures.bytes_per_s is None else figures.bytes_per_s / (1 << 20)
        us = (figures.mean_us, figures.min_us, figures.max_us, figures.std_us)
        yield [
            guarded(system),
            guarded(name),
            str(spec.users),
            show_size(spec.block_bytes).upper(),
            "" if mb is None else f"{mb:.3f}",
            *(_ms(each) for each in us),
            "" if figures.iops is None else f"{figures.iops:.0f}",
            *_percent(figures),
            *(_ms(getattr(figures, field)) for field in _PERCENTILES.values()),
        ]


def _ms(us: float | None) -> str:
    return "" if us is None else f"{us / 1000:.3f}"


def _percent(figures: Figures) -> list[str]:
    whole = sum(figures.hist)
    if not whole:
        return [""] * len(HIST_COLUMNS)
    return [f"{count / whole * 100:.0f}" for count in figures.hist]


def read_columns(path: str) -> dict[str, dict[tuple[str, int, int], Measured]]:
    """Read results in fioparse's columns, by system, as from ``grade.measured_of``.

    Raises IohError if the file cannot be read, lacks columns, or has an invalid line.
    """
    raw = read_file(Path(path), 16, partial(_wrong, path))
    try:
        rows = csv.DictReader(io.StringIO(raw.decode()), restval="", strict=True)
        missing = [name for name in _NEEDED if name not in (rows.fieldnames or ())]
        if missing:
            raise _wrong(path, f"lacks the columns {', '.join(missing)}")
        by_system: dict[str, dict[tuple[str, int, int], Measured]] = {}
        for row in rows:
            key, measured = _read_row(row)
            by_system.setdefault(row["system"], {}).setdefault(key, measured)
    except (ValueError, csv.Error) as error:
        line = f"line {rows.line_num}: " if "rows" in locals() else ""
        raise _wrong(path, f"{line}{error}") from None
    if not by_system:
        raise _wrong(path, "has no lines")
    return by_system


def _wrong(path: str, what: str) -> IohError:
    hint = "Give a file that fioparse.sh or ioh bench report --csv wrote"
    return IohError(f"{path} {what}", hint)


def _read_row(row: Mapping[str, str]) -> tuple[tuple[str, int, int], Measured]:
    """Parse one line; ValueError if it is invalid."""
    users = int(row["users"])
    block_bytes = size_of(row["bs"].lower())
    cells = (row["lat"], row["p95_00"], row["p99_00"])
    ms = [float(cell) if cell else None for cell in cells]
    if any(each is not None and not 0 <= each < math.inf for each in ms):
        msg = "a latency is not a number of milliseconds"
        raise ValueError(msg)
    name = row["name"]
    key = (_KINDS.get(name, name), block_bytes, users)
    hist = tuple(float(row.get(column) or 0) for column in HIST_COLUMNS)
    if any(not 0 <= each < math.inf for each in hist):
        msg = "a column of the histogram is not a percentage"
        raise ValueError(msg)
    return key, Measured(dict(zip(STATISTICS, ms, strict=True)), hist=hist)
