"""What ends with its ``with`` block."""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T", bound="Closing")


class Closing:
    """A context manager that is closed in the end, whatever happened."""

    def __enter__(self: _T) -> _T:  # noqa: PYI019 (Self came with Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what was opened."""
        raise NotImplementedError
