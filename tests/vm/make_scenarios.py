"""Plays the machine's scenarios and keeps their recordings.

``python -m tests.vm.make_scenarios [NAME …]`` takes half a minute for each.  The exit status is 1
if a rule did not do what the catalogue says; such a recording is kept with ``.failed``.  Only fio's
system calls are recorded, so that the files have no path of the machine that made them.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.scenarios.catalogue import Scenario
from tests.scenarios.verdict import RECORDINGS, complaint, judge
from tests.vm.catalogue import VM_SCENARIOS
from tests.vm.disks import Disks
from tests.vm.make_session import boot
from tests.vm.nfs import Server, mounted
from tests.vm.recorder import Recorder
from tests.vm.stage import VmStage, export_slow_disk


def main(names: list[str]) -> int:
    """Outside the machine: start it and judge what it recorded; returns the exit status."""
    with tempfile.TemporaryDirectory() as out:
        boot(Path(out), 5400, "tests.vm.make_scenarios", *names)
        return keep(names, Path(out))


def keep(names: list[str], made: Path) -> int:
    """Judge new recordings and keep them; returns the exit status."""
    failed = 0
    for name in names or VM_SCENARIOS:
        new = made / f"{name}.ioh"
        outcome = judge(new, VM_SCENARIOS[name].sign)
        wrong = complaint(VM_SCENARIOS[name], outcome)
        failed += bool(wrong)
        print(f"{name}: {wrong or 'as it should'}; {outcome}; {new.stat().st_size} bytes")
        kept = RECORDINGS / (f"{name}.ioh.failed" if wrong else new.name)
        shutil.copyfile(new, kept)
        kept.chmod(0o644)
    return min(failed, 1)


@contextmanager
def recorder(folder: Path) -> Iterator[Recorder]:
    """One ioh that records all layers; the NFS client's module is in use as long as it does."""
    Server()
    export_slow_disk(Disks())
    with mounted("3", client=2, place="/mnt/idle"):
        started = Recorder(folder / "all.ioh", ["--comm", "fio"])
        try:
            yield started
        finally:
            started.end()


def play(scenario: Scenario, running: Recorder, output: Path) -> None:
    """Play a scenario, and write what was recorded meanwhile."""
    with (
        tempfile.TemporaryDirectory(prefix="ioh-") as folder,
        VmStage(Path(folder), running) as stage,
    ):
        scenario.play(stage)
        stage.keep(output)


def play_all(names: list[str], out: Path) -> None:
    """Inside the machine: play these scenarios, or all."""
    with tempfile.TemporaryDirectory(prefix="ioh-") as folder, recorder(Path(folder)) as running:
        for name in names or VM_SCENARIOS:
            print(name, flush=True)
            new = Path(folder) / f"{name}.ioh"
            play(VM_SCENARIOS[name], running, new)
            shutil.copyfile(new, out / new.name)


if __name__ == "__main__":
    if os.environ.get("IOH_IN_VM"):
        play_all(sys.argv[1:-1], Path(sys.argv[-1]))
    else:
        sys.exit(main(sys.argv[1:]))
