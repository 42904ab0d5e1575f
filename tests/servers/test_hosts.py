"""`ioh json --host` through a real sshd: hosts lost and found again, and nothing left there."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kernel.rig import Reader, ioh_command, ioh_environment
from tests.servers.sshd import Sshd

ROOT = Path(__file__).parents[2]
THERE = f"env PYTHONPATH={ROOT} {shlex.join(ioh_command()).replace(' -I ', ' ')}"
WAIT_S = 60.0
States = dict[str, dict[str, Any]]
CYCLE = "0.53125"  # nobody else's


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path) as made:
        yield made


class Hosts:
    """`ioh json` of db01 and nfs01 as it runs; a context manager."""

    def __init__(self, sshd: Sshd, *names: str) -> None:
        words = [word for name in names or ("db01", "nfs01") for word in ("--host", name)]
        command = ioh_command("json", *words, "--remote-command", THERE, "--proc", "-c", CYCLE)
        pipe = subprocess.PIPE
        environment = {**ioh_environment(), **sshd.environment}
        self.process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, env=environment, cwd=ROOT
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._output = Reader(self.process.stdout.fileno())
        self.messages = Reader(self.process.stderr.fileno())
        self._output.start()
        self.messages.start()
        self._seen = 0

    def __enter__(self) -> Hosts:  # noqa: PYI034 (Self came with Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(10)
        for reader in (self._output, self.messages):
            reader.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def wait_until(
        self, holds: Callable[[dict[str, dict[str, Any]]], bool]
    ) -> list[dict[str, Any]]:
        """The lines from the last time on, up to a state of all hosts that is as wanted."""
        lines = []
        while True:
            self._output.wait_for(self._seen + 1, WAIT_S)
            line = json.loads(self._output.lines[self._seen])
            self._seen += 1
            lines.append(line)
            if not line["host"] and holds({host["name"]: host for host in line["hosts"]}):
                return lines


def are_here(states: States) -> bool:
    return all(state["is_here"] for state in states.values())


def are_lost(states: States) -> bool:
    return not any(state["is_here"] for state in states.values())


def far_ends() -> list[psutil.Process]:
    """What runs at the other end: for each host ioh and the shell that tells the clock."""
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if {"record", CYCLE} <= set(each.info["cmdline"] or ())]


def wait_for_no_far_ends() -> None:
    deadline = time.monotonic() + 10
    while far_ends():
        assert time.monotonic() < deadline, far_ends()
        time.sleep(0.1)


def test_two_hosts_through_ssh(sshd: Sshd) -> None:
    with Hosts(sshd) as ioh:
        for _ in range(3):
            states = {host["name"]: host for host in ioh.wait_until(are_here)[-1]["hosts"]}
        assert len(far_ends()) == 4
        for state in states.values():
            assert abs(state["clock_offset_s"]) <= state["clock_error_s"] < 0.05
        ioh.process.send_signal(signal.SIGTERM)
        assert ioh.process.wait(10) == 0
    wait_for_no_far_ends()


def test_nothing_is_left_there_when_ioh_is_killed(sshd: Sshd) -> None:
    with Hosts(sshd) as ioh:
        ioh.wait_until(are_here)
        ioh.process.kill()
    wait_for_no_far_ends()
    assert not sshd.sessions


def test_a_restart_of_sshd_leaves_a_gap_and_no_more(sshd: Sshd) -> None:
    with Hosts(sshd) as ioh:
        ioh.wait_until(are_here)
        sshd.stop()
        (lost,) = ioh.wait_until(are_lost)[-1:]
        assert all(host["lost_s"] > 0 and host["why"] for host in lost["hosts"])
        assert not [line for line in ioh.wait_until(are_lost) if line["host"]]
        sshd.start()
        back = ioh.wait_until(are_here)
        intervals = [line for line in back if line["host"]]
        assert {line["host"]["name"] for line in intervals} == {"db01", "nfs01"}
        assert all(line["interval_s"] < 3 for line in intervals)  # the gap is none of it
    wait_for_no_far_ends()


def test_a_connection_that_is_silent_is_lost_and_comes_back(sshd: Sshd) -> None:
    with Hosts(sshd) as ioh:
        ioh.wait_until(are_here)
        sshd.send(signal.SIGSTOP)
        (lost,) = ioh.wait_until(are_lost)[-1:]
        assert all("nothing comes" in host["why"] for host in lost["hosts"])
        sshd.send(signal.SIGCONT)
        ioh.wait_until(are_here)
    wait_for_no_far_ends()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stranger", b"ioh: stranger: Host key verification failed. Try: ssh -o BatchMode"),
        ("keyless", b"Permission denied (publickey"),
        ("no.such.host.invalid", b"Could not resolve hostname no.such.host.invalid"),
    ],
)
def test_what_ssh_refuses_is_said_in_its_words(sshd: Sshd, name: str, said: bytes) -> None:
    with Hosts(sshd, name) as ioh:
        assert ioh.process.wait(30) == 1
        ioh.messages.join(5)
        (line,) = ioh.messages.lines
        assert said in line
