"""Writes screenshots/text.txt: what ``ioh text`` shows of a real fio run; needs root and fio.

Usage: sudo .venv/bin/python tests/make_screenshots.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
SECONDS = 4
TAIL = ["text", "-t", str(SECONDS), "-d", "hist,histsz,topfile"]


def fio(directory: str, name: str, *options: str) -> subprocess.Popen[bytes]:
    """Start one load that lasts as long as ioh looks."""
    common = [f"--directory={directory}", "--time_based", f"--runtime={SECONDS + 3}"]
    return subprocess.Popen(["fio", f"--name={name}", *common, *options], stdout=subprocess.DEVNULL)


def main() -> int:
    """Run a database-like mix and keep the last block of text."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        loads = [
            fio(
                directory,
                "tables",
                "--rw=randread",
                "--bs=8k",
                "--size=512m",
                "--direct=1",
                "--ioengine=libaio",
                "--iodepth=16",
            ),
            fio(directory, "log", "--rw=write", "--bs=16k", "--size=64m", "--fdatasync=1"),
        ]
        shown = subprocess.run(
            [sys.executable, "-m", "ioh", *TAIL], cwd=REPO, capture_output=True, check=True
        ).stdout.decode()
        for load in loads:
            load.wait()
    blocks = shown.split("\n\n")
    target = REPO / "screenshots" / "text.txt"
    target.parent.mkdir(exist_ok=True)
    target.write_text(f"$ ioh {' '.join(TAIL)}\n{blocks[-1].strip() or blocks[-2].strip()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
