"""Where the time of an operation goes: the mean call, divided among the layers below it.

docs/path.md explains the arithmetic.  In short: a layer's time is the sum over its operations, so
cached calls and calls with many requests need no special case.  The time of the layer below is
subtracted from the layer above, never more than it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import lru_cache

from ioh.model.digits import three_digits
from ioh.model.finding import Failed
from ioh.model.io_path import (
    FAULT,
    IN_OTHERS,
    KINDS,
    META,
    ONE_STEP,
    TITLES,
    Cached,
    IoPath,
    Segment,
)
from ioh.model.nfs_wire import SAME_CALLS, nfs_wire, shares_by_pairs
from ioh.model.path_calls import CACHED_OPS, WAITED_OPS, calls_of
from ioh.model.path_flow import Flow, Steps, known_us, left_of, scaled_steps, sum_steps
from ioh.model.remote_disks import network_us_per_s
from ioh.model.sample import Value
from ioh.model.sizes import commonest_bytes
from ioh.model.snapshot import LayerSnapshot, Snapshot

_NOT_DIVIDED = "not divided"
_CACHED_MIN_PCT, _CACHED_MOST_PCT = 1.0, 90.0
_BEHIND_MIN = 0.1  # share of the bytes; less is not worth a note
_JUDGED = {"findings", "not_evaluated"}
_MEASURED = tuple(each.name for each in fields(Snapshot) if each.name not in _JUDGED)


def paths(snapshot: Snapshot) -> dict[str, IoPath]:
    """Paths by kind (KINDS), for those with operations whose time is known."""
    return paths_and_failures(snapshot)[0]


def paths_and_failures(snapshot: Snapshot) -> tuple[dict[str, IoPath], tuple[Failed, ...]]:
    """The paths, and the kinds that have none because of a defect in the arithmetic."""
    by_kind, failures = _derived(_Measured(snapshot))
    return dict(by_kind), failures


class _Measured:
    """What paths are of: a snapshot without its findings, so that a judged one is the same."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._parts = tuple(getattr(snapshot, name) for name in _MEASURED)

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._parts)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Measured):
            return NotImplemented
        return all(a is b for a, b in zip(self._parts, other._parts, strict=True))


@lru_cache(maxsize=2)  # the screen wants those of one interval several times
def _derived(measured: _Measured) -> tuple[dict[str, IoPath], tuple[Failed, ...]]:
    by_kind: dict[str, IoPath] = {}
    failures: list[Failed] = []
    for kind in KINDS:
        try:
            path = _path(measured.snapshot, kind)
        except Exception as error:  # noqa: BLE001 (last guard: keep the other kinds)
            failures.append(Failed.by(error, f"path_{kind}", f"path of {kind}"))
            continue
        if path is not None:
            by_kind[kind] = path
    return by_kind, tuple(failures)


def _path(snapshot: Snapshot, kind: str) -> IoPath | None:
    if kind in ONE_STEP:
        return _undivided(snapshot.measured.get("syscall"), kind)
    return (_Meta if kind == META else _Direction)(snapshot, kind).path()


def _undivided(app: LayerSnapshot | None, kind: str) -> IoPath | None:
    """The mean operation of a kind with one step."""
    op = ONE_STEP[kind]
    flow = Flow.of(app, op)
    if app is None or not flow.us:
        return None
    mean_us = flow.us / flow.ops
    steps = (Segment("page_fault" if kind == FAULT else "syscall", mean_us),)
    size_bytes = commonest_bytes(app.ops[op])
    return IoPath(kind, "syscall", flow.ops, mean_us, steps, (_NOT_DIVIDED,), size_bytes=size_bytes)


def disk_shares(server: Snapshot, direction: str) -> tuple[float | None, float | None]:
    """The shares of block queue and device in a server's mean call, 0 to 1; None if unknown."""
    way = _Direction(server, direction)
    if not way.served.us or way.layers.get("block") is None or direction == "sync":
        return None, None
    below = way.below_server(way.served) or {"block_queue": 0.0, "device": 0.0}
    queue_us = below["block_queue"]
    device_us = (below["device"] or 0.0) + (below.get("disk_network") or 0.0)
    return None if queue_us is None else queue_us / way.served.us, device_us / way.served.us


class _Direction:
    """One direction through the layers of one snapshot."""

    cache = "page cache"

    def __init__(self, snapshot: Snapshot, direction: str) -> None:
        self.layers = snapshot.measured
        self.direction = direction
        self.verb = "write" if direction == "sync" else direction
        self._nfs_ops = ("write", "commit") if direction == "sync" else (self.verb,)
        self._pairs = [pair for pair in snapshot.pairs if pair.client == snapshot.name]
        self._interval_s = snapshot.interval_s
        self.calls = calls_of(self.layers.get("syscall"), direction)
        self.client = self._of("nfs_client")
        self.served = self._of("nfs_server")
        self.block = self._of("block")
        self.wire = nfs_wire(snapshot)
        way_us = network_us_per_s(
            snapshot, {"sync": "flush", META: "read"}.get(direction, self.verb)
        )
        self._far_share = way_us / (self.block.us - (self.block.queue_us or 0.0)) if way_us else 0.0

    def _of(self, name: str) -> Flow:
        """A lower layer's operations in this direction."""
        layer = self.layers.get(name)
        if self.direction != "sync":
            return Flow.of(layer, self.verb)
        return Flow.of(layer, *(("flush",) if name == "block" else ("write", "commit")))

    def path(self) -> IoPath | None:
        """The path of the operations that took most of the time."""
        waited, cached = self.calls.waited, self.calls.cached
        if self.direction == "sync":  # COMMITs and flushes alone are not calls
            return self._io_path("syscall", waited, self._below_app()) if waited.us else None
        # Those who asked this server, if it is not this machine, have their own calls.
        others_us = 0.0 if self.wire.is_server_local else self.served.us
        if waited.us + cached.us > 0 and waited.us + cached.us >= others_us:
            if waited.us:
                return self._io_path("syscall", waited, self._below_app())
            return self._io_path("syscall", cached, {})
        if self.client.us and self.client.us >= others_us:
            return self._io_path("nfs_client", self.client, self._below_client())
        if self.served.us:
            return self._io_path("nfs_server", self.served, self.below_server(self.served))
        block = self._without_others()
        return self._io_path("block", block, self._split_block(block)) if block.us else None

    def _without_others(self) -> Flow:
        """The disk's requests without those of metadata and page faults, unless few remain."""
        size = self._metric("syscall", "meta_lower_bytes_per_s") or 0.0
        size += Flow.of(self.layers.get("syscall"), ONE_STEP[FAULT]).size
        if self.direction != "read" or not size or not self.block.size:
            return self.block
        rest = 1 - min(1.0, size / self.block.size)
        return self.block.part(rest) if rest > _BEHIND_MIN else Flow()

    def _io_path(self, top: str, flow: Flow, below: Steps) -> IoPath:
        """Make a path: convert times per second into times per operation."""
        steps, cached = dict(below), self.calls.cached
        if top in TITLES and top not in steps:
            steps[top] = left_of(flow.us, known_us(steps))
        segments = tuple(
            Segment(name, None if us is None else us / flow.ops, self._cache(name, flow, us))
            for name in TITLES
            if name in steps
            for us in (steps[name],)
        )
        mean_us, size_bytes = flow.us / flow.ops, self._size_bytes(top, is_cached=flow is cached)
        path = IoPath(self.direction, top, flow.ops, mean_us, segments, size_bytes=size_bytes)
        if top == "syscall" and flow is not cached and cached.ops:
            path = replace(path, cached=Cached(cached.ops, cached.us / cached.ops))
        is_written_back = top == "syscall" and bool(self._written_back())
        return replace(path, notes=tuple(self._notes(path)), is_written_back=is_written_back)

    def _size_bytes(self, top: str, *, is_cached: bool) -> float | None:
        """The commonest size, by bytes."""
        if self.direction in {"sync", META}:
            return None
        kinds = CACHED_OPS[self.direction] if is_cached else WAITED_OPS[self.direction]
        ops = self.layers[top].ops
        for names in ((f"{self.verb}_waited",) * (not is_cached), kinds, (self.verb,)):
            candidates = [ops[name] for name in names if name in ops and ops[name].count]
            if candidates:
                return commonest_bytes(max(candidates, key=lambda stats: stats.bytes or 0))
        return None

    def _cache(self, step: str, flow: Flow, us: float | None) -> str:
        """The cache that has most of a step: of cached reads, buffered writes; or ""."""
        if step != "syscall" or not self.calls.is_mixed:
            return self.cache if flow is self.calls.cached else ""
        is_most = us is not None and us >= flow.us / 2
        is_cache = is_most and (self._metric("syscall", "cached_pct") or 0.0) >= _CACHED_MOST_PCT
        return self.cache if is_cache else ""

    def _below_app(self) -> dict[str, float | None]:
        """The parts of NFS, other file systems and the disk in the calls' time."""
        waited, nfs = self.calls.waited, self.calls.nfs
        if nfs is None or not self._is_followed():
            return {}
        client = self.client
        if self.direction == "write":
            client = client.carrying(nfs.size)
        # Who waits for a CPU waits for nothing else meanwhile.
        cpu_wait_us = min(waited.us, self.calls.cpu_wait_us or 0.0)
        share = 1 - cpu_wait_us / waited.us if waited.us else 0.0
        client = client.within(nfs.us * share)
        steps = scaled_steps(self._below_client(), client.us / self.client.us) if client.us else {}
        left_us = max(0.0, (waited.us - nfs.us) * share)
        for name, flow in self.calls.elsewhere.items():
            steps[name] = min(left_us, flow.us * share)
            left_us -= min(left_us, flow.us * share)
        local = self._own_requests(nfs).within(left_us)
        steps = sum_steps(steps, self._split_block(local)) if local.us else steps
        return {**steps, "cpu_wait": cpu_wait_us} if cpu_wait_us else steps

    def _own_requests(self, nfs: Flow) -> Flow:
        """Disk requests that the calls submitted themselves, by bytes; ``nfs``: those on NFS."""
        size, waited = self._submitted_here(), self.calls.waited
        if self.direction == META:
            return self.block.carrying(size)
        if self.direction == "write":
            size = min(size, waited.size - nfs.size)
        if self.direction != "sync":
            return self.block.carrying(size)
        app = self.layers.get("syscall")
        size -= min(size, Flow.of(app, "write_direct", "write_sync").size)
        data = Flow.of(self.layers.get("block"), "write").carrying(size)
        return data.and_(self.block)

    def _is_followed(self) -> bool:
        """Whether it is known what the calls submitted; not of a single process."""
        return self._metric("syscall", f"{self.verb}_lower_bytes_per_s") is not None

    def _submitted_here(self) -> float:
        """Bytes that calls submitted to local disks; the layer's count includes NFS."""
        size = self._metric("syscall", f"{self.verb}_lower_bytes_per_s") or 0.0
        if self.direction == "write" and self.calls.nfs is not None:
            return max(0.0, size - self.calls.nfs.size)
        return max(0.0, size - Flow.of(self.layers.get("nfs_client"), self.verb).size)

    def _below_client(self) -> dict[str, float | None]:
        """The parts of all calls of the NFS client: waiting before sending, network, server."""
        client = self.client
        beyond = client.us - (client.queue_us or 0.0)
        steps: dict[str, float | None] = {"nfs_queue": client.queue_us}
        all_calls = client.ops * self._interval_s
        if (shares := shares_by_pairs(self._pairs, self._nfs_ops, all_calls)) is not None:
            return steps | scaled_steps(shares, beyond)
        if self._is_served_here():
            served = self.served.part(client.ops / self.served.ops).within(beyond)
            below = self.below_server(served)
            # In its sockets, calls wait for one of its threads.
            unread_us = min(beyond - served.us, (self.wire.unread_us or 0.0) * client.ops)
            steps |= {"network": left_of(beyond, served.us + unread_us), **below}
            return steps | {"nfs_server": left_of(served.us + unread_us, known_us(below))}
        wire_us = self._wire_us()
        if wire_us is None or wire_us >= beyond:
            return steps | {"network_server": beyond}
        return steps | {"network": wire_us, "nfs_server": beyond - wire_us}

    def _is_served_here(self) -> bool:
        """Whether this machine's server has measured the client's calls."""
        is_here = bool(self.wire.is_server_local and self.served.ops)
        return is_here and self.served.ops >= (1 - SAME_CALLS) * self.client.ops

    def _wire_us(self) -> float | None:
        """The round trips of the client's calls to another machine; None if not known.

        It must be known where the server is: counts of calls do not exclude that a server on this
        machine has served them.
        """
        if self.wire.is_lossy or self.wire.round_trip_us is None or self.wire.is_server_local:
            return None
        if self.wire.is_server_local is None and "nfs_server" in self.layers:
            return None
        return self.wire.round_trip_us * self.client.ops

    def below_server(self, served: Flow) -> dict[str, float | None]:
        """The disk's part of the server's calls: what no local program submitted."""
        if self.direction == "sync":
            return {}
        own = self._submitted_here()
        if self.direction == "read":
            own += self._metric("syscall", "meta_lower_bytes_per_s") or 0.0
        rest = self.block.carrying(min(served.size, self.block.size - own))
        if self.direction == "write":
            server = self.layers.get("nfs_server")
            rest = rest.within(Flow.of(server, "write_data_sync", "write_file_sync").us)
        disk = rest.within(served.us)
        return self._split_block(disk) if disk.us else {}

    def _split_block(self, flow: Flow) -> dict[str, float | None]:
        """Split into queue, the way to remote disks, and device time."""
        device_us = flow.us - (flow.queue_us or 0.0)
        way_us = device_us * min(1.0, self._far_share)
        steps: dict[str, float | None] = {"block_queue": flow.queue_us}
        if way_us:
            steps["disk_network"] = way_us
        return {**steps, "device": device_us - way_us}

    def _metric(self, layer: str, name: str) -> Value:
        snapshot = self.layers.get(layer)
        return snapshot.metrics.get(name) if snapshot is not None else None

    def _notes(self, path: IoPath) -> Iterator[str]:
        """What the bar does not show; most important first."""
        if path.top != "syscall":
            yield self._whose(path.top)
        elif path.segments[0].is_cache and not self.calls.is_mixed and not self._written_back():
            yield "no call reached a lower layer"
        if any(segment.name == "network_server" for segment in path.segments):
            yield from ["packets are lost"] * self.wire.is_lossy
        if path.top == "syscall":
            yield from self._of_calls()
        unknown = [segment.title for segment in path.segments if segment.us is None]
        if unknown:
            yield f"{' and '.join(unknown)} {IN_OTHERS}"
        untimed = self._untimed() if path.top == "syscall" else []
        if untimed:
            yield f"{' and '.join(untimed)} not separable"

    def _of_calls(self) -> Iterator[str]:
        """What is left out of the time of calls."""
        if self.direction == "read":
            yield from self._cached()
        elif self.direction == "write":
            yield from self._written_back()
        elif not self.client.us:
            yield f"{TITLES['syscall']} includes journal writes"

    def _untimed(self) -> list[str]:
        """Active layers below the calls whose time is unknown."""
        layers = [self.layers.get(name) for name in ("nfs_client", "block")]
        is_split = self.calls.nfs is not None and self._is_followed()
        return [
            layer.spec.title
            for layer in layers
            if layer is not None
            and (stats := layer.ops.get(self.verb)) is not None
            and stats.ops_per_s
            and (stats.latency_us is None or not is_split)
        ]

    def _cached(self) -> Iterator[str]:
        """What the page cache served: a share of NFS bytes; else of calls, if the path has all."""
        if self.client.us:
            name, of = "nfs_client", " of NFS bytes"
        else:
            name, of = "syscall" if self.calls.is_mixed else "", " of calls"
        cached = self._metric(name, "cached_pct")
        if cached is not None and cached >= _CACHED_MIN_PCT:
            yield f"{cached:.0f}%{of} cached"

    def _whose(self, top: str) -> str:
        """The origin of operations without a known local call."""
        if top == "nfs_server":
            return "calls of this server's clients"
        app = self.layers.get("syscall")
        if app is not None and app.source == "bpf":
            return "not from a program's call but from the kernel, such as write-back"
        return f"time above {self.layers[top].spec.title} is not known"

    def _written_back(self) -> list[str]:
        """Write-back, for which no call waits: over NFS or to the disks, whichever is more.

        The disks of a server on this machine have the same bytes once more.
        """
        is_nfs = self.client.us and (
            self.wire.is_server_local or self.client.size > self.block.size
        )
        lower = self.client if is_nfs else self.block
        behind = max(0.0, lower.size - self.calls.waited.size)
        if self.direction != "write" or not lower.size or behind <= _BEHIND_MIN * lower.size:
            return []
        speed, mean_ms = behind / 1e6, lower.us / lower.ops / 1e3
        return [f"written back: {three_digits(speed)} MB/s, {three_digits(mean_ms)} ms each"]


class _Meta(_Direction):
    """Calls about files, without their data: their requests are RPCs, and reads of directories."""

    cache = "name cache"

    def _of(self, name: str) -> Flow:
        return Flow.of(self.layers.get(name), "read" if name == "block" else META)

    def path(self) -> IoPath | None:
        """As of reads; but the disk's reads alone are not calls."""
        path = super().path()
        if path is None or path.top == "block":
            return None
        names = {segment.name for segment in path.segments}
        if path.top == "syscall" and "nfs_queue" in names and "device" not in names:
            return replace(path, rpcs_per_call=self._of("nfs_client").ops / path.ops_per_s)
        return path

    def _is_followed(self) -> bool:
        return not self.calls.is_mixed

    def _below_app(self) -> dict[str, float | None]:
        if self.calls.nfs is not None:
            self._place(self.calls.nfs, self.calls.anywhere)
        return super()._below_app()

    def _place(self, nfs: Flow, anywhere: Flow) -> None:
        """Calls on an unknown file system are on NFS as far as its client was busy with more.

        A close that flushes waits for its WRITEs and COMMITs.
        """
        close = Flow.of(self.layers.get("syscall"), "close")
        flush = Flow.of(self.layers.get("nfs_client"), "write", "commit").within(close.us)
        self.client = self.client.and_(flush)
        nfs = nfs.and_(anywhere.within(max(0.0, self.client.us - nfs.us)))
        self.calls = replace(self.calls, nfs=nfs)

    def _submitted_here(self) -> float:
        return self._metric("syscall", "meta_lower_bytes_per_s") or 0.0

    def below_server(self, served: Flow) -> dict[str, float | None]:
        """The disk's part: reads that are neither of programs nor of the clients' READs."""
        reads = self._metric("syscall", "read_lower_bytes_per_s") or 0.0
        asked = Flow.of(self.layers.get("nfs_server"), "read").size
        rest = self.block.size - reads - self._submitted_here() - asked
        disk = self.block.carrying(max(0.0, rest)).within(served.us)
        return self._split_block(disk) if disk.us else {}

    def _of_calls(self) -> Iterator[str]:
        """The kind of call that takes most of the time, those that memory served included."""
        app = self.layers["syscall"]
        kinds = {op: Flow.of(app, op).us for op in app.spec.groups.get(META, ())}
        most = max(kinds, key=kinds.__getitem__, default="")
        if most and kinds[most]:
            yield f"{most} has {100 * kinds[most] / sum(kinds.values()):.0f}% of the time"
        nfs = self.calls.nfs
        if self.calls.waited.us and not self.client.us and nfs is not None and not nfs.us:
            yield f"{TITLES['syscall']} includes journal writes"
