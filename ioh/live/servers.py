"""The servers' files that a layer's program is attached to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any

from ioh.bpf.channel import close_all
from ioh.layers.trap_budget import PAUSE_S

if TYPE_CHECKING:
    from ioh.layers.base import Layer

# Detach from a file this long after its last process has ended, so that the old program of an
# upgraded server is released; a server that restarts in time is measured without a gap.
_KEPT_S = 60.0
_MOST_AT_ONCE = 4  # requests per tick; the loader forks for each


@dataclass(slots=True)
class _Attached:
    """The result of a process' request: the links of its files that were not yet attached."""

    links: dict[int, str]  # the op of each link's descriptor
    files: frozenset[tuple[int, ...]]
    seen_s: float  # when the process last ran


@dataclass(slots=True)
class ServerProbes:
    """Requests probes once per process; keeps the links while a process runs the file.

    ``missing``: what a server has no probe for.  ``refused``: why a process has no probes.
    ``pauses``: by op, why it is not counted for a while, and until when.
    """

    layer: Layer
    requests: set[int] = field(default_factory=set)
    attached: dict[int, _Attached] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    pauses: dict[str, tuple[str, float]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    def due(self) -> list[int]:
        """Processes to request from the loader now; detaches files that nobody runs any more.

        Requests dropped operations again after their pause.
        """
        running, now_s = self.layer.server_pids(), time.monotonic()
        self.requests &= running
        if over := [op for op, (_, until_s) in self.pauses.items() if now_s >= until_s]:
            self.pauses = {op: x for op, x in self.pauses.items() if op not in over}
            self.requests -= self.attached.keys()
        self.refused = {pid: why for pid, why in self.refused.items() if pid in running}
        for pid in self.attached.keys() & running:
            self.attached[pid].seen_s = now_s
        self._let_go(now_s)
        due = sorted(running - self.requests)[:_MOST_AT_ONCE]
        self.requests |= set(due)
        return due

    def _let_go(self, now_s: float) -> None:
        over = {pid: a for pid, a in self.attached.items() if now_s - a.seen_s > _KEPT_S}
        files_in_use = [a.files for pid, a in self.attached.items() if pid not in over]
        for pid, attached in over.items():
            if not any(attached.files & files for files in files_in_use):
                close_all(tuple(attached.links))
                del self.attached[pid]

    def take(self, answer: dict[str, Any], fds: Sequence[int]) -> None:
        """Take the loader's answer about a process."""
        pid, reason = int(answer["pid"]), str(answer.get("reason", ""))
        if reason or pid not in self.requests:
            self.refused[pid] = reason
            close_all(fds)
            return
        links = dict(zip(fds, map(str, answer["link_ops"]), strict=True))
        self.missing = tuple(dict.fromkeys((*self.missing, *map(str, answer["missing"]))))
        files = frozenset(tuple(file) for file in answer["files"])
        if pid in self.attached:  # requested again; most were already attached
            links |= self.attached[pid].links
            files |= self.attached[pid].files
        self.attached[pid] = _Attached(links, files, time.monotonic())
        for op in self.pauses:
            self._detach(op)
        mask = [op not in self.pauses for op in answer["link_ops"]]
        of_links = {name: [*compress(answer[name], mask)] for name in ("link_ops", "link_sites")}
        self.layer.observe_server({**answer, **of_links})

    def drop(self, op: str, why: str) -> None:
        """Stop counting an operation for a while."""
        self.pauses[op] = why, time.monotonic() + PAUSE_S
        self._detach(op)

    def _detach(self, op: str) -> None:
        for attached in self.attached.values():
            close_all([link for link, counts in attached.links.items() if counts == op])
            attached.links = {link: x for link, x in attached.links.items() if x != op}

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not counted, and why."""
        refused = tuple(dict.fromkeys(why for why in self.refused.values() if why))
        not_counted = (f"a server is not counted: {why}" for why in refused)
        paused = (why for why, _ in self.pauses.values())
        return (*self.missing, *paused, *not_counted)

    def close(self) -> None:
        """Detach all."""
        for attached in self.attached.values():
            close_all(tuple(attached.links))
        self.attached = {}
