"""The size of the operations that move most of the bytes, and what they become below."""

from __future__ import annotations

from typing import NamedTuple

from ioh.model.snapshot import OpStats

_ALIKE = 0.95  # what is less differs by more than rounding
_FEW = 0.1  # share of the bytes that other sizes may have for an exact size


class Pieces(NamedTuple):
    """An operation of ``size_bytes`` becomes ``per_op`` of ``piece_bytes``, 0 if not known."""

    size_bytes: float
    per_op: float
    piece_bytes: float


def commonest_bytes(stats: OpStats) -> float | None:
    """The size of the operations that moved most of the bytes, in bytes; None if not known.

    The largest size of their bucket of the histogram, if other sizes hide the exact one.
    """
    by_size = _by_size(stats)
    if len(by_size) < 2 or not stats.bytes:
        return stats.avg_bytes
    size, count = max(by_size.items(), key=lambda item: item[0] * item[1])
    others = sum(n * each for each, n in by_size.items()) - size * count
    if others > _FEW * stats.bytes:
        return float(size)
    return min(float(size), max(size / 2, (stats.bytes - others) / count))


def pieces_of(stats: OpStats, ops_per_s: float, bytes_per_s: float) -> Pieces | None:
    """What the commonest operation becomes, if all become ``ops_per_s`` below.

    Smaller operations, no larger than a piece, become one each.
    """
    size, calls, call_bytes_per_s = commonest_bytes(stats), stats.ops_per_s, stats.bytes_per_s
    if not (size and calls and call_bytes_per_s and ops_per_s and bytes_per_s):
        return None
    by_size, piece = _by_size(stats), bytes_per_s / ops_per_s
    each = calls / max(1, sum(by_size.values()))
    small = {edge: n * each for edge, n in by_size.items() if edge <= min(piece, size / 2)}
    rest, rest_bytes = (
        ops_per_s - sum(small.values()),
        call_bytes_per_s - sum(e * n for e, n in small.items()),
    )
    if rest <= 0 or rest_bytes <= 0:
        return Pieces(size, ops_per_s / calls, piece)
    below = bytes_per_s - sum(e * n for e, n in small.items())
    per_op, least = size * rest / rest_bytes, min(1.0, ops_per_s / calls)
    if per_op < _ALIKE * least:  # the larger ones have the bytes; these are not merged more
        return Pieces(size, least, 0.0)
    return Pieces(size, per_op, max(0.0, below) / rest)


def _by_size(stats: OpStats) -> dict[int, int]:
    return stats.size_lat.by_size() if stats.size_lat is not None else {}
