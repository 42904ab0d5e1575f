"""The calls at the top of the path: which of them reached a lower layer, and on what files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ioh.model.file_systems import NFS, SERVED_ELSEWHERE, served_elsewhere
from ioh.model.io_path import META
from ioh.model.path_flow import Flow, sum_flows
from ioh.model.snapshot import LayerSnapshot, TableRow

OWN_NAME = "ioh"  # of this program's processes
# The kinds of calls that reached a lower layer, and those that did not.
WAITED_OPS = {
    "read": ("read_missed", "read_direct"),
    "write": ("write_direct", "write_sync"),
    "sync": ("fsync",),
    META: ("meta_waited",),
}
CACHED_OPS: dict[str, tuple[str, ...]] = {
    "read": ("read_cached",),
    "write": ("write_buffered",),
    "sync": (),
    META: ("meta_cached",),  # only of one process, file or mount
}
# A buffered write that takes longer was not only copied: 20 us, and 1 us per KB.
_COPY_US, _COPY_US_PER_BYTE = 20.0, 1e-3
_UNCLEAR = 0.1  # share of the time whose files may stay unknown


@dataclass(frozen=True, slots=True)
class PathCalls:
    """The calls of one direction, without ioh's own.

    Shape:
        ``waited``: those that reached a lower layer; in a recording that does not tell them apart,
        all (``is_mixed``).  ``cached``: the others.  ``nfs``: the part of ``waited`` on NFS files,
        None if unknown.  ``elsewhere``: the part by name in SERVED_ELSEWHERE.  ``anywhere``: the
        part whose file system is not known: metadata calls that name a file by its whole path.

    Units:
        ``cpu_wait_us``: µs per second in which the threads of ``waited`` waited for a CPU; None if
        unknown.
    """

    waited: Flow = field(default_factory=Flow)
    cached: Flow = field(default_factory=Flow)
    nfs: Flow | None = field(default_factory=Flow)
    elsewhere: Mapping[str, Flow] = field(default_factory=dict)
    anywhere: Flow = field(default_factory=Flow)
    cpu_wait_us: float | None = None
    is_mixed: bool = False


@dataclass(frozen=True, slots=True)
class _Files:
    """The calls on some files: all, and those that reached a lower layer (None: unknown)."""

    all: Flow = field(default_factory=Flow)
    waited: Flow | None = field(default_factory=Flow)

    @classmethod
    def of(cls, row: TableRow, direction: str, *, is_mixed: bool) -> _Files:
        """One row of a table of layer syscall."""
        flow = _flow(row, f"{direction}s", direction)
        if direction == "sync" or is_mixed:
            return cls(flow, flow)
        name = f"{direction}_waited"
        is_known = row.values.get(f"{name}_ns_per_s") is not None
        return cls(flow, _flow(row, f"{direction}s_waited", name) if is_known else None)

    def and_(self, other: _Files) -> _Files:
        """Add both."""
        is_known = self.waited is not None and other.waited is not None
        return _Files(
            self.all.and_(other.all),
            self.waited.and_(other.waited) if is_known else None,  # type: ignore[union-attr, arg-type]
        )

    def of_waited(self, waited: Flow, all_us: float) -> Flow | None:
        """The part of ``waited`` that was on these files, None if unclear; ``all_us``: all files'.

        Without its own count it is at least what cannot have been on other files.
        """
        if self.waited is not None:
            return self.waited.within(waited.us)
        most = min(waited.us, self.all.us)
        if most - max(0.0, waited.us - (all_us - self.all.us)) > _UNCLEAR * waited.us:
            return None
        return waited.part(most / waited.us) if most else Flow()

    def slow_copies(self, waited: Flow) -> Flow:
        """The calls other than ``waited``, if they took longer than copying to memory."""
        other = self.all.without(waited)
        longest = _COPY_US * other.ops + _COPY_US_PER_BYTE * other.size
        return other if other.us > longest else Flow()


def calls_of(app: LayerSnapshot | None, direction: str) -> PathCalls:
    """The calls of one direction (io_path.DIRECTIONS)."""
    if app is None:
        return PathCalls()
    waited, cached, is_mixed = _waited_and_cached(app, direction)
    for row in app.rows("process"):
        if row.key[-1] == OWN_NAME:
            own = _Files.of(row, direction, is_mixed=is_mixed)
            if own.waited is not None:
                waited, cached = (
                    waited.without(own.waited),
                    cached.without(own.all.without(own.waited)),
                )
    files: dict[str, _Files] = {}
    for row in app.rows("mount"):
        name = "nfs" if row.key[-1] in NFS else served_elsewhere(row.key[-1])
        one = _Files.of(row, direction, is_mixed=is_mixed)
        files[name] = files.get(name, _Files()).and_(one)
    all_us = sum(each.all.us for each in files.values())
    on = {name: each.of_waited(waited, all_us) for name, each in files.items()}
    elsewhere = {}
    for name in SERVED_ELSEWHERE:
        part = on.get(name)
        if part is not None:
            slow = files[name].slow_copies(part).within(cached.us)
            waited, cached = waited.and_(slow), cached.without(slow)
            elsewhere[name] = part.and_(slow)
    anywhere = Flow()
    if direction == META:
        placed = sum_flows(flow for flow in on.values() if flow is not None)
        anywhere = waited.without(placed)
    cpu_wait_us = _cpu_wait_us(app, direction)
    nfs = on.get("nfs", Flow())
    return PathCalls(waited, cached, nfs, elsewhere, anywhere, cpu_wait_us, is_mixed)


def _waited_and_cached(app: LayerSnapshot, direction: str) -> tuple[Flow, Flow, bool]:
    """All calls of one direction, and whether the first are of both kinds."""
    waited_ops = WAITED_OPS[direction]
    if waited_ops[0] not in app.ops:  # of one process, only their sum is known
        waited_ops = (f"{direction}_waited",)
    if waited_ops[0] in app.ops:
        return Flow.of(app, *waited_ops), Flow.of(app, *CACHED_OPS[direction]), False
    ops, ns = (app.metrics.get(f"{direction}_waited_{name}per_s") for name in ("", "ns_"))
    every = Flow.of(app, direction)
    if ops is None or ns is None:
        return every, Flow(), True
    waited = Flow(ops, us=ns / 1e3) if ops else Flow()  # a count and its time can be read apart
    return waited, every.without(waited), False


def _flow(row: TableRow, counts: str, name: str) -> Flow:
    """One kind of calls in a row."""
    ops, size, ns = (
        row.values.get(f"{each}_per_s") or 0.0 for each in (counts, f"{name}_bytes", f"{name}_ns")
    )
    return Flow(ops, size, ns / 1e3)


def _cpu_wait_us(app: LayerSnapshot, direction: str) -> float | None:
    name = "sync" if direction == "sync" else f"{direction}_waited"
    ns_per_s = app.metrics.get(f"{name}_cpu_wait_ns_per_s")
    return None if ns_per_s is None else ns_per_s / 1e3
