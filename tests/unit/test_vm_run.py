"""tests/vm/run.sh with several kernels: beside each other, told apart, ended together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What ioh.sh has ready when it sources tests/run.sh.
LAUNCHER = """
root=$PWD venv=$PWD/none foreign=
say() { printf '%s\\n' "$*"; }
die() { say "$*"; exit 1; }
give_back() { :; }
need_programs() { :; }
set -- --test-vm
. "$root/tests/run.sh"
"""


class Stage:
    """A checkout in which the launcher of each machine is a script of the test's own."""

    def __init__(self, where: Path) -> None:
        self.where = where
        (where / "tests").symlink_to(ROOT / "tests")
        self.program("nproc", "echo 2")

    def program(self, name: str, script: str) -> None:
        path = self.where / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self, kernels: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            # Under nohup and the like a signal that is ignored cannot be trapped.
            ["env", "--default-signal=INT,TERM", "sh", "-euc", LAUNCHER],
            cwd=self.where,
            env={**os.environ, "KERNEL": kernels, "PATH": f"{self.where}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, *names: str) -> None:
        deadline = time.monotonic() + 20
        while not all((self.where / name).exists() for name in names):
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_two_machines_run_at_once(stage: Stage) -> None:
    # Each ends only when the other has begun.
    stage.program(
        "ioh.sh",
        'echo "this is $KERNEL"; : >"began-$KERNEL"\n'
        "until [ -e began-6.1 ] && [ -e began-newest:short ]; do sleep 0.01; done",
    )
    with stage.start("6.1 newest:short") as running:
        said, _ = running.communicate(timeout=20)
    assert running.returncode == 0
    assert said.splitlines()[2:] == [
        "== tests in a virtual machine, Linux 6.1",
        "this is 6.1",
        "== tests in a virtual machine, Linux newest:short",
        "this is newest:short",
        f"passed: {', '.join(said.splitlines()[n].removeprefix('== ') for n in (2, 4))}",
    ]


def test_one_failure_fails_the_run(stage: Stage) -> None:
    stage.program("ioh.sh", '[ "$KERNEL" != 6.12 ]')
    with stage.start("6.1 6.12 5.10") as running:
        said, _ = running.communicate(timeout=20)
    assert running.returncode == 1
    assert said.splitlines()[-1] == "FAILED: tests in a virtual machine, Linux 6.12"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_machines(stage: Stage, number: signal.Signals) -> None:
    stage.program(
        "ioh.sh",
        'trap \': >"ended-$KERNEL"; exit\' TERM\n: >"began-$KERNEL"; while :; do sleep 0.1; done',
    )
    with stage.start("6.1 6.12") as running:
        stage.wait_for("began-6.1", "began-6.12")
        running.send_signal(number)
        running.communicate(timeout=20)
    assert running.returncode == 128 + number
    assert (stage.where / "ended-6.1").exists()
    assert (stage.where / "ended-6.12").exists()


def test_an_unknown_set_of_tests_is_an_error(stage: Stage) -> None:
    with stage.start("6.1:everything") as running:
        said, _ = running.communicate(timeout=20)
    assert running.returncode == 1
    assert "VM_TESTS: all, short or kernel, not everything" in said
