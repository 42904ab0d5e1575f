"""Hostile recordings give an error or harmless output, soon and with little memory."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ioh.model.errors import IohError
from ioh.model.sample import LayerSample
from ioh.session.stream import BadRecord, Item, ItemReader, Tick, WorkBudget
from tests.fuzz import CORPUS, assert_harmless, made
from tests.support import demo_samples
from tests.support.hostile_recordings import CASES, begun, numbered, of_block, stream, whole
from tests.support.sessions import items, recorded, samples_of

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "ioh/data/demo.ioh"
# Relative to the demo (111 samples of five layers), since machines differ: 2 s if it takes 0.3 s.
LIMIT = 7
LIMIT_BYTES = 150 << 20
# Each file is used in a process of its own, forked from one that has loaded all of ioh.
PROGRAM = """\
import os, sys, time
from ioh.commands import main
import ioh.commands.playback, ioh.playback.replay, ioh.session.check
for line in sys.stdin:
    path, *uses = line.rstrip("\\n").split("\\t")
    sys.stdout.flush()
    if pid := os.fork():
        os.waitpid(pid, 0)
        continue
    for use in uses:
        os.dup2(os.open(path, os.O_RDONLY), 0)
        began = time.process_time()
        code = main([word.replace("FILE", path) for word in use.split()])
        spent = time.process_time() - began
        sys.stdout.flush()
        print(f"= {code} {spent}", file=sys.stderr)
    status = open("/proc/self/status").read()  # of this process, not of what forked it
    print("peak", status.split("VmHWM:")[1].split()[0], path, file=sys.stderr)
    os._exit(0)
"""
PARTS = 2  # for two CPUs
USES = ("text - -d all", "verify FILE", "report FILE -d all")


def too_slow(paths: list[Path]) -> dict[Path, float]:
    """Files of which a use takes at least LIMIT times as long as the demo, and that time."""
    slow: dict[Path, float] = {}
    paths = [DEMO, *paths]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, check=False, timeout=600,
        input="".join("\t".join((str(path), *USES)) + "\n" for path in paths).encode(),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr.decode()
    assert b"\x1b" not in ran.stdout + ran.stderr
    found = re.split(r"^peak (\d+) (.*)\n", ran.stderr.decode(), flags=re.MULTILINE)
    assert found[2::3] == [str(path) for path in paths]
    for said, peak_kb, name in zip(found[::3], found[1::3], found[2::3], strict=False):
        lines = said.splitlines()
        ends = [line.split()[1:] for line in lines if line.startswith("= ")]
        assert len(ends) == len(USES), name
        assert len(lines) <= 2 * len(USES), name  # one line of an error each, no traceback
        assert all(int(code) in {0, 1, 2} for code, _ in ends), name
        spent_s = max(float(spent) for _, spent in ends)
        if name == str(DEMO):
            limit_s = LIMIT * spent_s
        assert spent_s < 3 * limit_s, name
        if spent_s >= limit_s:
            slow[Path(name)] = spent_s
        assert 10_000 < int(peak_kb) < LIMIT_BYTES // 1024, name
    return slow


@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_files_are_handled_quickly(part: int, tmp_path: Path) -> None:
    """Files that take too long are tried twice more: the machine may be busy."""
    slow: dict[Path, float] = {}
    for name, make in list(CASES.items())[part::PARTS]:
        (tmp_path / name).write_bytes(make())
        slow[tmp_path / name] = 0.0
    for _ in range(3):
        slow = too_slow(list(slow)) if slow else slow
    assert not slow


def test_the_records_of_the_hostile_files_are_accepted_if_well_formed() -> None:
    for good in (begun(whole()), numbered(stream(1))):
        told = list(items(good))
        assert [item.tick for item in told if isinstance(item, Tick)][:3] == [0, 1, 2]
        assert not any(isinstance(item, BadRecord) for item in told)


def test_a_stream_that_costs_more_than_any_hosts_is_cut_off_soon() -> None:
    reader = ItemReader()
    reader.feed(of_block(200, 0, 20_000, "limit", mono_ns=10**9))
    found = reader.items(at_end=True)
    samples = 0
    with contextlib.suppress(IohError):
        while True:
            samples += isinstance(next(found), Tick)
    assert 20 < samples < 150


def work_per_byte(data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """The cost of reading these bytes, per byte, in both measures of WorkBudget."""
    plain: list[int] = []
    samples: list[int] = []

    def spend(_: WorkBudget, work: int = 0, *, on_sample: int = 0) -> None:
        plain.append(work)
        samples.append(on_sample)

    monkeypatch.setattr(WorkBudget, "spend", spend)
    assert samples_of(data)
    return sum(plain) / len(data), sum(samples) / len(data)


@pytest.mark.parametrize("name", ["ioh/data/sample", "ioh/data/demo", "tests/data/session-v2"])
def test_real_recordings_cost_a_small_part_of_the_budget(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, samples = work_per_byte((ROOT / f"{name}.ioh").read_bytes(), monkeypatch)
    assert plain < 32 / 8
    assert samples < 256 / 32


def test_a_thousand_idle_mounts_and_rows_may_be_recorded_for_weeks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The most expensive recording per byte: much is shown, and nothing changes."""
    made = []
    for sample in demo_samples.samples()[:30]:
        mounts = demo_samples.samples()[0].layers["nfs_client"]
        assert isinstance(mounts, LayerSample)
        table = sample.specs["nfs_client"].tables[0]
        keys, row = ("",) * (len(table.keys) - 1), (0,) * len(table.raw_columns)
        mounts = replace(
            mounts,
            parts={f"/mnt/{at}": mounts.ops for at in range(1000)},
            tables={table.name: {(f"/mnt/{at}", *keys): row for at in range(4000)}},
        )
        made.append(replace(sample, layers={"nfs_client": mounts}))
    plain, samples = work_per_byte(recorded(made), monkeypatch)
    assert plain < 32 / 2
    assert samples < 256 / 2


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.ioh")), ids=lambda path: path.name)
def test_files_that_the_fuzzer_found_do_no_harm_any_more(path: Path) -> None:
    assert_harmless(path.read_bytes())


def test_the_fuzzer_repeats_each_seed_and_makes_good_and_bad_records() -> None:
    every = [made(Random(seed)) for seed in range(40)]
    assert every == [made(Random(seed)) for seed in range(40)]
    kinds = [type(item) for data in every for item in told(data)]
    assert kinds.count(Tick) > 20
    assert kinds.count(BadRecord) > 5


def told(data: bytes) -> list[Item]:
    """The items of a stream of these bytes, until it is refused."""
    found: list[Item] = []
    with contextlib.suppress(IohError):
        found.extend(items(data))
    return found
