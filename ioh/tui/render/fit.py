"""Which lines of the table of layers are drawn where not all of them fit."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.snapshot import OpStats
from ioh.tui.rows import LayerRow


def fitted_rows(
    rows: Sequence[LayerRow], chosen: tuple[str, str], room: int
) -> tuple[list[LayerRow], list[LayerRow]]:
    """The lines for ``room`` of them, the chosen one always among them, and those left out.

    Layers that are not there are joined, then parts go, then what is neither read nor write;
    a layer's reads and writes go last, and then those about the chosen line are shown.
    """
    room = max(1, room)
    if len(rows) <= room:
        return list(rows), []
    joined = _joined(rows)
    kept = list(joined)
    # Idle parts first; in each kind the last line first.
    order = sorted(range(len(joined)), key=lambda at: (_usefulness(joined[at]), -at))
    for row in (joined[at] for at in order):
        if len(kept) <= room or _usefulness(row) == _MAIN:
            break
        if not _is_chosen(row, chosen):
            kept.remove(row)
    at = next((at for at, row in enumerate(kept) if _is_chosen(row, chosen)), 0)
    first = max(0, min(at - room // 2, len(kept) - room))
    shown = kept[first : first + room]
    return shown, [row for row in joined if row not in shown]


_IDLE_PART, _PART, _BESIDE, _MAIN = range(4)


def _usefulness(row: LayerRow) -> int:
    if row.is_part:
        return _PART if row.stats.count or not row.op else _IDLE_PART
    return _MAIN if row.direction else _BESIDE


def _is_chosen(row: LayerRow, chosen: tuple[str, str]) -> bool:
    return bool(row.op) and row.key == chosen


def _joined(rows: Sequence[LayerRow]) -> list[LayerRow]:
    """One line, last of the reads, for all layers that are not there; a share has no op either."""
    missing = [row for row in rows if not row.op and not row.is_part]
    if len(missing) < 2:
        return list(rows)
    names = ", ".join(row.label for row in missing)
    line = LayerRow("", "", "R", "not there", OpStats(), f"{names} (taller: why)")
    there = [row for row in rows if row.op or row.is_part]
    reads = sum(1 for row in there if row.direction == "R")
    return [*there[:reads], line, *there[reads:]]
