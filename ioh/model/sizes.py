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
    """What the commonest operation becomes, if all become ``ops_per_s`` below; None if unclear.

    Each has at least one below.  If their sizes differ, the bytes must be the same above and below,
    so that each has its share: read-ahead fetches more for some of them than for others.
    """
    size, calls, call_bytes_per_s = commonest_bytes(stats), stats.ops_per_s, stats.bytes_per_s
    if not (size and calls and call_bytes_per_s and ops_per_s and bytes_per_s):
        return None
    by_size, piece = _by_size(stats), bytes_per_s / ops_per_s
    total = max(1, sum(by_size.values()))
    common = max(by_size, key=lambda edge: edge * by_size[edge], default=0)
    other_bytes = sum(n * edge for edge, n in by_size.items() if edge != common) * calls / total
    common_calls = by_size.get(common, total) * calls / total
    if calls - common_calls <= _FEW * calls and other_bytes <= _FEW * call_bytes_per_s:
        return Pieces(size, ops_per_s / calls, piece)
    least = min(1.0, ops_per_s / calls)
    if abs(bytes_per_s - call_bytes_per_s) <= _FEW * call_bytes_per_s:
        per_op = _by_bytes(stats, ops_per_s, size, piece)
        if per_op is None:
            return None
        if per_op >= _ALIKE * least:  # else the larger ones have the bytes; these are not merged
            return Pieces(size, per_op, size / per_op)
    if ops_per_s - calls > (1 - _ALIKE) * common_calls:
        return None
    return Pieces(size, least, 0.0)


def _by_bytes(stats: OpStats, ops_per_s: float, size: float, piece: float) -> float | None:
    """The operations below for ``size`` bytes, None if unclear.

    Operations no larger than a piece have one each.  Of their bytes only the most is known.
    """
    by_size, calls = _by_size(stats), stats.ops_per_s or 0.0
    each = calls / max(1, sum(by_size.values()))
    small = {edge: n * each for edge, n in by_size.items() if edge <= min(piece, size / 2)}
    small_bytes = sum(edge * n for edge, n in small.items())
    rest, rest_bytes = ops_per_s - sum(small.values()), (stats.bytes_per_s or 0.0) - small_bytes
    if rest <= 0 or small_bytes / 2 > _FEW * rest_bytes:
        return None
    return size * rest / rest_bytes


def _by_size(stats: OpStats) -> dict[int, int]:
    return stats.size_lat.by_size() if stats.size_lat is not None else {}
