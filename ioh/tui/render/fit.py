"""Which lines of a layer's table are drawn where not all of them fit."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.tui.rows import LayerRow


def fitted_rows(
    rows: Sequence[LayerRow], chosen: tuple[str, str], room: int
) -> tuple[list[LayerRow], list[LayerRow]]:
    """The lines for ``room`` of them, the chosen one always among them, and those left out.

    Parts go first, then what is neither read nor write; reads and writes go last, and then those
    about the chosen line are shown.
    """
    room = max(1, room)
    if len(rows) <= room:
        return list(rows), []
    kept = list(rows)
    # Idle parts first; in each kind the last line first.
    order = sorted(range(len(rows)), key=lambda at: (_usefulness(rows[at]), -at))
    for row in (rows[at] for at in order):
        if len(kept) <= room or _usefulness(row) == _MAIN:
            break
        if not _is_chosen(row, chosen):
            kept.remove(row)
    at = next((at for at, row in enumerate(kept) if _is_chosen(row, chosen)), 0)
    first = max(0, min(at - room // 2, len(kept) - room))
    shown = kept[first : first + room]
    return shown, [row for row in rows if row not in shown]


_IDLE_PART, _PART, _BESIDE, _MAIN = range(4)


def _usefulness(row: LayerRow) -> int:
    if row.is_part:
        return _PART if row.stats.count or not row.op else _IDLE_PART
    return _MAIN if row.direction else _BESIDE


def _is_chosen(row: LayerRow, chosen: tuple[str, str]) -> bool:
    return bool(row.op) and row.key == chosen
