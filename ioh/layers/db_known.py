"""Which operations of a server are counted, and which of these can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ioh.model.sample import OpTotals


class _Unseen(NamedTuple):
    """How often an op happened unseen and seen at the last reading; which of them came last."""

    unseen: int = 0
    seen: int = 0
    is_last: bool = False


class KnownOps:
    """By server: the ops for which its program has probes, from the loader's answers."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[tuple[int, ...], ...]] = {}
        self._ops: dict[tuple[int, ...], dict[str, bool]] = {}  # by file
        self._dropped: set[str] = set()
        self._unseen: dict[tuple[int, str], _Unseen] = {}

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Take an answer of attach_server()."""
        self._files[int(answer["pid"])] = tuple(map(tuple, answer["files"]))
        failing = {(tuple(file), op) for file, op in answer["failing"]}
        for (*file, _), op in zip(_first_places(answer), map(str, answer["link_ops"]), strict=True):
            self._ops.setdefault(tuple(file), {})[op] = (tuple(file), op) in failing
        self._dropped.difference_update(answer["link_ops"])

    def drop(self, op: str) -> None:
        """The op is no longer counted, at any server."""
        self._dropped.add(op)
        for ops in self._ops.values():
            ops.pop(op, None)

    def of(self, server: int, totals: Mapping[str, OpTotals]) -> dict[str, bool]:
        """The ops counted at a server, and whether they can fail; called once for each reading.

        Not those that it now does in a way that no probe sees.  A process that was not asked for
        uses one of the named libraries.
        """
        files = self._files.get(server) or self._files.get(0, ())
        ops = {op: fails for file in files for op, fails in self._ops.get(file, {}).items()}
        for op, op_totals in totals.items():
            if op_totals.count_total and op not in self._dropped:
                ops.setdefault(op, False)
            if self.is_unseen(server, op, op_totals):
                ops.pop(op, None)
        return ops

    def is_unseen(self, server: int, op: str, totals: OpTotals) -> bool:
        """Whether the latest of these operations happened in a way that no probe sees."""
        seen = (totals.count_total or 0) + (totals.errors_total or 0)
        unseen = max(0, (totals.started_total or 0) - seen)
        before = self._unseen.get((server, op), _Unseen())
        is_last = unseen > before.unseen or (before.is_last and seen == before.seen)
        if unseen:
            self._unseen[server, op] = _Unseen(unseen, seen, is_last)
        return is_last

    def unseen_ops(self) -> set[tuple[int, str]]:
        """Server and op of all that are not counted for that reason."""
        return {key for key, each in self._unseen.items() if each.is_last}

    def forget(self, server: int) -> None:
        """Drop a server that has ended."""
        self._files.pop(server, None)
        self._unseen = {key: each for key, each in self._unseen.items() if key[0] != server}


def _first_places(answer: Mapping[str, Any]) -> list[list[int]]:
    return [site[:4] for site in answer["link_sites"]]
