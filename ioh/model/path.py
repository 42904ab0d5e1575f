"""Where the time of an operation goes: the mean call, divided among the layers below it.

The arithmetic is in docs/path.md.  In short: a layer's time is the sum over its operations, so
that cached calls and calls of many requests need no case of their own.  What the layer below took
is taken off the layer above, never more than there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

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
_NFS = ("nfs", "nfs4")
_NFS_PORT = "2049"
_CACHED_MIN_PCT, _CACHED_MOST_PCT = 1.0, 50.0
_BEHIND_MIN = 0.1  # of the bytes of block: less is not worth a word


@dataclass(frozen=True, slots=True)
class Segment:
    """One step of the way.

    Shape:
        ``is_cache`` of the calls' own time where most of it is the page cache's.

    Units:
        ``us`` of the mean operation's microseconds; None where the step is not known by itself:
        then a step beside it holds its time.
    """

    name: str
    us: float | None
    is_cache: bool = False

    @property
    def title(self) -> str:
        """As on the screen."""
        return "page cache" if self.is_cache else TITLES[self.name]


@dataclass(frozen=True, slots=True)
class Path:
    """The mean operation of one direction, over one interval.

    Shape:
        ``top`` names the layer where the operations are counted: ``syscall``, or the highest one
        that knows their time.  ``segments`` in the order in which an operation goes down; what is
        known of them adds up to ``mean_us``.  ``notes`` say what the bar cannot show.

    Units:
        ``ops_per_s`` operations of ``top``; ``mean_us`` from their start to their end.
    """

    direction: str
    top: str
    ops_per_s: float
    mean_us: float
    segments: tuple[Segment, ...]
    notes: tuple[str, ...] = ()

    @property
    def slowest(self) -> Segment:
        """The step with the largest part."""
        return max(self.segments, key=lambda segment: segment.us or 0.0)

    def share_pct(self, segment: Segment) -> float | None:
        """A step's part of the whole, 0 to 100."""
        if segment.us is None or not self.mean_us:
            return None
        return 100 * segment.us / self.mean_us


@dataclass(frozen=True, slots=True)
class _Flow:
    """Operations of one layer: how many a second, how much they moved, how long they took.

    Units:
        ``us`` microseconds a second, summed over the operations.
    """

    ops: float = 0.0
    size: float = 0.0
    us: float = 0.0
    queue_us: float | None = None

    @classmethod
    def of(cls, layer: LayerSnapshot | None, *names: str) -> _Flow:
        """What a layer counted of these operations; nothing where their time is not known."""
        made = cls()
        for stats in (layer.ops.get(name) for name in names) if layer is not None else ():
            if stats is not None and stats.ops_per_s and stats.latency_us is not None:
                rate, queue = stats.ops_per_s, stats.queue_us
                queue_us = None if queue is None else rate * min(queue, stats.latency_us)
                one = cls(rate, stats.bytes_per_s or 0.0, rate * stats.latency_us, queue_us)
                made = made.and_(one) if made.ops else one
        return made

    def and_(self, other: _Flow) -> _Flow:
        """Both together; the wait in the queue is known where either knows it."""
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
        """As much of it as moved so many bytes."""
        return self.part(size / self.size) if self.size else _Flow()

    def within(self, most_us: float) -> _Flow:
        """The same, taking no longer than what waits for it: requests overlap each other."""
        return self.part(most_us / self.us) if self.us > most_us else self


def paths(snapshot: Snapshot) -> dict[str, Path]:
    """Reads, writes and syncs, as far as there are any whose time is known.

    Returns:
        By direction, of DIRECTIONS.
    """
    found = {direction: _Way(snapshot, direction).path() for direction in DIRECTIONS}
    return {direction: path for direction, path in found.items() if path is not None}


def disk_shares(server: Snapshot, direction: str) -> tuple[float | None, float | None]:
    """Of what a server's mean call takes, the shares of its block queue and of its device, 0 to 1.

    Returns:
        None for what is not known.
    """
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
        """The calls that wait for what is below: a buffered write does not."""
        if self.direction == "write":
            return _Flow.of(app, "write_direct", "write_sync").within(self.calls.us)
        return self.calls

    def _of(self, name: str) -> _Flow:
        """What a lower layer did in this direction."""
        layer = self.layers.get(name)
        if self.direction != "sync":
            return _Flow.of(layer, self.verb)
        return _Flow.of(layer, *(("flush",) if name == "block" else ("write", "commit")))

    def path(self) -> Path | None:
        """The way of those operations that took most of the time."""
        below = self._below_app()
        if self.direction == "sync":  # a COMMIT and a flush are nobody's call
            return self._made("syscall", self.calls, below) if self.calls.us else None
        if self.calls.us and (self.is_served_here or self.calls.us >= self.served.us):
            return self._made("syscall", self.calls, below)
        if self.client.us and (self.is_served_here or self.client.us >= self.served.us):
            return self._made("nfs_client", self.client, self._below_client(self.client))
        if self.served.us:
            return self._made("nfs_server", self.served, self.below_server(self.served))
        return self._made("block", self.block, _split_block(self.block)) if self.block.us else None

    def _made(self, top: str, flow: _Flow, below: Mapping[str, float | None]) -> Path:
        """A path from times a second to times of one operation."""
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
        """Whether most of a step is the page cache's: reads that it answers, buffered writes."""
        if step != "syscall" or self.direction == "sync":
            return False
        if self.direction == "read":
            return (self._metric("syscall", "cached_pct") or 0.0) >= _CACHED_MOST_PCT
        return us is not None and self.calls.us - self.waiting.us >= us / 2

    def _below_app(self) -> dict[str, float | None]:
        """Of the calls' time, what NFS and the disk took."""
        on_nfs = min(self.waiting.us, self._nfs_calls_us())
        client = self.client
        if self.direction == "write":
            client = client.carrying(self.waiting.size)
        steps = self._below_client(client.within(on_nfs)) if on_nfs and client.us else {}
        local = self._own_requests().within(self.waiting.us - on_nfs)
        return _added(steps, _split_block(local)) if local.us else steps

    def _nfs_calls_us(self) -> float:
        """Time of the calls on NFS files, as the table of mounts knows it."""
        kind = "sync" if self.direction == "sync" else self.verb
        return (
            sum(
                row.values.get(f"{kind}_ns_per_s") or 0.0
                for row in rows_of(self.layers.get("syscall"), "mount")
                if row.key[-1] in _NFS
            )
            / 1e3
        )

    def _own_requests(self) -> _Flow:
        """Requests to the disk that the calls submitted themselves, by their bytes."""
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
        """Bytes that calls sent to disks of this machine; the layer counts NFS with them."""
        size = self._metric("syscall", f"{self.verb}_lower_bytes_per_s") or 0.0
        return max(0.0, size - _Flow.of(self.layers.get("nfs_client"), self.verb).size)

    def _below_client(self, client: _Flow) -> dict[str, float | None]:
        """Of the calls of the NFS client: waiting to be sent, the network, the server."""
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
        """Of the server's calls, the disk: what no program here submitted itself."""
        if self.direction == "sync":
            return {}
        left = self.block.carrying(min(served.size, self.block.size - self._submitted_here()))
        if self.direction == "write":
            server = self.layers.get("nfs_server")
            left = left.within(_Flow.of(server, "write_data_sync", "write_file_sync").us)
        found = left.within(served.us)
        return _split_block(found) if found.us else {}

    def _round_trip_us(self) -> float | None:
        """TCP's round trip to NFS servers, on the client's side."""
        for row in rows_of(self.layers.get("tcp"), "port"):
            if row.key[0] == _NFS_PORT and (value := row.values.get("srtt_us")) is not None:
                return float(value)
        return None

    def _metric(self, layer: str, name: str) -> Value:
        found = self.layers.get(layer)
        return found.metrics.get(name) if found is not None else None

    def _notes(self, path: Path) -> Iterator[str]:
        """What the bar does not show, each in a few words; what says most first."""
        if path.top != "syscall":
            yield self._whose(path.top)
        elif self.direction == "read":
            yield from self._cached()
        elif self.direction == "write":
            yield from self._written_behind()
        elif not self.client.us:
            yield "app holds the journal's writes, too"
        unknown = [segment.title for segment in path.segments if segment.us is None]
        unknown += self._untimed() if path.top == "syscall" else []
        if unknown:
            yield f"{' and '.join(unknown)} not known apart"

    def _untimed(self) -> list[str]:
        """Layers below the calls that did something, nobody knows how long."""
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
        """Reads that nothing below saw."""
        layer, of = ("nfs_client", " of NFS bytes") if self.client.us else ("syscall", "")
        cached = self._metric(layer, "cached_pct")
        if cached is not None and cached >= _CACHED_MIN_PCT:
            yield f"{cached:.0f} %{of} cached"

    def _whose(self, top: str) -> str:
        """Who asked, where it was no program here as far as is known."""
        if top == "nfs_server":
            return "calls of this server's clients"
        app = self.layers.get("syscall")
        if app is not None and app.source == "bpf":
            return "no program's call: the kernel's own, such as write-back"
        return f"time above {self.layers[top].spec.title} is not known"

    def _written_behind(self) -> Iterator[str]:
        """Write-back, which no call waits for."""
        lower, title = (self.client, "nfs") if self.client.us else (self.block, "block")
        behind = max(0.0, lower.size - self.waiting.size)
        if lower.size and behind > _BEHIND_MIN * lower.size:
            yield (
                f"written behind the calls: {behind / 1e6:.3g} MB/s, "
                f"{lower.us / lower.ops / 1e3:.3g} ms a {title} write"
            )


def _split_block(flow: _Flow) -> dict[str, float | None]:
    """Waiting in the queue, and the device."""
    if flow.queue_us is None:
        return {"block_queue": None, "device": flow.us}
    return {"block_queue": flow.queue_us, "device": flow.us - flow.queue_us}


def _added(*steps: Mapping[str, float | None]) -> dict[str, float | None]:
    """All of them, step by step; unknown where it is unknown in one."""
    added: dict[str, float | None] = {}
    for name, us in (item for each in steps for item in each.items()):
        before = added.get(name, 0.0)
        added[name] = None if us is None or before is None else before + us
    return added
