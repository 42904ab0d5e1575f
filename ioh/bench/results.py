"""``results.json``: the results of one ``ioh bench``, the source of every report.

Unknown is None.  Latencies are in µs, sizes in bytes, rates per second, times in Unix seconds,
shares in percent.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ioh.bench.files import read_file, write_file
from ioh.model.errors import IohError
from ioh.model.printable import printable

VERSION = 1
FILE_NAME = "results.json"
# fioparse's columns by name, with their upper edges; the last has none.
HIST_EDGES_US = {
    "us50": 50.0,
    "us100": 100.0,
    "us250": 250.0,
    "us500": 500.0,
    "ms1": 1_000.0,
    "ms2": 2_000.0,
    "ms4": 4_000.0,
    "ms10": 10_000.0,
    "ms20": 20_000.0,
    "ms50": 50_000.0,
    "ms100": 100_000.0,
    "ms250": 250_000.0,
    "ms500": 500_000.0,
    "s1": 1_000_000.0,
    "s2": 2_000_000.0,
    "s5": float("inf"),
}
HIST_COLUMNS = tuple(HIST_EDGES_US)
# The calls of metadata tests, each with the layers' operations that it needs, the journal's writes
# among them.
METADATA: dict[str, tuple[str, ...]] = {
    "create": ("create", "open", "write", "close"),
    "stat": ("stat", "getattr", "lookup", "access", "read"),
    "open_read": ("open", "read", "close", "getattr", "lookup", "access"),
    "append": ("open", "write", "close"),
    "rename": ("rename", "write"),
    "unlink": ("unlink", "remove", "write"),
}


# Checked when results.json is read.
Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
WatchName = Literal["", "all", "storage", "proc"]


class _Struct(msgspec.Struct, frozen=True, omit_defaults=True):
    pass


class Figures(_Struct, frozen=True):
    """One direction of I/O in one run, as reported by fio or a layer.

    ``hist`` counts operations in HIST_COLUMNS; () if there is none.  A percentile is None if there
    were too few operations for it.
    """

    ops: Count | None = None
    bytes: Count | None = None
    bytes_per_s: Amount | None = None
    iops: Amount | None = None
    mean_us: Amount | None = None
    min_us: Amount | None = None
    max_us: Amount | None = None
    std_us: Amount | None = None
    p50_us: Amount | None = None
    p95_us: Amount | None = None
    p99_us: Amount | None = None
    p995_us: Amount | None = None
    p999_us: Amount | None = None
    p9995_us: Amount | None = None
    p9999_us: Amount | None = None
    hist: tuple[Count, ...] = ()

    def __post_init__(self) -> None:
        if len(self.hist) not in {0, len(HIST_COLUMNS)}:
            msg = f"a histogram has {len(HIST_COLUMNS)} columns"
            raise ValueError(msg)


class LayerFigures(_Struct, frozen=True):
    """One operation of one layer during a run.

    ``layer`` and ``op`` as in a recording; ``title`` for the user; ``part`` is the device or mount,
    "" for the whole machine; ``source`` is bpf or proc.
    """

    layer: str
    title: str
    op: str
    figures: Figures
    part: str = ""
    source: str = ""


class RunFinding(_Struct, frozen=True):
    """A finding during a run, with its rule and texts as in ``ioh report``."""

    rule: str
    title: str
    severity: str
    subject: str
    cause: str
    advice: str
    begin_unix_s: float
    end_unix_s: float


class Disturbance(_Struct, frozen=True):
    """What else happened during a run.

    ``kind``: steal, others, dirty, governor, frequency, turn (the rate fell and did not recover),
    gap (of the recording).
    """

    kind: str
    sentence: str
    value: float | None = None


class BenchVerdict(_Struct, frozen=True):
    """Whether a result is the storage's; if not, the other fields explain why.

    ``rule`` is a finding's, or one of bytes, others, link, unwatched, failed.
    """

    ok: bool
    rule: str = ""
    sentence: str = ""
    evidence: tuple[str, ...] = ()


class Run(_Struct, frozen=True):
    """One repetition of a test.

    ``fio`` by direction: ``read``, ``write`` and, if the test syncs, ``sync``; METADATA's in such
    tests, which ioh makes itself; ``rival`` is the same for a neighbour.  The recording has the
    marks ``MARK begins`` and ``MARK ends``; ``fio_file`` is fio's own JSON, or in its form.
    """

    begin_unix_s: float
    end_unix_s: float
    fio: dict[str, Figures]
    verdict: BenchVerdict
    mark: str
    fio_file: str
    rival: dict[str, Figures] = {}
    layers: tuple[LayerFigures, ...] = ()
    findings: tuple[RunFinding, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()

    @property
    def ops_per_s(self) -> float:
        """Operations a second, all directions together; of commits, commits."""
        directions = [self.fio["sync"]] if "sync" in self.fio else self.fio.values()
        return sum(figures.iops or 0.0 for figures in directions)


class TestSpec(_Struct, frozen=True):
    """One test as requested: everything that affects its result, see docs/bench.md.

    ``kind`` may also be ``job`` (a user's) or ``like`` (a recording): ``job`` is then the whole job
    file.  ``size_bytes`` of the file, or of each file with ``own_files``.  0 for no limit.
    """

    __test__ = False  # not a test of pytest

    name: str
    kind: str
    rw: str = ""
    block_bytes: Count = 0
    users: Annotated[int, msgspec.Meta(ge=1)] = 1
    depth: Annotated[int, msgspec.Meta(ge=1)] = 1
    engine: str = "psync"
    direct: bool = True
    sync: str = ""
    sync_every: int = 0
    mix_read_pct: int | None = None
    size_bytes: int = 0
    own_files: bool = False
    rate_iops: int = 0
    ramp_s: float = 0.0
    run_s: float = 0.0
    runs: int = 1
    compress_pct: int = 0
    rival: str = ""
    agree_pct: float = 0.0
    limit_s: float = 0.0
    knee_pct: float = 0.0
    files: int = 0
    job: str = ""

    @property
    def depth_all(self) -> int:
        """Requests in flight, of all users together."""
        return self.users * self.depth


class Test(_Struct, frozen=True):
    """One test and its runs.

    The run ``shown`` has the median rate.  ``spread_pct``: (highest - lowest) / median of the
    rates; None with one run.  ``verdict`` is that of the first refused run, else of the shown run.
    """

    __test__ = False

    spec: TestSpec
    runs: tuple[Run, ...]
    shown: int
    verdict: BenchVerdict
    spread_pct: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.shown < len(self.runs):
            msg = "a test shows a run that it does not have"
            raise ValueError(msg)

    @property
    def run(self) -> Run:
        """The run that stands for the test."""
        return self.runs[self.shown]


class BenchDevice(_Struct, frozen=True):
    """A block device below the files.

    ``limits`` are from /sys/block/NAME/queue.  ``carries``: its requests are the tests' I/O, and
    are compared with fio's.
    """

    name: str
    model: str = ""
    transport: str = ""
    size_bytes: int | None = None
    rotational: bool | None = None
    scheduler: str = ""
    limits: dict[str, str] = {}
    carries: bool = False


class Conditions(_Struct, frozen=True):
    """The conditions of the whole bench.

    ``file_system`` is "raw" for a raw device; ``source`` is what is mounted; ``io_limits``: control
    groups' io.max that apply to fio, a line each; ``remarks`` apply to all results.  ``watch``:
    what was recorded, by its name in ioh/bench/price.py; "" before its price is measured.
    """

    host: str
    kernel: str
    machine: str
    cpu: str
    cpus: int
    memory_bytes: int
    cache_bytes: int
    target: str
    file_system: str
    mount_options: str
    source: str
    devices: tuple[BenchDevice, ...]
    governor: str
    io_limits: tuple[str, ...]
    fio_version: str
    ioh_version: str
    plan: str
    plan_text: str
    command: str
    size_bytes: int
    remarks: tuple[str, ...] = ()
    watch: WatchName = "all"


class Results(_Struct, frozen=True):
    """A whole bench: ``planned`` tests in order, and ``tests`` that are finished.

    ``recordings`` are in the same directory, one for each start or resume.
    """

    version: int
    conditions: Conditions
    planned: tuple[TestSpec, ...]
    tests: tuple[Test, ...] = ()
    begin_unix_s: float = 0.0
    end_unix_s: float = 0.0
    recordings: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every planned test is finished."""
        return len(self.tests) == len(self.planned)


def load(directory: str) -> Results:
    """Read a bench's results from its directory, or from results.json itself.

    Raises IohError if the file is missing, damaged, or of another version.
    """
    path = Path(directory)
    path = path / FILE_NAME if os.path.isdir(path) else path  # noqa: PTH112
    name = printable(str(path))

    def wrong(what: str) -> IohError:
        return IohError(f"{name} {what}", "Give a directory that ioh bench made")

    raw = read_file(path, 64, wrong)
    try:
        results = msgspec.json.decode(raw, type=Results)
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        what = f"cannot be read: {error}"
        raise wrong(what) from None
    if results.version != VERSION:
        cause = f"{name} has version {results.version}, this ioh reads {VERSION}"
        raise IohError(cause, "Use the version of ioh that made it")
    return results


def to_json(results: Results) -> str:
    """Encode as the text of ``results.json``."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1).decode() + "\n"


def save(results: Results, directory: str) -> None:
    """Replace ``results.json`` atomically; OSError as write_file()."""
    write_file(Path(directory) / FILE_NAME, to_json(results), 0o600)
