"""``results.json``: all that one ``ioh bench`` found, from which every report is made.

Unknown is None, measured none is 0.  Latencies are µs, sizes bytes, rates per second, times Unix
seconds, shares percent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from ioh.bench.files import read_file, write_file
from ioh.model.errors import IohError
from ioh.model.printable import printable

VERSION = 1
FILE_NAME = "results.json"
# fioparse's columns, by their names in its CSV, and the upper edge of each; the last has none.
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


# Of operations, bytes, time: what results.json has is checked as it is read.
Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]


class _Struct(msgspec.Struct, frozen=True, omit_defaults=True):
    pass


class Figures(_Struct, frozen=True):
    """What one direction of I/O did in one run, by fio's account or a layer's.

    ``hist`` counts operations in HIST_COLUMNS; () where there is none.  A percentile is None where
    fewer operations were counted than it needs.
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
    """One operation of one layer over the seconds of a run.

    ``layer`` and ``op`` as in a recording; ``title`` for people; ``part`` the device or mount, ""
    for all of the machine; ``source`` bpf or proc.
    """

    layer: str
    title: str
    op: str
    figures: Figures
    part: str = ""
    source: str = ""


class Spoken(_Struct, frozen=True):
    """A finding that held during a run: rule and words as ``ioh report`` prints them."""

    rule: str
    title: str
    severity: str
    subject: str
    cause: str
    advice: str
    begin_unix_s: float
    end_unix_s: float


class Disturbance(_Struct, frozen=True):
    """What else happened meanwhile.

    ``kind``: steal, others, dirty, governor, frequency, turn (the rate fell for good), gap (of the
    recording).
    """

    kind: str
    sentence: str
    value: float | None = None


class BenchVerdict(_Struct, frozen=True):
    """Whether a result is the storage's; the other fields say why not, evidence a fact a line.

    ``rule`` is a finding's, or one of bytes, others, link, unwatched, failed.
    """

    ok: bool
    rule: str = ""
    sentence: str = ""
    evidence: tuple[str, ...] = ()


class Run(_Struct, frozen=True):
    """One repetition of a test.

    ``fio`` by direction: ``read``, ``write`` and, where the test syncs, ``sync``; ``rival`` the
    same of a neighbour.  The recording has ``MARK begins`` and ``MARK ends``; ``fio_file`` is fio's
    own JSON.
    """

    begin_unix_s: float
    end_unix_s: float
    fio: dict[str, Figures]
    verdict: BenchVerdict
    mark: str
    fio_file: str
    rival: dict[str, Figures] = {}
    layers: tuple[LayerFigures, ...] = ()
    findings: tuple[Spoken, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()

    @property
    def ops_per_s(self) -> float:
        """Operations a second, all directions together; of commits, commits."""
        counted = [self.fio["sync"]] if "sync" in self.fio else self.fio.values()
        return sum(figures.iops or 0.0 for figures in counted)


class TestSpec(_Struct, frozen=True):
    """One test as it is asked for: everything that changes its result, see docs/bench.md.

    ``kind`` may also be ``job``, a user's, or ``like`` a recording: ``job`` then holds all of it.
    ``size_bytes`` of the file, or of each file where ``own_files``.  0 for no limit.
    """

    __test__ = False  # of a plan, not of pytest's

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
        """Requests under way at a time, of all users together."""
        return self.users * self.depth


class Test(_Struct, frozen=True):
    """One test and its runs.

    The run ``shown`` has the median rate.  ``spread_pct``: (highest - lowest) / median of the
    rates; None with one run.  ``verdict``: the first refused run's, else that of the shown one.
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
    """A block device below the files, from the file system's down to the physical ones.

    ``limits`` are of /sys/block/NAME/queue.  ``carries``: its requests are the tests' I/O, against
    which fio's is held.
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
    """Under which everything was measured.

    ``file_system`` is "raw" for a device itself; ``source`` what is mounted; ``io_limits``: control
    groups' io.max that hold fio, a line each; ``remarks``: what to know of all results.
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


class Results(_Struct, frozen=True):
    """A whole bench: ``planned`` in the order in which they run, ``tests`` those finished.

    ``recordings`` in the same directory, one for each time that it was begun or resumed.
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
    """What a bench kept, by its directory or its results.json itself.

    Raises IohError where it is not there, is damaged, or was made by a later ioh.
    """
    path = Path(directory)
    path = path / FILE_NAME if path.is_dir() else path
    shown = printable(str(path))

    def wrong(what: str) -> IohError:
        return IohError(f"{shown} {printable(what)}", "Give a directory that ioh bench made")

    raw = read_file(path, 64, wrong)
    try:
        found = msgspec.json.decode(raw, type=Results)
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        what = f"cannot be read: {error}"
        raise wrong(what) from None
    if found.version != VERSION:
        cause = f"{shown} has version {found.version}, and this ioh reads {VERSION}"
        raise IohError(cause, "Use the ioh that made it")
    return found


def to_json(results: Results) -> str:
    """What ``results.json`` holds."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1).decode() + "\n"


def save(results: Results, directory: str) -> None:
    """Write ``results.json``, whole or not at all; OSError as write_file()."""
    write_file(Path(directory) / FILE_NAME, to_json(results), 0o600)
