"""Minutes of idleness and of moderate mixed fio: no rule may fire.

``python -m tests.scenarios.silence [--minutes 10] [--keep FOLDER]`` records the whole machine,
not a disk of its own, so it needs a quiet one: the I/O of other programs is judged, too, and a
finding about it may be true.  Needs root and fio; exits with 1 if a rule fired.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from ioh.findings.spans import finding_spans
from ioh.layers import all_layers
from ioh.sinks.findings import render_evidence, render_headline, render_times
from tests.kernel.rig import MIB
from tests.scenarios.stage import Stage, fill, stage
from tests.scenarios.verdict import judged_recording

TITLES = {name: layer.spec.title for name, layer in all_layers().items()}
AIO, PSYNC, DIRECT = "--ioengine=libaio", "--ioengine=psync", "--direct=1"
FILE_BYTES = 512 * MIB
WIDTH = 100
# Each alone, and all together, well below what any disk made since 2010 can do.
JOBS = (
    (DIRECT, AIO, "--rw=randread", "--bs=4k", "--iodepth=4", "--rate_iops=400"),
    (DIRECT, AIO, "--rw=randwrite", "--bs=8k", "--iodepth=4", "--rate_iops=150"),
    (DIRECT, AIO, "--rw=read", "--bs=256k", "--iodepth=2", "--rate=20m"),
    (PSYNC, "--rw=write", "--bs=64k", "--rate=8m"),
    (PSYNC, "--rw=randread", "--bs=16k", "--rate_iops=100"),
    (PSYNC, "--rw=randrw", "--rwmixread=70", "--bs=32k", "--rate_iops=70,30", "--fsync=32"),
)


def idle(_: Stage, seconds: float) -> None:
    """Do nothing."""
    time.sleep(seconds)  # the length of it, not a wait for something


def mixed(made: Stage, seconds: float) -> None:
    """Start jobs one after another, each on a file of its own; all run to the end."""
    for number, options in enumerate(JOBS):
        made.fio(f"--filename={made.folder}/job{number}", f"--size={FILE_BYTES}", *options)
        time.sleep(seconds / 2 / len(JOBS))
    time.sleep(seconds / 2)


def prepare(made: Stage) -> None:
    """Write the jobs' files before the recording begins."""
    for number in range(len(JOBS)):
        fill(made.folder / f"job{number}", FILE_BYTES)
    time.sleep(10)  # for what the disk does on its own afterwards


def main(arguments: list[str] | None = None) -> int:
    """Record and judge both; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="of each of the two")
    parser.add_argument("--keep", type=Path, help="folder for the recordings")
    parser.add_argument("--only", choices=("idle", "mixed"))
    chosen = parser.parse_args(arguments)
    said = 0
    for name, play in (("idle", idle), ("mixed", mixed)):
        if chosen.only not in {None, name}:
            continue
        with tempfile.TemporaryDirectory(prefix="ioh-", dir="/var/tmp") as folder:
            keep = chosen.keep or Path(folder)
            keep.mkdir(parents=True, exist_ok=True)
            with stage(Path(folder) / "stage", keep / f"{name}.ioh") as made:
                if play is mixed:
                    prepare(made)
                made.record()
                play(made, chosen.minutes * 60)
            said += tell(name, keep / f"{name}.ioh")
    return min(said, 1)


def tell(name: str, path: Path) -> int:
    """Print each finding of a recording with its evidence; returns the number of findings."""
    intervals, _ = judged_recording(path)
    spans = finding_spans(intervals)
    print(f"{name}: {len(spans)} findings; load average {os.getloadavg()[1]:.1f}", flush=True)
    for span in spans:
        print("\n".join(render_headline(span.finding, WIDTH)))
        print(render_times(span.begin_unix_s, span.end_unix_s, utc=False))
        print("\n".join(render_evidence(span.finding, TITLES, WIDTH, utc=False)), flush=True)
    return len(spans)


if __name__ == "__main__":
    sys.exit(main())
