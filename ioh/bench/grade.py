"""The report card: letters for grade.r's four cells, by bands from a file.

The card has the letters of its worst cell.  A cell that was not measured, or not on the storage,
has a reason instead of a letter.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from ioh.bench.files import read_file
from ioh.bench.results import Conditions, Results, Test
from ioh.model.errors import ExitCode, IohError
from ioh.model.file_systems import NFS
from ioh.model.printable import printable

LETTERS = ("A+", "A", "A-", "B", "B-", "C", "C-", "D")
UNGRADED = "?"
BUILT_IN = ("today", "classic")
_FOLDER = Path(__file__).parent / "bands"
STATISTICS = ("mean", "p95", "p99")
# The statistic that grades a cell, as in grade.r's picture.
_COUNTS = "p95"
_CLOUD_MODELS = ("Amazon Elastic Block Store", "PersistentDisk", "nvme_card-pd", "Microsoft NVMe")
_CLOUD_TRANSPORTS = ("virtio", "xen")


@dataclass(frozen=True, slots=True)
class Cell:
    """One of the four cells: a test, and the same test with more users."""

    name: str
    title: str
    kind: str
    block_bytes: int
    users: int
    more_users: int


CELLS = (
    Cell("randread_8k_16u", "random read 8 KB, 16 users", "randread", 8 << 10, 16, 32),
    Cell("read_1m_1u", "sequential read 1 MB, 1 user", "seqread", 1 << 20, 1, 8),
    Cell("write_1k_4u", "synchronous write 1 KB, 4 users", "write", 1 << 10, 4, 16),
    Cell("write_128k_4u", "synchronous write 128 KB, 4 users", "write", 128 << 10, 4, 16),
)


class Ladder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cell's bounds: seven ascending latencies in ms, the divisor of scaling, their source."""

    ms: tuple[float, ...]
    scale_by: float
    source: str


class BandClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds for one class of storage, by cell name."""

    title: str
    cells: dict[str, Ladder]


class Bands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set of bands, as in its TOML file.

    ``scale``: seven ascending bounds of scaling, which gets no letter below ``faster_than``.
    """

    title: str
    summary: str
    scale: tuple[float, ...]
    classes: dict[str, BandClass]
    faster_than: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One test's graded numbers: ``latency_ms`` by STATISTICS.

    ``why`` they are not the storage's, or "".  ``hist`` in HIST_COLUMNS, counts or percent, () if
    there is none.
    """

    latency_ms: Mapping[str, float | None]
    why: str = ""
    hist: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Grade:
    """The letters of one of a cell's STATISTICS; "?" and None if something is missing.

    ``scale`` is (latency with more users / latency - 1) / scale_by.
    """

    of: str
    latency_ms: float | None
    letter: str
    scale: float | None
    scale_letter: str


@dataclass(frozen=True, slots=True)
class CellGrade:
    """One cell and its letters at p95; ``why`` and ``scale_why`` explain a "?"."""

    cell: Cell
    ladder: Ladder
    letter: str
    scale_letter: str
    grades: tuple[Grade, ...]
    why: str = ""
    scale_why: str = ""
    hist: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """The report card, with its worst cell's letters: "?" if any cell has none."""

    bands: Bands
    class_title: str
    cells: tuple[CellGrade, ...]
    letter: str
    scale_letter: str


def read_bands(name: str) -> Bands:
    """Read built-in bands by name, or a user's file; IohError if they are invalid."""
    path = _FOLDER / f"{name}.toml" if name in BUILT_IN else Path(name)
    raw = read_file(path, 1, partial(_wrong, path))
    try:
        bands = msgspec.toml.decode(raw, type=Bands)
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        raise _wrong(path, str(error)) from None
    if why := _why_not(bands):
        raise _wrong(path, why)
    return bands


def _wrong(path: Path, what: str) -> IohError:
    hint = f"Give {' or '.join(BUILT_IN)}, or a file like ioh/bench/bands/today.toml"
    return IohError(f"bands {path}: {what}", hint, ExitCode.USAGE)


def _why_not(bands: Bands) -> str:
    """What is wrong with bands, or ""."""
    names = {cell.name for cell in CELLS}
    if not _rises(bands.scale):
        return "scale must be seven ascending numbers"
    if not bands.classes:
        return "no classes"
    for name, ladders in bands.classes.items():
        if set(ladders.cells) != names:
            return f"class {name} must have exactly these cells: {', '.join(sorted(names))}"
        for cell, ladder in ladders.cells.items():
            if not _rises(ladder.ms) or ladder.ms[0] <= 0:
                return f"{name}.{cell}: ms must be seven ascending numbers above 0"
            if not 0 < ladder.scale_by < math.inf:
                return f"{name}.{cell}: scale_by must be above 0"
    return ""


def _rises(bounds: tuple[float, ...]) -> bool:
    is_whole = len(bounds) == len(LETTERS) - 1 and all(map(math.isfinite, bounds))
    return is_whole and list(bounds) == sorted(set(bounds))


def class_of(conditions: Conditions) -> str:
    """The class of the measured storage, by its file system and disks; "" if unknown."""
    if conditions.file_system in NFS:
        return "nfs"
    disks = [device for device in conditions.devices if device.transport not in {"dm", "md", ""}]
    if any(
        device.transport in _CLOUD_TRANSPORTS or device.model.startswith(_CLOUD_MODELS)
        for device in disks
    ):
        return "cloud"
    if any(device.rotational for device in disks):
        return "hdd"
    if disks and all(device.transport == "nvme" for device in disks):
        return "nvme"
    return "sata_ssd" if any(d.transport in {"sata", "sas", "ata"} for d in disks) else ""


def chosen_class(bands: Bands, wanted: str, conditions: Conditions | None) -> str:
    """Choose the class to grade by: the wanted one, the only one, or that of the storage.

    Raises IohError if there is no such class, or the storage's is unknown.
    """
    class_name = wanted or (class_of(conditions) if conditions is not None else "")
    if len(bands.classes) == 1 and not wanted:
        return next(iter(bands.classes))
    if class_name in bands.classes:
        return class_name
    what = f'no class "{printable(wanted)}"' if wanted else "the class of storage is unknown"
    names = ", ".join(map(printable, bands.classes))
    cause = f"{what} in the bands {bands.title}"
    raise IohError(cause, f"Give --class: {names}", ExitCode.USAGE)


def measured_of(results: Results) -> dict[tuple[str, int, int], Measured]:
    """The latencies of a bench's tests, by kind, block size in bytes, and users."""
    latencies: dict[tuple[str, int, int], Measured] = {}
    for test in results.tests:
        spec = test.spec
        is_plain = spec.depth == 1 and not (spec.rival or spec.rate_iops or spec.compress_pct)
        is_right = spec.sync in {"sync", "dsync"} if spec.kind == "write" else spec.direct
        if is_plain and is_right:
            latencies.setdefault((spec.kind, spec.block_bytes, spec.users), _measured(test))
    return latencies


def _measured(test: Test) -> Measured:
    if not test.verdict.ok:
        return Measured({}, f"not the storage: {test.verdict.sentence}")
    figures = test.run.fio.get("write" if test.spec.kind == "write" else "read")
    if figures is None:
        return Measured({}, "fio reported nothing")
    us = (figures.mean_us, figures.p95_us, figures.p99_us)
    ms = (None if each is None else each / 1000 for each in us)
    return Measured(dict(zip(STATISTICS, ms, strict=True)), hist=figures.hist)


def card_of(
    measured: Mapping[tuple[str, int, int], Measured], bands: Bands, class_name: str
) -> Card:
    """Grade tests by the bounds of one class."""
    bounds = bands.classes[class_name]
    cells = tuple(_cell_grade(cell, bounds.cells[cell.name], measured, bands) for cell in CELLS)
    return Card(
        bands,
        bounds.title,
        cells,
        worst(cell.letter for cell in cells),
        worst(cell.scale_letter for cell in cells),
    )


def worst(letters: Iterator[str]) -> str:
    """The worst letter; "?" if one of them is."""
    all_letters = list(letters)
    return UNGRADED if UNGRADED in all_letters else max(all_letters, key=LETTERS.index)


def _cell_grade(
    cell: Cell, ladder: Ladder, measured: Mapping[tuple[str, int, int], Measured], bands: Bands
) -> CellGrade:
    missing = Measured({}, "not tested")
    low = measured.get((cell.kind, cell.block_bytes, cell.users), missing)
    high = measured.get((cell.kind, cell.block_bytes, cell.more_users), missing)
    grades = tuple(
        _grade(name, low.latency_ms.get(name), high.latency_ms.get(name), ladder, bands)
        for name in STATISTICS
    )
    grade = grades[STATISTICS.index(_COUNTS)]
    why = scale_why = ""
    if grade.letter == UNGRADED:
        why = low.why or f"too few operations for a {_COUNTS}"
    elif grade.scale_letter == UNGRADED:
        more = f"with {cell.more_users} users"
        if grade.scale is not None:
            scale_why = f"{more} it is faster than with {cell.users}: a cache was used"
        else:
            scale_why = f"{more}: {high.why or f'too few operations for a {_COUNTS}'}"
    letters = (grade.letter, grade.scale_letter)
    return CellGrade(cell, ladder, *letters, grades, why, scale_why, low.hist)


def _grade(
    of: str, low_ms: float | None, high_ms: float | None, ladder: Ladder, bands: Bands
) -> Grade:
    letter = UNGRADED if low_ms is None else LETTERS[bisect_right(ladder.ms, low_ms)]
    if not low_ms or high_ms is None:
        return Grade(of, low_ms, letter, None, UNGRADED)
    scale = (high_ms / low_ms - 1) / ladder.scale_by
    if bands.faster_than is not None and scale < bands.faster_than:
        return Grade(of, low_ms, letter, scale, UNGRADED)
    # As in grade.r, the bound is included.
    scale_letter = next(
        (each for bound, each in zip(bands.scale, LETTERS, strict=False) if scale <= bound),
        LETTERS[-1],
    )
    return Grade(of, low_ms, letter, scale, scale_letter)
