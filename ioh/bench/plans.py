"""Read plans, which are TOML files, check them, and expand them into tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

import msgspec

from ioh.bench.files import read_file
from ioh.bench.results import METADATA, TestSpec
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable

FOLDER = Path(__file__).parent / "plans"
MAX_TESTS = 500
BUILT_IN = (
    "database",
    "card",
    "commit",
    "seeks",
    "files",
    "metadata",
    "steady",
    "neighbour",
    "ramp",
)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_RW = {"seqread": "read", "commit": "write", "seeks": "randread"}
# Copied from the plan to its tests.
_SAME_OF_TESTS = (
    "kind", "depth", "sync", "mix_read_pct", "compress_pct", "rival", "files",
)  # fmt: skip
_SAME_OF_PLAN = ("ramp_s", "agree_pct", "limit_s", "knee_pct")
_CHANGING = ("create", "rename", "unlink", "mix")  # directories, in metadata tests
_OF_METADATA = (*METADATA, "mix")
_WRITING = ("write", "randwrite", "randrw", "rw", "append", *_CHANGING)

Kind = Literal["randread", "seqread", "write", "randrw", "commit", "seeks", "files", "metadata"]
Rw = Literal[
    "", "read", "write", "randread", "randwrite", "randrw", "rw", "append", "delete",
    "create", "stat", "open_read", "rename", "unlink", "mix",
]  # fmt: skip
Sync = Literal["", "sync", "dsync", "fsync", "fdatasync"]


class _Tests(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[test]]`` entry: a test for each combination of block size and users."""

    kind: Kind
    block: str | list[str]
    users: int | list[int] = 1
    label: str = ""
    rw: Rw = ""
    depth: int = 1
    engine: Literal["", "psync", "libaio", "io_uring", "posixaio", "sync"] = ""
    direct: bool = True
    sync: Sync = ""
    sync_every: int = 1
    mix_read_pct: int | None = None
    rate_iops: int = 0
    compress_pct: int = 0
    own_files: bool = False
    files: int = 0
    rival: Literal["", "stream", "reader"] = ""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan as written; ``size`` is that of the work file, with k, m, g for powers of 1,024."""

    summary: str
    size: str
    test: list[_Tests]
    run_s: float = 0.0
    ramp_s: float = 0.0
    runs: int = 1
    agree_pct: float = 0.0
    limit_s: float = 0.0
    knee_pct: float = 0.0


class PlanChanges(msgspec.Struct, frozen=True):
    """The command line's changes to a plan; None means no change."""

    kinds: tuple[str, ...] = ()
    run_s: float | None = None
    size_bytes: int | None = None
    users: int | None = None
    block_bytes: int | None = None
    own_files: bool = False
    rate_iops: int | None = None
    runs: int | None = None


def size_of(text: str) -> int:
    """Parse ``8k``, ``2g`` or ``512``; ValueError unless it is a size above 0."""
    match = re.fullmatch(r"(\d{1,15})([kmgt]?)", text.lower())
    value = int(match[1]) * _UNITS[match[2]] if match else 0
    if value <= 0:
        msg = f'"{printable(text, 40)}" is not a size such as 8k or 2g'
        raise ValueError(msg)
    return value


def show_size(size_bytes: int) -> str:
    """Format a size as in a plan: ``8k``, ``1m``."""
    for unit in "tgmk":
        if size_bytes and size_bytes % _UNITS[unit] == 0:
            return f"{size_bytes // _UNITS[unit]}{unit}"
    return str(size_bytes)


def read_plan(name: str) -> tuple[Plan, str]:
    """Read a built-in plan by name, or a user's file; also return its text.

    Raises IohError if it is invalid.
    """
    is_file = "/" in name or name.endswith(".toml")
    hint = f"Plans: {', '.join(BUILT_IN)}; or give a file, such as ./my.toml"
    refuse_if(not is_file and name not in BUILT_IN, f'no plan "{name}"', hint)
    path = Path(name) if is_file else FOLDER / f"{name}.toml"
    raw = read_file(path, 1, partial(_wrong, path))
    try:
        plan = msgspec.toml.decode(raw, type=Plan)
    except msgspec.ValidationError as error:
        raise _wrong(path, _in_words(str(error))) from None
    except (ValueError, RecursionError) as error:  # invalid TOML or UTF-8
        raise _wrong(path, f"not a TOML file: {error}") from None
    try:
        specs_of(plan, PlanChanges())
    except IohError as error:
        raise _wrong(path, error.cause) from None
    return plan, raw.decode()


def _wrong(path: Path, what: str) -> IohError:
    return IohError(
        f"the plan {path}: {what}",
        "See docs/bench.md, or ioh bench --plans",
        ExitCode.USAGE,
    )


def _in_words(text: str) -> str:
    """Translate the place in msgspec's message: ``$.test[1].users`` is ``users of test 2``."""
    match = re.fullmatch(r"(.*) - at `(?:key in )?\$\.?(?:test\[(\d+)\]\.?)?(.*)`", text)
    if match is None:
        return text
    what, number, field = match.groups()
    place = [field] if field else []
    place += [f"test {int(number) + 1}"] if number else []
    return f"{what[:1].lower()}{what[1:]} ({' of '.join(place) or 'top'})"


def plan_with(kinds: tuple[str, ...]) -> str:
    """The first built-in plan that has tests of all these kinds, else "database"."""
    for name in BUILT_IN:
        if {*kinds} <= {tests.kind for tests in read_plan(name)[0].test}:
            return name
    return BUILT_IN[0]


def specs_of(plan: Plan, changes: PlanChanges) -> tuple[TestSpec, ...]:
    """Expand a plan into its tests.

    Raises IohError if a value is invalid, or the changes leave nothing to run.
    """
    kinds = {tests.kind for tests in plan.test}
    for kind in changes.kinds:
        cause = f'the plan has no tests "{kind}"'
        refuse_if(kind not in kinds, cause, f"It has: {', '.join(sorted(kinds))}")
    by_name: dict[str, TestSpec] = {}
    try:
        for number, tests in enumerate(plan.test, 1):
            if changes.kinds and tests.kind not in changes.kinds:
                continue
            for spec in _spread(plan, tests, changes, number):
                by_name.setdefault(spec.name, spec)
    except ValueError as error:
        raise IohError(str(error), "", ExitCode.USAGE) from None
    is_wrong = not 0 < len(by_name) <= MAX_TESTS
    refuse_if(is_wrong, f"the plan has {len(by_name)} tests", f"It can have 1 to {MAX_TESTS}")
    specs = tuple(by_name.values())
    return specs[:1] if changes.rate_iops else specs


def _spread(plan: Plan, tests: _Tests, changes: PlanChanges, number: int) -> Iterator[TestSpec]:
    blocks = [tests.block] if isinstance(tests.block, str) else tests.block
    users = [tests.users] if isinstance(tests.users, int) else tests.users
    sizes = [size_of(text) for text in blocks]
    if changes.block_bytes and tests.kind != "files":
        sizes = [changes.block_bytes]
    if changes.users:
        users = [changes.users]
    for block_bytes, user_count in product(sizes, users):
        spec = _spec(plan, tests, changes, block_bytes, user_count)
        if why := _why_not(spec):
            msg = f"{why} (test {number})"
            raise ValueError(msg)
        yield spec


def _spec(
    plan: Plan, tests: _Tests, changes: PlanChanges, block_bytes: int, users: int
) -> TestSpec:
    words = [tests.kind, show_size(block_bytes), f"{users}u"]
    words += [f"d{tests.depth}"] * (tests.depth > 1)
    is_metadata = tests.kind == "metadata"
    words += [tests.rw.replace("_", "-")] * is_metadata + [tests.label] * bool(tests.label)
    size_bytes = size_of(plan.size) if changes.size_bytes is None else changes.size_bytes
    return TestSpec(
        "-".join(words),
        **{name: getattr(tests, name) for name in _SAME_OF_TESTS},
        **{name: getattr(plan, name) for name in _SAME_OF_PLAN},
        direct=tests.direct and not is_metadata,
        rw=tests.rw or _RW.get(tests.kind, tests.kind),
        block_bytes=block_bytes,
        users=users,
        engine=tests.engine or ("libaio" if tests.depth > 1 else "psync"),
        sync_every=tests.sync_every if tests.sync in {"fsync", "fdatasync"} else 0,
        size_bytes=tests.files * block_bytes if tests.files else size_bytes,
        own_files=tests.own_files or changes.own_files,
        rate_iops=tests.rate_iops if changes.rate_iops is None else changes.rate_iops,
        run_s=0.0
        if tests.files and not is_metadata
        else (plan.run_s if changes.run_s is None else changes.run_s),
        runs=plan.runs if changes.runs is None else changes.runs,
    )


def _why_not(spec: TestSpec) -> str:
    """What is wrong with a test, or ""."""
    rules = (
        (re.fullmatch(r"[A-Za-z0-9._-]{1,80}", spec.name), "label must be letters and digits"),
        (512 <= spec.block_bytes <= 64 << 20, "block must be 512 bytes to 64m"),
        (1 <= spec.users <= 4096, "users must be 1 to 4096"),
        (1 <= spec.depth <= 4096, "depth must be 1 to 4096"),
        (1 <= spec.runs <= 100, "runs must be 1 to 100"),
        (spec.depth == 1 or spec.engine not in {"psync", "sync"}, f"{spec.engine} has no depth"),
        (0 <= spec.compress_pct <= 100, "compress_pct must be 0 to 100"),
        (0 <= (spec.mix_read_pct or 0) <= 100, "mix_read_pct must be 0 to 100"),
        (spec.mix_read_pct is None or spec.rw.endswith("rw"), "mix_read_pct is for randrw and rw"),
        (not spec.sync or is_writing(spec), "sync is for tests that write"),
        (spec.sync_every >= 0, "sync_every must be 1 or more"),
        (spec.rate_iops >= 0, "rate_iops must be 0 or more"),
        (0 < spec.run_s <= 604_800 or spec.files, "run_s must be above 0, and a week at most"),
        (0 <= spec.ramp_s <= 86_400, "ramp_s must be 0 to 86400"),
        (
            bool(spec.files) == (spec.kind in {"files", "metadata"}),
            "kinds files and metadata need files, other kinds do not",
        ),
        (
            (spec.kind == "metadata") == (spec.rw in _OF_METADATA and spec.rw != "append"),
            "kind metadata needs rw = create, stat, open_read, rename, unlink or mix",
        ),
        (
            spec.kind != "metadata" or _is_plain(spec),
            "kind metadata takes only rw, block, users, files, label, and sync = fsync",
        ),
        (0 <= spec.files <= 10_000_000, "files must be 1 to 10 million"),
        (not spec.agree_pct or spec.limit_s >= 2 * spec.run_s, "limit_s must be 2 × run_s or more"),
        (spec.rw not in {"append", "delete"} or spec.files, "append and delete are for files"),
        (
            spec.files or spec.size_bytes >= spec.block_bytes * spec.users * (1 + bool(spec.rival)),
            "size is too small: each user needs a block",
        ),
    )
    return next((why for holds, why in rules if not holds), "")


def _is_plain(spec: TestSpec) -> bool:
    """Whether a test has nothing that only fio knows."""
    settings = (spec.depth, spec.engine, spec.sync_every)
    ramped = spec.ramp_s or spec.rate_iops or spec.mix_read_pct is not None
    others = spec.own_files or spec.rival or spec.compress_pct
    return settings == (1, "psync", bool(spec.sync)) and not (ramped or others)


def is_writing(spec: TestSpec) -> bool:
    """Whether a test writes."""
    return spec.rw in _WRITING


def seconds_of(specs: tuple[TestSpec, ...]) -> float:
    """The minimum duration of tests, without filling the work file."""
    return sum(
        spec.run_s * (3 if spec.agree_pct else 1) * spec.runs + spec.ramp_s for spec in specs
    )
