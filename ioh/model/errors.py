"""Errors for the user: cause and next step, printed as one line."""

from __future__ import annotations

from enum import IntEnum

from ioh.model.printable import printable


class ExitCode(IntEnum):
    """Exit statuses of commands; a stable interface, listed in docs/output.md."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    INTERRUPTED = 130


class IohError(Exception):
    """An error of the user or the host: the cause, without a full stop, and the next step.

    Names from outside may be in either: both are made printable here.
    """

    def __init__(self, cause: str, hint: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        self.cause, self.hint = printable(cause), printable(hint)
        super().__init__(self.cause)
        self.code = code

    def __str__(self) -> str:
        return f"{self.cause}. {self.hint}" if self.hint else self.cause


def refuse_if(is_wrong: object, cause: str, hint: str) -> None:
    """Raise a usage IohError if ``is_wrong`` is true."""
    if is_wrong:
        raise IohError(cause, hint, ExitCode.USAGE)
