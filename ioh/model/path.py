"""Where the time of an operation goes: the mean call, divided among the layers below it.

docs/path.md explains the arithmetic.  In short: a layer's time is the sum over its operations, so
cached calls and calls with many requests need no special case.  The time of the layer below is
subtracted from the layer above, never more than it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ioh.model.file_systems import NFS
from ioh.model.path_pairs import SAME_CALLS, left_of, shares_by_pairs
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, Snapshot, rows_of

DIRECTIONS = ("read", "write", "sync")
TITLES = {
    "syscall": "app",
    "nfs_queue": "nfs queue",
    "network": "network",
    "nfs_server": "nfs server",
    "block_queue": "block queue",
    "device": "device",
}
_NFS_PORT = "2049"
_CACHED_MIN_PCT, _CACHED_MOST_PCT = 1.0, 50.0
_BEHIND_MIN = 0.1  # share of the bytes; less is not worth a note


@dataclass(frozen=True, slots=True)
class Segment:
    """One step of the path.

    Shape:
        ``is_cache``: the calls' own time, if most of it is the page cache's.

    Units:
        ``us``: the step's part of the mean operation, in µs; None if it is not separable:
        then the step next to it includes its time.
    """

    name: str
    us: float | None
    is_cache: bool = False

    @property
    def title(self) -> str:
        """The title on the screen."""
        return "page cache" if self.is_cache else TITLES[self.name]


@dataclass(frozen=True, slots=True)
class Path:
    """The mean operation of one direction, over one interval.

    Shape:
        ``top``: the layer that counts the operations: ``syscall``, or the highest one that knows
        their time.  ``segments``: from top to bottom; the known ones add up to ``mean_us``.
        ``notes``: what the bar cannot show.

    Units:
        ``ops_per_s``: operations of ``top``.  ``mean_us``: from start to end.
    """

    direction: str
    top: str
    ops_per_s: float
    mean_us: float
    segments: tuple[Segment, ...]
    notes: tuple[str, ...] = ()

    @property
    def slowest(self) -> Segment:
        """The slowest step."""
        return max(self.segments, key=lambda segment: segment.us or 0.0)

    def share_pct(self, segment: Segment) -> float | None:
        """A step's share of the whole, 0 to 100."""
        if segment.us is None or not self.mean_us:
            return None
        return 100 * segment.us / self.mean_us


@dataclass(frozen=True, slots=True)
class _Flow:
    """Operations of one layer: rate, throughput and time.

    Units:
        ``us``: µs per second, summed over the operations.
    """

    ops: float = 0.0
    size: float = 0.0
    us: float = 0.0
    queue_us: float | None = None

    @classmethod
    def of(cls, layer: LayerSnapshot | None, *names: str) -> _Flow:
        """A layer's counts of these operations; zero if their time is unknown."""
        made = cls()
        for stats in (layer.ops.get(name) for name in names) if layer is not None else ():
            if stats is not None and stats.ops_per_s and stats.latency_us is not None:
                rate, queue = stats.ops_per_s, stats.queue_us
                queue_us = None if queue is None else rate * min(queue, stats.latency_us)
                one = cls(rate, stats.bytes_per_s or 0.0, rate * stats.latency_us, queue_us)
                made = made.and_(one) if made.ops else one
        return made

    def and_(self, other: _Flow) -> _Flow:
        """Add both; the queue time is known if either knows it."""
        queues = [flow.queue_us for flow in (self, other) if flow.queue_us is not None]
        return _Flow(
            self.ops + other.ops,
            self.size + other.size,
            self.us + other.us,
            sum(queues) if queues else None,
        )

    def part(self, share: float) -> _Flow:
        """A share of it, 0 to 1."""
        share = min(1.0, max(0.0, share))
        queue = None if self.queue_us is None else self.queue_us * share
        return _Flow(self.ops * share, self.size * share, self.us * share, queue)

    def carrying(self, size: float) -> _Flow:
        """The share of it that moved ``size`` bytes."""
        return self.part(size / self.size) if self.size else _Flow()

    def within(self, most_us: float) -> _Flow:
        """Limit its time to that of the waiting calls: requests overlap."""
        return self.part(most_us / self.us) if self.us > most_us else self


def paths(snapshot: Snapshot) -> dict[str, Path]:
    """Paths by direction (DIRECTIONS), for those with operations whose time is known."""
    found = {direction: _Way(snapshot, direction).path() for direction in DIRECTIONS}
    return {direction: path for direction, path in found.items() if path is not None}


def disk_shares(server: Snapshot, direction: str) -> tuple[float | None, float | None]:
    """The shares of block queue and device in a server's mean call, 0 to 1; None if unknown."""
    way = _Way(server, direction)
    if not way.served.us or way.layers.get("block") is None or direction == "sync":
        return None, None
    below = way.below_server(way.served) or {"block_queue": 0.0, "device": 0.0}
    queue_us, device_us = below["block_queue"], below["device"] or 0.0
    return None if queue_us is None else queue_us / way.served.us, device_us / way.served.us


class _Way:
    """One direction through the layers of one snapshot."""

    def __init__(self, snapshot: Snapshot, direction: str) -> None:
        self.layers = snapshot.measured
        self.direction = direction
        self.verb = "read" if direction == "read" else "write"
        self._nfs_ops = ("write", "commit") if direction == "sync" else (self.verb,)
        self._pairs = [pair for pair in snapshot.pairs if pair.client == snapshot.name]
        self._interval_s = snapshot.interval_s
        app = self.layers.get("syscall")
        self.calls = _Flow.of(app, "fsync" if direction == "sync" else self.verb)
        self.waiting = self._waiting(app)
        self.client = self._of("nfs_client")
        self.served = self._of("nfs_server")
        self.block = self._of("block")
        self.is_served_here = bool(
            self.client.ops
            and abs(self.served.ops - self.client.ops) <= SAME_CALLS * self.client.ops
        )

    def _waiting(self, app: LayerSnapshot | None) -> _Flow:
        """The calls that wait for lower layers; buffered writes do not."""
        if self.direction == "write":
            return _Flow.of(app, "write_direct", "write_sync").within(self.calls.us)
        return self.calls

    def _of(self, name: str) -> _Flow:
        """A lower layer's operations in this direction."""
        layer = self.layers.get(name)
        if self.direction != "sync":
            return _Flow.of(layer, self.verb)
        return _Flow.of(layer, *(("flush",) if name == "block" else ("write", "commit")))

    def path(self) -> Path | None:
        """The path of the operations that took most of the time."""
        below = self._below_app()
        if self.direction == "sync":  # COMMITs and flushes alone are not calls
            return self._made("syscall", self.calls, below) if self.calls.us else None
        if self.calls.us and (self.is_served_here or self.calls.us >= self.served.us):
            return self._made("syscall", self.calls, below)
        if self.client.us and (self.is_served_here or self.client.us >= self.served.us):
            return self._made("nfs_client", self.client, self._below_client(self.client))
        if self.served.us:
            return self._made("nfs_server", self.served, self.below_server(self.served))
        return self._made("block", self.block, _split_block(self.block)) if self.block.us else None

    def _made(self, top: str, flow: _Flow, below: Mapping[str, float | None]) -> Path:
        """Make a path: convert times per second into times per operation."""
        steps = dict(below)
        if top in TITLES and top not in steps:
            steps = {top: left_of(flow.us, sum(us or 0.0 for us in steps.values())), **steps}
        segments = tuple(
            Segment(name, None if us is None else us / flow.ops, self._is_cache(name, us))
            for name in TITLES
            if name in steps
            for us in (steps[name],)
        )
        made = Path(self.direction, top, flow.ops, flow.us / flow.ops, segments)
        return replace(made, notes=tuple(self._notes(made)))

    def _is_cache(self, step: str, us: float | None) -> bool:
        """Whether most of a step is page cache: cached reads, buffered writes."""
        if step != "syscall" or self.direction == "sync":
            return False
        if self.direction == "read":
            return (self._metric("syscall", "cached_pct") or 0.0) >= _CACHED_MOST_PCT
        return us is not None and self.calls.us - self.waiting.us >= us / 2

    def _below_app(self) -> dict[str, float | None]:
        """The parts of NFS and the disk in the calls' time."""
        on_nfs = min(self.waiting.us, self._nfs_calls_us())
        client = self.client
        if self.direction == "write":
            client = client.carrying(self.waiting.size)
        steps = self._below_client(client.within(on_nfs)) if on_nfs and client.us else {}
        local = self._own_requests().within(self.waiting.us - on_nfs)
        return _added(steps, _split_block(local)) if local.us else steps

    def _nfs_calls_us(self) -> float:
        """Time of the calls on NFS files, from the table of mounts."""
        kind = "sync" if self.direction == "sync" else self.verb
        return (
            sum(
                row.values.get(f"{kind}_ns_per_s") or 0.0
                for row in rows_of(self.layers.get("syscall"), "mount")
                if row.key[-1] in NFS
            )
            / 1e3
        )

    def _own_requests(self) -> _Flow:
        """Disk requests that the calls submitted themselves, by bytes."""
        size = self._submitted_here()
        if self.direction == "write":
            size = min(size, self.waiting.size)
        if self.direction != "sync":
            return self.block.carrying(size)
        app = self.layers.get("syscall")
        size -= min(size, _Flow.of(app, "write_direct", "write_sync").size)
        data = _Flow.of(self.layers.get("block"), "write").carrying(size)
        return data.and_(self.block)

    def _submitted_here(self) -> float:
        """Bytes that calls submitted to local disks; the layer's count includes NFS."""
        size = self._metric("syscall", f"{self.verb}_lower_bytes_per_s") or 0.0
        return max(0.0, size - _Flow.of(self.layers.get("nfs_client"), self.verb).size)

    def _below_client(self, client: _Flow) -> dict[str, float | None]:
        """The parts of an NFS client's calls: waiting before sending, network, server."""
        beyond = client.us - (client.queue_us or 0.0)
        steps: dict[str, float | None] = {"nfs_queue": client.queue_us}
        if self.is_served_here:
            served = self.served.within(beyond)
            below = self.below_server(served)
            steps |= {"network": left_of(beyond, served.us), **below}
            steps["nfs_server"] = left_of(served.us, sum(us or 0.0 for us in below.values()))
            return steps
        all_calls = self.client.ops * self._interval_s
        if (shares := shares_by_pairs(self._pairs, self._nfs_ops, all_calls)) is not None:
            return steps | {
                k: None if part is None else beyond * part for k, part in shares.items()
            }
        wire = self._round_trip_us()
        if wire is None:
            return steps | {"network": beyond, "nfs_server": None}
        network = min(beyond, wire * client.ops)
        return steps | {"network": network, "nfs_server": left_of(beyond, network)}

    def below_server(self, served: _Flow) -> dict[str, float | None]:
        """The disk's part of the server's calls: what no local program submitted."""
        if self.direction == "sync":
            return {}
        left = self.block.carrying(min(served.size, self.block.size - self._submitted_here()))
        if self.direction == "write":
            server = self.layers.get("nfs_server")
            left = left.within(_Flow.of(server, "write_data_sync", "write_file_sync").us)
        found = left.within(served.us)
        return _split_block(found) if found.us else {}

    def _round_trip_us(self) -> float | None:
        """TCP's round-trip time to NFS servers, at the client."""
        for row in rows_of(self.layers.get("tcp"), "port"):
            if row.key[0] == _NFS_PORT and (value := row.values.get("srtt_us")) is not None:
                return float(value)
        return None

    def _metric(self, layer: str, name: str) -> Value:
        found = self.layers.get(layer)
        return found.metrics.get(name) if found is not None else None

    def _notes(self, path: Path) -> Iterator[str]:
        """What the bar does not show; most important first."""
        if path.top != "syscall":
            yield self._whose(path.top)
        elif self.direction == "read":
            yield from self._cached()
        elif self.direction == "write":
            yield from self._written_behind()
        elif not self.client.us:
            yield "app includes the journal's writes"
        unknown = [segment.title for segment in path.segments if segment.us is None]
        unknown += self._untimed() if path.top == "syscall" else []
        if unknown:
            yield f"{' and '.join(unknown)} not separable"

    def _untimed(self) -> list[str]:
        """Active layers below the calls whose time is unknown."""
        layers = [self.layers.get(name) for name in ("nfs_client", "block")]
        return [
            layer.spec.title
            for layer in layers
            if layer is not None
            and (stats := layer.ops.get(self.verb)) is not None
            and stats.ops_per_s
            and stats.latency_us is None
        ]

    def _cached(self) -> Iterator[str]:
        """The share of reads that no lower layer saw."""
        layer, of = ("nfs_client", " of NFS bytes") if self.client.us else ("syscall", "")
        cached = self._metric(layer, "cached_pct")
        if cached is not None and cached >= _CACHED_MIN_PCT:
            yield f"{cached:.0f} %{of} cached"

    def _whose(self, top: str) -> str:
        """The origin of operations without a known local call."""
        if top == "nfs_server":
            return "calls of this server's clients"
        app = self.layers.get("syscall")
        if app is not None and app.source == "bpf":
            return "not from a program's call but from the kernel, such as write-back"
        return f"time above {self.layers[top].spec.title} is not known"

    def _written_behind(self) -> Iterator[str]:
        """Write-back, for which no call waits."""
        lower, title = (self.client, "nfs") if self.client.us else (self.block, "block")
        behind = max(0.0, lower.size - self.waiting.size)
        if lower.size and behind > _BEHIND_MIN * lower.size:
            yield (
                f"write-back: {behind / 1e6:.3g} MB/s, "
                f"{lower.us / lower.ops / 1e3:.3g} ms per {title} write"
            )


def _split_block(flow: _Flow) -> dict[str, float | None]:
    """Split into queue and device time."""
    if flow.queue_us is None:
        return {"block_queue": None, "device": flow.us}
    return {"block_queue": flow.queue_us, "device": flow.us - flow.queue_us}


def _added(*steps: Mapping[str, float | None]) -> dict[str, float | None]:
    """Add step by step; unknown if unknown in one."""
    added: dict[str, float | None] = {}
    for name, us in (item for each in steps for item in each.items()):
        before = added.get(name, 0.0)
        added[name] = None if us is None or before is None else before + us
    return added
