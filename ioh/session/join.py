"""Join several hosts' recordings in one file, one after the other; see recorded_file.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable
from ioh.model.rounds import MAX_HOSTS
from ioh.rights.files import remove
from ioh.session.frame import Kind, make_frame
from ioh.session.output import FileOutput, first_free
from ioh.session.packing import Packer
from ioh.session.reader import Session
from ioh.session.recorded_file import MAX_HOST_BYTES, HostList, hosts_of
from ioh.session.records import encode_plain, to_bytes, to_text


class Joining(contextlib.ExitStack):
    """The recordings to join, by host name; a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Session] = {}

    def add(self, path: str, name: str = "") -> None:
        """Add a recording, or all hosts of a joined one, under ``name`` if given.

        Raises IohError if it is not a recording, is still growing, or its host was added before.
        """
        for each in [f"{path}#{host}" for host in hosts_of(path)] or [path]:
            session = self.enter_context(Session(each))
            own = name or each[len(path) + 1 :] or to_text(session.header.hostname)
            cause = f"{path} is still being recorded"
            refuse_if(session.is_growing, cause, "Join it when it has ended")
            if own in self.sessions:
                first, second = printable(self.sessions[own].path), printable(path)
                cause = f"{first} and {second} are both of host {own}"
                hint = f"Merge them first: cat {first} {second} | ioh verify - --repair NEW"
                raise IohError(cause, hint, ExitCode.USAGE)
            self.sessions[own] = session

    def write(self, names: Iterable[str]) -> FileOutput:
        """Write all into a new file with the first free name; return it closed.

        On failure the file is removed.  Raises IohError if it cannot be created or written, there
        are too many hosts, or a recording changed while it was read.
        """
        count = len(self.sessions)
        refuse_if(count > MAX_HOSTS, f"{count} hosts", f"Join {MAX_HOSTS} at most")
        output = first_free(names, FileOutput)
        try:
            self._write(output)
        except BaseException as error:
            with contextlib.suppress(OSError):
                remove(output.name)
            if isinstance(error, OSError):
                cause = f"cannot write {output.name}: {error.strerror}"
                raise IohError(cause, "Free some space, or give another place with -o") from error
            raise
        finally:
            output.close()
        return output

    def _write(self, output: FileOutput) -> None:
        sizes = {name: session.size_bytes for name, session in self.sessions.items()}
        listed = HostList([(to_bytes(name)[:MAX_HOST_BYTES], size) for name, size in sizes.items()])
        record = make_frame(Kind.JOINED, 0, 0.0, Packer().pack(encode_plain(listed)))
        output.write(record)
        for name, session in self.sessions.items():
            before = output.size_bytes
            for piece in session.pieces():
                output.write(piece)
            if output.size_bytes - before != sizes[name]:
                cause = f"the recording of {name} changed while it was read"
                raise IohError(cause, "Join it when it has ended")
        output.write(record)
