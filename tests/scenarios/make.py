"""Plays scenarios and keeps their recordings: ``python -m tests.scenarios.make [NAME …]``.

Needs root, fio, nft, tc and mkfs.btrfs.  Ends with 1 where a rule did not do as the catalogue says;
then that recording is kept beside the old one, with ``.failed``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.scenarios.catalogue import SCENARIOS, Scenario
from tests.scenarios.stage import stage
from tests.scenarios.verdict import RECORDINGS, Outcome, complaint, judge


def play(scenario: Scenario, output: Path) -> Outcome:
    """Play one and judge its recording."""
    output.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="ioh-", dir="/var/tmp") as folder:
        with stage(Path(folder) / "stage", output) as made:
            scenario.play(made)
        return judge(output, scenario.sign)


def main(names: list[str]) -> int:
    """Play those, or all; returns the exit status."""
    failed = 0
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    for name in names or SCENARIOS:
        new = RECORDINGS / f"{name}.ioh.failed"
        outcome = play(SCENARIOS[name], new)
        wrong = complaint(SCENARIOS[name], outcome)
        failed += bool(wrong)
        size = new.stat().st_size
        print(f"{name}: {wrong or 'as it should'}; {outcome}; {size} bytes", flush=True)
        if not wrong:
            new.replace(RECORDINGS / f"{name}.ioh")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
