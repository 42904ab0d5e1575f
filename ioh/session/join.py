"""Makes one file of several hosts' recordings; see joined.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.rights.files import remove
from ioh.session.joined import write_joined
from ioh.session.output import FileOutput, first_free
from ioh.session.reader import Session, hosts_of
from ioh.session.records import to_text


class Joining(contextlib.ExitStack):
    """Recordings about to be joined; a context manager.

    Shape:
        ``sessions`` by the name of their host, in the order in which they were added.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Session] = {}

    def add(self, path: str, name: str = "") -> None:
        """Add a recording, every host of it where it holds several.

        Args:
            path: The file.
            name: What its host is called; as recorded, unless it is given.

        Raises:
            IohError: It is no recording, is not at its end yet, or its host is there already.
        """
        for each in [f"{path}#{host}" for host in hosts_of(path)] or [path]:
            session = self.enter_context(Session(each))
            own = name or each[len(path) + 1 :] or to_text(session.header.hostname)
            if session.is_growing:
                cause = f"{printable(path)} is still being recorded"
                raise IohError(cause, "Join it when it has ended", ExitCode.USAGE)
            if own in self.sessions:
                first, shown = printable(self.sessions[own].path), printable(path)
                cause = f"{first} and {shown} are both of host {printable(own)}"
                hint = f"Make one of them: cat {first} {shown} | ioh verify - --repair NEW"
                raise IohError(cause, hint, ExitCode.USAGE)
            self.sessions[own] = session

    def write(self, names: Iterable[str]) -> FileOutput:
        """Write all of them into a new file; what is made of it when that fails is removed.

        Args:
            names: Of the file, the first that is free.

        Returns:
            The file, closed.

        Raises:
            IohError: It cannot be made or written, there are too many hosts, or a recording
                changed meanwhile.
        """
        output = first_free(names, FileOutput)
        parts = [(name, each.size_bytes, each.pieces) for name, each in self.sessions.items()]
        try:
            write_joined(output, parts)
        except BaseException as error:
            with contextlib.suppress(OSError):
                remove(output.name)
            if isinstance(error, OSError):
                cause = f"cannot write {printable(output.name)}: {error.strerror}"
                raise IohError(cause, "Free some space, or give another place with -o") from error
            raise
        finally:
            output.close()
        return output
