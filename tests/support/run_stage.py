"""Run tests/run.sh in a checkout in which the programs it runs are scripts of the test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.kernel.talker import wait_until

ROOT = Path(__file__).parents[2]
# What ioh.sh has defined when it sources tests/run.sh.
LAUNCHER = """
root=$PWD venv=$PWD/none foreign= uid=${FAKE_UID:-0}
say() { printf '%s\\n' "$*"; }
die() { say "$*"; exit 1; }
give_back() { :; }
need_programs() { :; }
. "$root/tests/run.sh"
"""


class Stage:
    """A checkout with the real shell scripts of ``tests`` and the programs that a test adds."""

    def __init__(self, where: Path) -> None:
        self.where = where
        for path in (ROOT / "tests").rglob("*.sh"):
            copy = where / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.symlink_to(path)
        self.program("nproc", "echo 2")

    def program(self, name: str, script: str) -> None:
        path = self.where / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        here = {"PATH": f"{self.where}:{os.environ['PATH']}", "TMPDIR": str(self.where)}
        return subprocess.Popen(
            # A shell cannot trap a signal that was ignored when it started, as under nohup.
            ["env", "--default-signal=INT,TERM", "sh", "-euc", LAUNCHER, "sh", *arguments],
            cwd=self.where, env={**os.environ, **here, **environment}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *arguments: str, **environment: str) -> tuple[int, list[str]]:
        """The exit status and the lines of output."""
        with self.start(*arguments, **environment) as running:
            said, _ = running.communicate(timeout=20)
        return running.returncode, said.splitlines()

    def wait_for(self, *names: str) -> None:
        wait_until(lambda: all((self.where / name).exists() for name in names), 20)
