"""A base class for objects that close with their ``with`` block."""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T", bound="Closing")


class Closing:
    """A context manager that always calls close()."""

    def __enter__(self: _T) -> _T:  # noqa: PYI019 (Self came with Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all resources."""
        raise NotImplementedError
