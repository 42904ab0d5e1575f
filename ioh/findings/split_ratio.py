"""Operations of one layer split into several at the next: how many, how large, by which limit."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pieces:
    """Operations of one layer, and the pieces that they became at the next.

    Units:
        ``calls`` above that reached the layer below, ``pieces`` below, bytes of each;
        ``above_us`` and ``below_us`` are mean times, None if not known.
    """

    calls: float
    call_bytes: float
    pieces: float
    piece_bytes: float
    above_us: float | None = None
    below_us: float | None = None

    @property
    def per_call(self) -> float:
        """Pieces per call."""
        return self.pieces / self.calls if self.calls else 0.0

    @property
    def call_size(self) -> float:
        """Mean bytes of a call."""
        return self.call_bytes / self.calls if self.calls else 0.0

    @property
    def piece_size(self) -> float:
        """Mean bytes of a piece."""
        return self.piece_bytes / self.pieces if self.pieces else 0.0

    @property
    def in_a_call(self) -> float:
        """Mean size of a call divided by the mean size of a piece.

        If bytes are conserved, this is the number of pieces per call; unlike ``per_call``, calls
        cut by the edges of the span do not distort it.
        """
        return self.call_size / self.piece_size if self.piece_size else 0.0

    def conserves(self, share: float, whole_calls: float = 0.0) -> bool:
        """Whether the bytes above and below agree, within ``share`` or ``whole_calls`` calls.

        Calls in flight at the edges of the span may count on one side only.
        """
        off = abs(self.piece_bytes - self.call_bytes)
        return off <= max(share * self.call_bytes, whole_calls * self.call_size)

    @property
    def at_once(self) -> float | None:
        """How many pieces of a call are in flight together, from the two mean times.

        If sequential, a call takes as long as all its pieces; if parallel, as long as one.
        """
        if not self.above_us or self.below_us is None:
            return None
        return max(1.0, min(self.per_call, self.per_call * self.below_us / self.above_us))

    def is_cut_at(self, limit: float | None) -> bool:
        """Whether a limit (bytes) explains the pieces, by their number or their size."""
        if not limit or limit >= self.call_size:
            return False
        expected = math.ceil(self.call_size / limit - 0.01)
        # With mixed sizes the means may agree by chance; most pieces are then far smaller.
        by_number = (
            abs(self.per_call - expected) <= 0.05 * expected and self.piece_size >= 0.75 * limit
        )
        return by_number or abs(self.piece_size - limit) <= 0.05 * limit


def how(pieces: Pieces) -> str:
    """Whether the pieces are sequential or parallel, as text; "" if not known."""
    at_once = pieces.at_once
    if at_once is None:
        return ""
    if at_once < 1.5:
        return "one after another"
    if at_once >= 0.6 * pieces.per_call:
        return "all in parallel"
    return f"about {at_once:.1f} at a time"
