"""What failed in an interval: operations by device or mount, calls by program and errno."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ioh.model.io_path import META
from ioh.model.sample import OTHERS
from ioh.model.snapshot import LayerSnapshot, OpStats

FAILED_CALLS = "error"  # a layer's table, by pid, comm, op, error, mount
# Errnos of programs that poll, or that try out what a file system can do.
_EXPECTED = re.compile(
    "EAGAIN|EINTR|ENOENT|EBADF|EFAULT|EPIPE|ECONNRESET|ENOSYS|EOPNOTSUPP|EXDEV|EISDIR|ESPIPE"
)
# Calls on names are answered in many usual ways: a file is there or not, may not be changed, has no
# such attribute.  These errnos mean trouble; the probes count no others as errors.
TROUBLE = frozenset((
    *("EBADMSG", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EDEADLK", "EDQUOT", "EHOSTDOWN"),
    *("EHOSTUNREACH", "EIO", "EMFILE", "ENETUNREACH", "ENFILE", "ENOLCK", "ENOLINK", "ENOMEM"),
    *("ENOSPC", "ENOTCONN", "EPIPE", "EREMOTEIO", "EROFS", "ESTALE", "ETIMEDOUT", "EUCLEAN"),
))  # fmt: skip
_WORDS = {
    "write_zeroes": "write zeroes",
    "zone_append": "zone append",
    "fault_read": "page fault",
    "other": "command",
}
_PLURALS = {"copy": "copies", "flush": "flushes"}


class Failure(NamedTuple):
    """Operations of one kind that failed.

    Shape:
        ``where``: the device or mount, "" if not known.  ``error`` is the errno of the calls of a
        process; all three "" for operations that are not calls.

    Units:
        ``number``: in the interval, computed from a rate.
    """

    op: str
    where: str
    number: float
    error: str = ""
    pid: str = ""
    comm: str = ""

    @property
    def word(self) -> str:
        """What failed: ``read``, ``zone append``."""
        return _WORDS.get(self.op) or self.op.partition("_")[0]

    @property
    def words(self) -> str:
        """The same in the plural."""
        return _PLURALS.get(self.word, f"{self.word}s")

    @property
    def program(self) -> str:
        """The process: ``fio[7]``."""
        return f"{self.comm}[{self.pid}]"

    def __str__(self) -> str:
        number = f"{max(1.0, self.number):,.0f}"
        ending = f" on {self.where}" if self.where else ""
        if self.error:
            return f"{number} {self.error} in {self.words} by {self.program}{ending}"
        return f"{number} {self.word} error{'s' * (number != '1')}{ending}"


def failures(layer: LayerSnapshot) -> list[Failure]:
    """What failed and was not expected to, most first."""
    if not _has_failures(layer):
        return []
    items = list(_calls(layer))
    if FAILED_CALLS not in layer.tables:
        for part, ops in layer.parts.items():
            items += _operations(layer, ops, part)
        items = items or list(_operations(layer, layer.ops, ""))
    return sorted(items, key=lambda failure: -failure.number)


def summed(items: Iterable[Failure]) -> list[Failure]:
    """Each kind of failure once, with the number of all of them."""
    numbers: dict[Failure, float] = defaultdict(float)
    for each in items:
        numbers[each._replace(number=0.0)] += each.number
    return [kind._replace(number=number) for kind, number in numbers.items()]


def _has_failures(layer: LayerSnapshot) -> bool:
    """Whether to look at each part: a layer's own number also has the parts not in its ops."""
    of_ops = (stats.errors_per_s for stats in layer.ops.values())
    return bool(layer.metrics.get("errors_per_s")) or any(of_ops)


def _operations(layer: LayerSnapshot, ops: Mapping[str, OpStats], part: str) -> Iterator[Failure]:
    groups = layer.spec.groups
    for op, stats in ops.items():
        if stats.errors_per_s and not any(member in ops for member in groups.get(op, ())):
            yield Failure(op, part, stats.errors_per_s * layer.interval_s)


def _calls(layer: LayerSnapshot) -> Iterator[Failure]:
    """The rows of failed calls, and operations that have none, such as page faults."""
    meta = layer.spec.groups.get(META, ())
    listed: set[str] = set()
    for row in layer.rows(FAILED_CALLS):
        pid, comm, op, error, mount = row.key
        listed |= {op, *layer.spec.groups.get(op, ())}
        number = (row.values.get("errors_per_s") or 0.0) * layer.interval_s
        is_bad = error in TROUBLE if op in meta else not _EXPECTED.fullmatch(error)
        if is_bad and number and pid != OTHERS:
            yield Failure(op, mount, number, error, pid, comm)
    if FAILED_CALLS in layer.tables:
        rest = _operations(layer, layer.ops, "")
        yield from (failure for failure in rest if failure.op not in listed)
