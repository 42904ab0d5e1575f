"""One operation above that became several below: how many, of which size, which limit cut it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pieces:
    """Operations of one layer and what they became at the next.

    Units:
        ``calls`` above that reached the layer below, ``pieces`` they became, bytes of each
        side; ``above_us`` and ``below_us`` mean times, None where not known.
    """

    calls: float
    call_bytes: float
    pieces: float
    piece_bytes: float
    above_us: float | None = None
    below_us: float | None = None

    @property
    def per_call(self) -> float:
        """Pieces for each call."""
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
        """Pieces of their mean size in a call of its mean size.

        Where the bytes are conserved it is what a call becomes, and other than ``per_call`` does
        not suffer from calls that the edges of the time looked at cut in two.
        """
        return self.call_size / self.piece_size if self.piece_size else 0.0

    def conserves(self, share: float, whole_calls: float = 0.0) -> bool:
        """Whether as many bytes went below as came from above, but for ``share`` of them.

        ``whole_calls`` that were under way at the edges of the time looked at are forgiven, too.
        """
        off = abs(self.piece_bytes - self.call_bytes)
        return off <= max(share * self.call_bytes, whole_calls * self.call_size)

    @property
    def at_once(self) -> float | None:
        """How many pieces of one call were under way together, from the two mean times.

        One after another, a call takes as long as all of its pieces; all at once, as one.
        """
        if not self.above_us or self.below_us is None:
            return None
        return max(1.0, min(self.per_call, self.per_call * self.below_us / self.above_us))

    def is_cut_at(self, limit: float | None) -> bool:
        """Whether a limit of so many bytes explains the pieces: by their number or their size."""
        if not limit or limit >= self.call_size:
            return False
        expected = math.ceil(self.call_size / limit - 0.01)
        # Means of a mixture of sizes can agree by chance: then most pieces are far smaller.
        by_number = (
            abs(self.per_call - expected) <= 0.05 * expected and self.piece_size >= 0.75 * limit
        )
        return by_number or abs(self.piece_size - limit) <= 0.05 * limit


def how(pieces: Pieces) -> str:
    """Whether the pieces go one after another; "" where it is not known."""
    at_once = pieces.at_once
    if at_once is None:
        return ""
    if at_once < 1.5:
        return "one after another"
    if at_once >= 0.6 * pieces.per_call:
        return "all at once"
    return f"about {at_once:.1f} at a time"
