"""The loader's record of servers' files with probes, and of the places in use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ioh.bpf.calls import Object, is_gone
from ioh.bpf.trap_cost import TrapCost

SITES = 2048  # most places that a layer can be attached to

# st_dev, st_ino, and the number of the server among the layer's: several can name one program.
FileId = tuple[int, int, int]


class ServerRequest(NamedTuple):
    """What to attach to.

    ``pid``: a process that runs a server; 0: the libraries, and the programs named on the command
    line.  ``free_sites``: unused places.  ``known``: files that already have probes, with those of
    their ops whose probes are gone.  ``trap``: what a trap costs on this host.
    """

    pid: int
    free_sites: Sequence[int]
    known: Mapping[FileId, Collection[str]]
    trap: TrapCost


class Link(NamedTuple):
    """A link and what it is attached to."""

    file: FileId
    op: str
    places: Sequence[int]
    made: Object


@dataclass(slots=True)
class ServerLedger:
    """The last links of each op, including closed ones, while a link of the same file is open."""

    links: list[Link] = field(default_factory=list)
    trap: TrapCost = field(default_factory=TrapCost)

    def request(self, pid: int) -> ServerRequest:
        """The request for the child that attaches."""
        living = self._living()
        known: dict[FileId, set[str]] = {link.file: set() for link in self.links}
        for link in self.links:
            known[link.file].add(link.op)
        for link in living:
            known[link.file].discard(link.op)
        used = {at for link in living for at in link.places}
        return ServerRequest(pid, [at for at in range(SITES) if at not in used], known, self.trap)

    def note(
        self, sites: Iterable[Sequence[int]], ops: Iterable[str], links: Iterable[Object]
    ) -> None:
        """Note what a child attached: for each link its file and places, its op, and itself."""
        self._living()
        fresh = [
            Link((dev, ino, server), op, places, made)
            for (dev, ino, server, *places), op, made in zip(sites, ops, links, strict=True)
        ]
        again = {(link.file, link.op) for link in fresh}
        self.links = [link for link in self.links if (link.file, link.op) not in again] + fresh

    def _living(self) -> list[Link]:
        """The open links; forgets files without any."""
        living = [link for link in self.links if not is_gone(link.made)]
        held = {link.file for link in living}
        self.links = [link for link in self.links if link.file in held]
        return living
