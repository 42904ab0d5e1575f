"""Attaches a layer's program to the probe points of a server's file; runs in the loader.

The file is the program of a process, or was named on the command line and opened with the caller's
rights; ioh only names the process.  Its content is untrusted: sites.py limits and checks it.  The
same descriptor is read and attached to, so it does not matter if the path changes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ioh.bpf.calls import KernelObjects, Object, Outcome, object_ids, open_object, set_element
from ioh.bpf.server_files import file_id, open_regular
from ioh.bpf.server_ledger import FileId, ServerRequest
from ioh.bpf.site_record import pack_site
from ioh.bpf.sites import Site, find_sites
from ioh.bpf.trap_cost import TrapCost
from ioh.bpf.uprobes import Place, attach_uprobes
from ioh.model.limits import lack_behind
from ioh.model.printable import printable
from ioh.rights.user import User, caller, rights_of

if TYPE_CHECKING:
    from ioh.bpf.probe import Probe
    from ioh.bpf.server_files import NamedFile, Server


@dataclass(slots=True)
class _Work:
    """What is attached so far."""

    free_sites: Iterator[int] = field(default_factory=lambda: iter(()))
    program: int = -1
    sites: int = -1
    ops: Sequence[str] = ()
    files: list[FileId] = field(default_factory=list)
    links: list[int] = field(default_factory=list)
    link_ops: list[str] = field(default_factory=list)  # the op of each link
    link_sites: list[tuple[int, ...]] = field(default_factory=list)  # file and places of each link
    failing: list[tuple[FileId, str]] = field(default_factory=list)  # ops whose errors are known
    trap_ns: dict[str, int] = field(default_factory=dict)  # of the dearest place of each op
    missing: list[str] = field(default_factory=list)

    def outcome(self, reason: str, counted_ns: int = 0) -> Outcome:
        answer: dict[str, Any] = {
            "reason": printable(reason),
            "files": self.files,
            "link_ops": self.link_ops,
            "link_sites": self.link_sites,
            "failing": self.failing,
            "trap_ns": self.trap_ns,
            "counted_ns": counted_ns,
            "missing": [printable(text) for text in self.missing],
        }
        return answer, self.links, KernelObjects(object_ids("link", self.links))


def attach_server(probe: Probe, objects: Sequence[Object], asked: ServerRequest) -> Outcome:
    """Attach to a process' program, or to the named files; return an answer in any case.

    The answer has ``files``: the FileId of each file with probes; ``link_ops``: the op of each
    link; ``link_sites``: its file and places; ``failing``: file and op of operations whose errors
    are counted; ``trap_ns``: what a trap costs, by op; ``counted_ns``: what the program in it
    costs; ``missing``: sentences about missing probes; ``reason``: "" unless it failed.
    """
    if probe.server_program is None:
        return _Work().outcome("the layer has no such part")
    try:
        sites, program = (open_object(made) for made in objects)
        work = _Work(iter(asked.free_sites), program, sites, probe.spec.ops)
        servers, named = probe.server_program.find_servers()
        for file, server in _files(asked.pid, servers, named, work):
            with file:
                work.files.append((*file_id(file.fileno()), servers.index(server)))
                lacks = asked.known.get(work.files[-1])
                if lacks is None or lacks:
                    _attach_file(file, server, work, lacks, asked.trap)
    except (FileNotFoundError, ProcessLookupError):  # the process has ended
        return _Work().outcome("")
    except (OSError, ValueError) as error:
        lack = lack_behind(error)
        reason = lack.cause if lack else getattr(error, "strerror", None) or str(error)
        return _Work().outcome(reason)
    why = next(iter(work.missing), "not a supported server")
    return work.outcome(why if asked.pid and not work.files else "", asked.trap.counted_ns)


def _files(
    pid: int, servers: Iterable[Server], named: Iterable[NamedFile], work: _Work
) -> Iterator[tuple[BinaryIO, Server]]:
    """Open the files to attach to; yield each with its server."""
    if not pid:
        for file in named:
            with suppress(OSError):
                yield open_regular(file.path, file.id), file.server
        return
    name = str(Path(f"/proc/{pid}/exe").readlink()).removesuffix(" (deleted)")
    for server in servers:
        if not {name, Path(name).name}.isdisjoint(server.binaries):
            user = caller() if server.is_users else None
            if program := _program_of(pid, name, user):
                yield program, server
            else:
                work.missing.append(f"{server.title}: the caller cannot read {name}")


def _program_of(pid: int, name: str, user: User | None) -> BinaryIO | None:
    """Open the program of a process; None if this user could not, by its name or as its owner."""
    program = f"/proc/{pid}/exe"
    file = open_regular(program)
    if user is None:
        return file
    with file, rights_of(user):
        for path in (program, name):
            with suppress(OSError):
                return open_regular(path, file_id(file.fileno()))
    return None


def _attach_file(
    file: BinaryIO, server: Server, work: _Work, wanted: Collection[str] | None, trap: TrapCost
) -> None:
    """Attach to all places in a file, or only to those of the ``wanted`` ops."""
    found = find_sites(file, server, os.uname().machine)
    work.missing += found.missing
    path = f"/proc/self/fd/{file.fileno()}"
    refused: dict[str, str] = {}
    # Ends first, or operations that start in between would stay in flight forever.
    for (_, op, at_return), group in groupby(sorted(found.sites, key=_order), key=_order):
        if op not in (work.ops if wanted is None else wanted) or op in refused:
            continue
        sites = tuple(group)
        taken = tuple(islice(work.free_sites, len(sites)))
        if len(taken) < len(sites):
            refused[op] = "ioh already watches as many programs as it can"
            continue
        places = []
        for at, site in zip(taken, sites, strict=True):
            packed = pack_site(site, server.owner, work.ops, work.files[-1][2])
            set_element(work.sites, at, packed)
            places.append(Place(site.offset, site.semaphore, at))
            cost_ns = trap.of(os.pread(file.fileno(), 4, site.offset), os.uname().machine)
            work.trap_ns[op] = max(cost_ns, work.trap_ns.get(op, 0))
        try:
            links = attach_uprobes(work.program, path, places, at_return=at_return)
        except OSError as error:
            refused[op] = error.strerror or str(error)
            continue
        work.links += links
        work.link_ops += [op] * len(links)
        of_links = [taken] if len(links) == 1 else [(at,) for at in taken]
        work.link_sites += [(*work.files[-1], *of_link) for of_link in of_links]
    cancelled = dict.fromkeys(site.op for site in found.sites if site.role == "cancel")
    work.failing += [(work.files[-1], op) for op in cancelled]
    work.missing += [f"{server.title}: no {op}: {why}" for op, why in refused.items()]


def _order(site: Site) -> tuple[bool, str, bool]:
    return site.role in {"start", "first", "unseen"}, site.op, site.at_return
