"""Which servers' files have their probes, and which places are in use; kept by the loader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ioh.bpf.calls import Object, is_gone

SITES = 2048  # places that a layer can be attached to at a time

FileId = tuple[int, int]  # st_dev, st_ino
Link = tuple[Sequence[int], Object]  # its places, itself


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What is to be attached to.

    ``pid`` is of a process that runs a server; 0 stands for the libraries, and for the programs
    named on the command line.  ``free_sites`` are places that nothing uses.  ``known`` are the
    files that have probes already, each with the ops whose own are gone.
    """

    pid: int
    free_sites: Sequence[int]
    known: Mapping[FileId, Collection[str]]


@dataclass(slots=True)
class ServerLedger:
    """What was attached since the layer was: by file and op, each link with its places."""

    files: dict[FileId, dict[str, list[Link]]] = field(default_factory=dict)

    def request(self, pid: int) -> ServerRequest:
        """What the child that attaches has to know."""
        self._forget_files()
        known: dict[FileId, set[str]] = {}
        used: set[int] = set()
        for file, ops in self.files.items():
            living = {op: _living(links) for op, links in ops.items()}
            known[file] = {op for op, links in living.items() if not links}
            used |= {at for links in living.values() for places, _ in links for at in places}
        return ServerRequest(pid, [at for at in range(SITES) if at not in used], known)

    def note(
        self, sites: Iterable[Sequence[int]], ops: Iterable[str], links: Iterable[Object]
    ) -> None:
        """Take in what a child has attached: each link's file with its places, its op, itself."""
        self._forget_files()
        fresh: dict[tuple[FileId, str], list[Link]] = {}
        for (dev, ino, *places), op, made in zip(sites, ops, links, strict=True):
            fresh.setdefault(((dev, ino), op), []).append((places, made))
        for (file, op), new in fresh.items():
            self.files.setdefault(file, {})[op] = new

    def _forget_files(self) -> None:
        """Those that nobody holds a link to any more."""
        self.files = {
            file: ops
            for file, ops in self.files.items()
            if any(_living(links) for links in ops.values())
        }


def _living(links: Iterable[Link]) -> list[Link]:
    """Those that somebody still holds."""
    return [(places, made) for places, made in links if not is_gone(made)]
