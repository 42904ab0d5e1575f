"""tests/vm/run.sh with several kernels: beside each other, told apart, ended together."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.run_stage import Stage


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
    status, said = stage.run("--test-vm", KERNEL="6.1 newest:short")
    assert status == 0
    assert said[2:] == [
        "== tests in a virtual machine, Linux 6.1",
        "this is 6.1",
        "== tests in a virtual machine, Linux newest:short",
        "this is newest:short",
        f"passed: {', '.join(said[n].removeprefix('== ') for n in (2, 4))}",
    ]


def test_one_failure_fails_the_run(stage: Stage) -> None:
    stage.program("ioh.sh", '[ "$KERNEL" != 6.12 ]')
    status, said = stage.run("--test-vm", KERNEL="6.1 6.12 5.10")
    assert (status, said[-1]) == (1, "FAILED: tests in a virtual machine, Linux 6.12")


def test_a_signal_ends_all_machines(stage: Stage) -> None:
    stage.program(
        "ioh.sh",
        'trap \': >"ended-$KERNEL"; exit\' TERM\n: >"began-$KERNEL"; while :; do sleep 0.1; done',
    )
    with stage.start("--test-vm", KERNEL="6.1 6.12") as running:
        stage.wait_for("began-6.1", "began-6.12")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=20)
    assert running.returncode == 128 + signal.SIGTERM
    assert (stage.where / "ended-6.1").exists()
    assert (stage.where / "ended-6.12").exists()
