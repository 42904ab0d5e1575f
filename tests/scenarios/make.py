"""Play scenarios and keep their recordings: ``python -m tests.scenarios.make [NAME …]``.

Real programs and databases (tests/programs) are played only if named.  Needs root, fio, nft, tc and
mkfs.btrfs.  Exits with 1 if a rule did not do what the catalogue says; that recording is kept
beside the old one, with the suffix ``.failed``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.programs.catalogue import DB_SCENARIOS, PROGRAMS
from tests.scenarios.catalogue import SCENARIOS, Scenario
from tests.scenarios.stage import stage
from tests.scenarios.verdict import RECORDINGS, Outcome, absent_paths, complaint, judge


def play(scenario: Scenario, output: Path) -> Outcome:
    """Play one and judge its recording."""
    output.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="ioh-", dir="/var/tmp") as folder:
        with stage(Path(folder) / "stage", output) as made:
            scenario.play(made)
            made.end_recording()
            outcome = judge(output, scenario.sign)
            absent = absent_paths(outcome)
            assert not absent, f"{scenario.name}: a command has {absent}, which is not there"
        return outcome


def main(names: list[str]) -> int:
    """Play the named scenarios, or all; returns the exit status."""
    failed, known = 0, {**SCENARIOS, **DB_SCENARIOS, **PROGRAMS}
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    for name in names or SCENARIOS:
        new = RECORDINGS / f"{name}.ioh.failed"
        outcome = play(known[name], new)
        wrong = complaint(known[name], outcome)
        failed += bool(wrong)
        size = new.stat().st_size
        print(f"{name}: {wrong or 'as it should'}; {outcome}; {size} bytes", flush=True)
        if not wrong:
            new.replace(RECORDINGS / f"{name}.ioh")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
