"""Which servers' files have their probes, and which places are in use; kept by the loader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ioh.bpf.calls import Object, is_gone

SITES = 2048  # places that a layer can be attached to at a time

FileId = tuple[int, int]  # st_dev, st_ino


class ServerRequest(NamedTuple):
    """What is to be attached to.

    ``pid`` is of a process that runs a server; 0 stands for the libraries, and for the programs
    named on the command line.  ``free_sites`` are places that nothing uses.  ``known`` are the
    files that have probes already, each with the ops whose own are gone.
    """

    pid: int
    free_sites: Sequence[int]
    known: Mapping[FileId, Collection[str]]


class Link(NamedTuple):
    """What one link is attached to, and itself."""

    file: FileId
    op: str
    places: Sequence[int]
    made: Object


@dataclass(slots=True)
class ServerLedger:
    """Each op's last links, those that are gone, too, while somebody holds one of their file."""

    links: list[Link] = field(default_factory=list)

    def request(self, pid: int) -> ServerRequest:
        """What the child that attaches has to know."""
        living = self._living()
        known: dict[FileId, set[str]] = {link.file: set() for link in self.links}
        for link in self.links:
            known[link.file].add(link.op)
        for link in living:
            known[link.file].discard(link.op)
        used = {at for link in living for at in link.places}
        return ServerRequest(pid, [at for at in range(SITES) if at not in used], known)

    def note(
        self, sites: Iterable[Sequence[int]], ops: Iterable[str], links: Iterable[Object]
    ) -> None:
        """Take in what a child has attached: each link's file with its places, its op, itself."""
        self._living()
        fresh = [
            Link((dev, ino), op, places, made)
            for (dev, ino, *places), op, made in zip(sites, ops, links, strict=True)
        ]
        again = {(link.file, link.op) for link in fresh}
        self.links = [link for link in self.links if (link.file, link.op) not in again] + fresh

    def _living(self) -> list[Link]:
        """Those that somebody still holds; files of which nobody holds any are forgotten."""
        living = [link for link in self.links if not is_gone(link.made)]
        held = {link.file for link in living}
        self.links = [link for link in self.links if link.file in held]
        return living
