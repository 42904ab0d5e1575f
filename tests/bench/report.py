"""Figures and tables of one run, as Markdown and as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

_STARTED = time.monotonic()


def say(message: str) -> None:
    """Print progress to stderr: it is not part of the result."""
    print(f"[{time.monotonic() - _STARTED:4.0f} s] {message}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Figure:
    """One quantity, with the budget that it must not exceed, if there is one."""

    name: str
    unit: str
    values: tuple[float, ...]  # empty: it could not be measured, which fails any budget
    budget: float | None = None
    below: bool = False  # the budget itself is already too much

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    @property
    def verdict(self) -> str:
        if self.median is None:
            return "not measured"
        if self.budget is None:
            return ""
        ok = self.median < self.budget if self.below else self.median <= self.budget
        return "ok" if ok else "OVER"

    def cells(self) -> tuple[str, ...]:
        several = len(self.values) > 1
        spread = f"{number(min(self.values))} – {number(max(self.values))}" if several else ""
        limit = "" if self.budget is None else f"{'<' if self.below else '≤'} {self.budget:g}"
        return (
            f"{self.name}, {self.unit}" if self.unit else self.name,
            "" if self.median is None else number(self.median),
            spread,
            limit,
            self.verdict,
        )


def number(value: float) -> str:
    """Three significant digits, with a separator of thousands."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


@dataclass
class Table:
    """A comparison with columns of its own."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def text(self) -> str:
        return f"{self.title}\n\n{markdown(self.head, self.rows)}\n"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        return f"| {' | '.join(padded)} |"

    rule = [f"{'-' * (width + 1)}{':' if at else '-'}" for at, width in enumerate(widths)]
    return "\n".join([line(head), f"|{'|'.join(rule)}|", *map(line, rows)])


@dataclass
class Report:
    """The results of one run."""

    host: str
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def figure(
        self,
        name: str,
        unit: str,
        values: Sequence[float],
        budget: float | None = None,
        *,
        below: bool = False,
    ) -> None:
        self.figures.append(Figure(name, unit, tuple(values), budget, below))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            say(text)

    def text(self) -> str:
        parts = [f"{self.host}\n", *(table.text() for table in self.tables)]
        if self.figures:
            head = ("figure", "median", "range", "budget", "verdict")
            parts.append(markdown(head, [figure.cells() for figure in self.figures]) + "\n")
        parts += [f"- {note}" for note in self.notes]
        return "\n".join(parts)

    def json(self) -> str:
        figures = [
            {**asdict(f), "median": f.median, "verdict": f.verdict or None} for f in self.figures
        ]
        tables = [asdict(table) for table in self.tables]
        whole = {"host": self.host, "tables": tables, "figures": figures, "notes": self.notes}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"

    def within_budget(self) -> bool:
        return all(f.verdict == "ok" for f in self.figures if f.budget is not None)
