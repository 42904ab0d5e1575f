"""tests/chroot/run.sh and tests/vm/run.sh: what runs in parallel, what is printed, what is left."""

from __future__ import annotations

import platform
import signal
from pathlib import Path

import pytest

from tests.support.run_stage import Stage

MAKE, ENTER, FIRST_USE = (f"tests/chroot/{name}.sh" for name in ("make", "enter", "first_use"))
LITTER = "ioh-chroots.*"
HERE = platform.freedesktop_os_release().get("VERSION_CODENAME")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path)
    made.program(MAKE, 'mkdir "$2"')
    made.program("tests/vm/kernel.sh", "")
    made.program(FIRST_USE, 'mkdir "$2"')
    made.program(ENTER, 'cd "$1" && shift && echo "in ${PWD##*/}: $*"')
    return made


def test_every_suite_is_set_up_tested_and_removed(stage: Stage) -> None:
    status, said = stage.run("--test-distros")
    assert status == 0
    steps = [line.removeprefix("== ") for line in said if line.startswith("== ")]
    suites = ("bookworm", "trixie", "sid")
    assert steps == [
        *(f"{suite}: the launcher from nothing" for suite in suites),
        *(
            f"{suite}: {part}"
            for suite in suites
            for part in ("kernel tests", "unit tests", "probes for other kernels")
            if suite != HERE or part == "probes for other kernels"  # its tests ran already
        ),
    ]
    assert said[-1] == "passed: " + ", ".join(steps)
    assert "nice -n 19 ./ioh.sh --test -n auto tests/unit" in " ".join(said)
    assert not list(stage.where.glob(LITTER))


def test_one_failure_fails_the_run_and_the_others_go_on(stage: Stage) -> None:
    suite = "trixie" if HERE != "trixie" else "bookworm"
    stage.program(ENTER, f'case "$*" in *{suite}*tests/kernel*) exit 1 ;; esac')
    status, said = stage.run("--test-distros")
    assert (status, said[-1]) == (1, f"FAILED: {suite}: kernel tests")
    assert "== sid: probes for other kernels" in said


def test_only_root_can_make_a_chroot(stage: Stage) -> None:
    said = "only root can make a chroot: run sudo ./ioh.sh --test-distros"
    assert stage.run("--test-distros", FAKE_UID="1000") == (1, [said])


def test_a_signal_ends_what_runs_and_removes_the_chroots(stage: Stage) -> None:
    stage.program(
        ENTER,
        f'trap \': >"{stage.where}/ended"; exit\' TERM\n: >"{stage.where}/began"\n'
        "while :; do sleep 0.1; done",
    )
    with stage.start("--test-distros", "sleep", USERLAND="trixie") as running:
        stage.wait_for("began")
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=20)
    assert running.returncode == 128 + signal.SIGINT
    assert (stage.where / "ended").exists()
    assert not list(stage.where.glob(LITTER))


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
