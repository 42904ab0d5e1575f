"""Where the time of an operation goes, as text."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.model.path import Path, paths
from ioh.model.snapshot import Snapshot
from ioh.sinks.cells import UNKNOWN, format_fixed, safe_name

_LETTERS = {"read": "R", "write": "W", "sync": "S"}


def render_paths(snapshot: Snapshot) -> Iterator[str]:
    """One line for each direction: the mean, its steps, and what they leave out."""
    found = paths(snapshot)
    if found:
        yield "---- path ---- (ms of the mean operation)"
    for direction, path in found.items():
        yield f"{_LETTERS[direction]} |{_ms(path.mean_us):>8} = {_steps(path)}"
        yield from (f"  | {safe_name(note)}" for note in path.notes)


def _steps(path: Path) -> str:
    return " + ".join(
        f"{segment.title} {_ms(segment.us)}{_share(path.share_pct(segment))}"
        for segment in path.segments
    )


def _ms(us: float | None) -> str:
    return UNKNOWN if us is None else format_fixed(us / 1e3, 8, 3)


def _share(pct: float | None) -> str:
    return "" if pct is None else f" ({pct:.0f}%)"
