"""The mean operation of one kind, divided among the layers below it: what the path's values are."""

from __future__ import annotations

from dataclasses import dataclass

from ioh.model.file_systems import SERVED_ELSEWHERE

META = "meta"  # open, stat, readdir, unlink, rename …: calls about files, without their data
DIRECTIONS = ("read", "write", "sync", META)
COPY = "copy"  # calls that read and write
FAULT = "fault"  # no calls: page faults of mapped files, exec and swap-in that read a disk
# The op of those with one step: whose requests these are is not known.
ONE_STEP = {COPY: "copy", FAULT: "fault_read"}
KINDS = (*DIRECTIONS, *ONE_STEP)
IN_OTHERS = "in other steps"  # of a step's time that is not known
TITLES = {
    "syscall": "system call",  # "app" would be read as the program's own code
    "page_fault": "page fault",
    "cpu_wait": "waiting for a CPU",
    **{name: name for name in SERVED_ELSEWHERE},
    "nfs_queue": "nfs queue",
    "network": "network",
    "network_server": "network + nfs server",
    "nfs_server": "nfs server",
    "block_queue": "block queue",
    "disk_network": "network to disk",
    "device": "device",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One step of the path.

    Shape:
        ``cache``: the name of the cache that has most of the calls' own time, or "".

    Units:
        ``us``: the step's part of the mean operation, in µs; None if it is not separable:
        then the step next to it includes its time.
    """

    name: str
    us: float | None
    cache: str = ""

    @property
    def is_cache(self) -> bool:
        """Whether most of it is a cache's time."""
        return bool(self.cache)

    @property
    def title(self) -> str:
        """The title on the screen."""
        return self.cache or TITLES[self.name]


@dataclass(frozen=True, slots=True)
class Cached:
    """Calls that reached no lower layer: reads from memory, buffered writes.

    Units:
        ``mean_us``: from start to end.
    """

    ops_per_s: float
    mean_us: float


@dataclass(frozen=True, slots=True)
class IoPath:
    """The mean operation of one of KINDS, over one interval.

    Shape:
        ``top``: the layer that counts the operations: ``syscall``, or the highest one that knows
        their time.  Of calls, those that reached a lower layer; the others are in ``cached``, None
        if there are none or if the path is theirs.  ``segments``: from top to bottom; the known
        ones add up to ``mean_us``.  ``notes``: what the bar cannot show.  ``is_written_back``: a
        note tells what these calls left to write-back.

    Units:
        ``ops_per_s``: operations of ``top``.  ``mean_us``: from start to end.  ``size_bytes``: of
        those that move most of the bytes, None if not known.  ``rpcs_per_call``: of metadata calls
        that all go over NFS, else None.
    """

    direction: str
    top: str
    ops_per_s: float
    mean_us: float
    segments: tuple[Segment, ...]
    notes: tuple[str, ...] = ()
    cached: Cached | None = None
    size_bytes: float | None = None
    rpcs_per_call: float | None = None
    is_written_back: bool = False

    @property
    def slowest(self) -> Segment:
        """The slowest step."""
        return max(self.segments, key=lambda segment: segment.us or 0.0)

    def share_pct(self, segment: Segment) -> float | None:
        """A step's share of the whole, 0 to 100."""
        if segment.us is None or not self.mean_us:
            return None
        return 100 * segment.us / self.mean_us
