"""Compare two benches test by test, with the spread of the runs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ioh.bench.results import Results, Test
from ioh.bench.table import conditions_of
from ioh.model.printable import printable

_NAME = 29
# Different in every bench.
_OWN = {"command", "remark"}
_HEAD = (
    f"{'test':<{_NAME}} {'':<5} {'A':>10} {'B':>10} {'change':>8}   {'spread A':>8} {'spread B':>8}"
)


def comparison_text(a: Results, b: Results) -> Iterator[str]:
    """Format the differing conditions, then the tests of both."""
    yield from _differences(a, b)
    yield ""
    yield _HEAD
    theirs = {test.spec.name: test for test in b.tests}
    for test in a.tests:
        other = theirs.pop(test.spec.name, None)
        if other is None:
            yield f"{printable(test.spec.name):<{_NAME}} only in A"
        else:
            yield from _pair(test, other)
    yield from (f"{printable(name):<{_NAME}} only in B" for name in theirs)
    yield ""
    yield "Rates are operations a second, latencies ms. A change within the spread of the runs"
    yield "is not significant. Without a spread (one run), run again with -n 3."


def _differences(a: Results, b: Results) -> Iterator[str]:
    ours, theirs = conditions_of(a.conditions), conditions_of(b.conditions)
    for label, results in (("A", a), ("B", b)):
        where = f"{results.conditions.host}, {results.conditions.target}"
        yield f"{label}  {printable(where)}, plan {printable(results.conditions.plan)}"
    for label, values, others in (("A", ours, theirs), ("B", theirs, ours)):
        for name, value in values:
            if name not in _OWN and (name, value) not in others:
                yield f"!  only {label}: {name} {value}"


def _pair(a: Test, b: Test) -> Iterator[str]:
    name = printable(a.spec.name)
    if a.spec != b.spec:
        spec_a, spec_b = msgspec.structs.asdict(a.spec), msgspec.structs.asdict(b.spec)
        different = ", ".join(
            f"{field} {_short(spec_a[field])} and {_short(spec_b[field])}"
            for field in spec_a
            if spec_a[field] != spec_b[field]
        )
        yield f"{name:<{_NAME}} is a different test in B: {different}"
        return
    rows = [("IOPS", a.run.ops_per_s, b.run.ops_per_s)]
    for op, figures in a.run.fio.items():
        other = b.run.fio.get(op)
        for label, field in (("ms", "mean_us"), ("p95", "p95_us"), ("p99", "p99_us")):
            ours, theirs = getattr(figures, field), getattr(other, field, None)
            if ours is not None and theirs is not None:
                prefix = f"{printable(op)[:1]} " if len(a.run.fio) > 1 else ""
                rows.append((f"{prefix}{label}", ours / 1000, theirs / 1000))
    spreads = [_spread(a), _spread(b)]
    for label, ours, theirs in rows:
        change = f"{(theirs / ours - 1) * 100:+.1f} %" if ours else "-"
        cells = f"{_number(ours):>10} {_number(theirs):>10} {change:>8}"
        spread_cells = f"   {spreads[0]:>8} {spreads[1]:>8}" if label == "IOPS" else ""
        yield f"{name:<{_NAME}} {label:<5} {cells}{spread_cells}"
        name = ""
    for label, test in (("A", a), ("B", b)):
        if not test.verdict.ok:
            yield f"  ! {label} is not the storage: {printable(test.verdict.sentence)}"


def _short(value: object) -> str:
    return printable(str(value), 40)


def _spread(test: Test) -> str:
    return "-" if test.spread_pct is None else f"{test.spread_pct:.1f} %"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
