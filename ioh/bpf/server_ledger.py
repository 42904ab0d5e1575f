"""Which servers' files have their probes, and how many places are in use; kept by the loader."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ioh.bpf.calls import Object, is_gone

SITES = 2048  # places that a layer can be attached to while it runs

FileId = tuple[int, int]  # st_dev, st_ino


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What is to be attached to.

    Shape:
        ``pid`` is of a process that runs a server; 0 stands for the libraries, and for the
        programs named on the command line.  ``first_site`` is the first free place; ``taken`` are
        the files that have their probes already.
    """

    pid: int
    first_site: int
    taken: Collection[FileId]


@dataclass(slots=True)
class ServerLedger:
    """What was attached since the layer was."""

    next_site: int = 0
    files: dict[FileId, tuple[Object, ...]] = field(default_factory=dict)  # each with its links

    def request(self, pid: int) -> ServerRequest:
        """What the child that attaches has to know."""
        taken = {f for f, links in self.files.items() if any(not is_gone(x) for x in links)}
        self.files = {file: self.files[file] for file in taken}
        return ServerRequest(pid, self.next_site, taken)

    def note(self, files: Iterable[Iterable[int]], sites: int, links: Iterable[Object]) -> None:
        """Take in what a child has attached: ``links`` to ``sites`` places of all of ``files``."""
        self.next_site += sites
        if made := tuple(links):
            self.files |= {(dev, ino): made for dev, ino in files if (dev, ino) not in self.files}
