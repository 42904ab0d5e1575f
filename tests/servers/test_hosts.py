"""`ioh json --host` through a real sshd: hosts are lost and come back, and nothing stays there.

Also `ioh deploy`, into the home of a temporary user.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ioh.model.errors import ExitCode
from tests.kernel.rig import ROOT, ended, ioh_command, ioh_environment, run
from tests.kernel.talker import Running, wait_until
from tests.servers.sshd import Sshd

THERE = f"env PYTHONPATH={ROOT} {shlex.join(ioh_command()).replace(' -I ', ' ')}"
WAIT_S = 60.0
States = dict[str, dict[str, Any]]
CYCLE = "0.53125"  # no other process has it


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path) as made:
        yield made


class Hosts(Running):
    """`ioh json` of db01 and nfs01 as it runs; a context manager."""

    def __init__(self, sshd: Sshd, *names: str) -> None:
        words = [word for name in names or ("db01", "nfs01") for word in ("--host", name)]
        command = ioh_command("json", *words, "--remote-command", THERE, "--proc", "-c", CYCLE)
        super().__init__(command, env={**ioh_environment(), **sshd.environment}, cwd=ROOT)
        self._seen = 0

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)

    def wait_until(
        self, holds: Callable[[dict[str, dict[str, Any]]], bool]
    ) -> list[dict[str, Any]]:
        """The lines since the last call, up to a state of all hosts for which ``holds`` is true."""
        lines = []
        while True:
            self.output.wait_for(self._seen + 1, WAIT_S)
            line = json.loads(self.output.lines[self._seen])
            self._seen += 1
            lines.append(line)
            if not line["host"] and holds({host["name"]: host for host in line["hosts"]}):
                return lines


def are_here(states: States) -> bool:
    return all(state["is_here"] for state in states.values())


def are_lost(states: States) -> bool:
    return not any(state["is_here"] for state in states.values())


def far_ends() -> list[psutil.Process]:
    """Processes at the remote end: for each host ioh, and the shell that reports the clock."""
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if {"record", CYCLE} <= set(each.info["cmdline"] or ())]


def wait_for_no_far_ends() -> None:
    wait_until(lambda: not far_ends(), 10, why=far_ends)


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


def test_nothing_keeps_running_on_hosts_when_ioh_is_killed(sshd: Sshd) -> None:
    with Hosts(sshd) as ioh:
        ioh.wait_until(are_here)
        ioh.process.kill()
    wait_for_no_far_ends()
    wait_until(lambda: not sshd.sessions, 10, why=lambda: sshd.sessions)


def test_a_restart_of_sshd_leaves_only_a_gap(sshd: Sshd) -> None:
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
        assert all(line["interval_s"] < 3 for line in intervals)  # without the gap
    wait_for_no_far_ends()


def test_a_connection_that_is_silent_is_lost_and_comes_back(sshd: Sshd) -> None:
    with Hosts(sshd) as ioh:
        ioh.wait_until(are_here)
        sshd.send(signal.SIGSTOP)
        (lost,) = ioh.wait_until(are_lost)[-1:]
        assert all("no data" in host["why"] for host in lost["hosts"])
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
def test_an_error_of_ssh_is_shown_in_its_words(sshd: Sshd, name: str, said: bytes) -> None:
    with Hosts(sshd, name) as ioh:
        assert ioh.process.wait(30) == 1
        ioh.messages.join(5)
        (line,) = ioh.messages.lines
        assert said in line


@pytest.fixture
def guest() -> Iterator[str]:
    """A user of this machine with a home and no rights."""
    name = f"ioh-guest-{os.getpid()}"
    # "*" means that no password fits.  The account is not locked: sshd refuses locked ones.
    run("useradd", "--create-home", "--password", "*", "--shell", "/bin/sh", name)
    yield name
    run("userdel", "--remove", "--force", name)


@pytest.fixture
def far(guest: str) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run ioh here; db01 is a login as the guest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)

    def ioh(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**ioh_environment(), **server.environment}
        here = {"cwd": ROOT, "stdin": subprocess.DEVNULL}
        return ended(*ioh_command(*words), env=environment, timeout_s=300, **here)

    with Sshd(folder, guest) as server:
        yield ioh
    shutil.rmtree(folder)


@pytest.fixture
def sudo(guest: str) -> Iterator[Callable[[], None]]:
    """Let the guest run anything as root."""
    path = Path("/etc/sudoers.d", guest)

    def allow() -> None:
        path.write_text(f"{guest} ALL=(root) NOPASSWD: ALL\n")
        path.chmod(0o440)

    yield allow
    path.unlink(missing_ok=True)


def test_deploy_copies_ioh_to_a_host_without_it(
    far: Callable[..., subprocess.CompletedProcess[str]], guest: str, sudo: Callable[[], None]
) -> None:
    cache = Path("/home", guest, ".cache/ioh")

    def owners() -> set[int]:
        return {path.lstat().st_uid for path in [cache, *cache.rglob("*")]}

    def sources() -> dict[str, str]:
        told = far("json", "--host", "db01", "--layers", "block", "-t", "5", "-c", CYCLE)
        assert (told.returncode, told.stderr) == (0, "")
        last = [line for line in map(json.loads, told.stdout.splitlines()) if line["host"]][-1]
        assert last["host"]["name"] == "db01"
        return {name: layer["source"] for name, layer in last["layers"].items()}

    without = far("text", "--host", "db01", "-t", "1")
    assert without.returncode == ExitCode.UNAVAILABLE
    assert "Run: ioh deploy db01" in without.stderr
    asks = far("deploy", "db01")
    assert (asks.returncode, asks.stdout) == (ExitCode.USAGE, "")
    assert not cache.exists()

    made = far("deploy", "db01", "--yes")
    assert made.returncode == 0, made.stderr
    (copy,) = [path for path in cache.iterdir() if not path.is_symlink()]
    assert f"to {copy}\n" in made.stdout
    assert "you have neither root nor sudo -n there" in made.stdout
    assert (cache / "current").resolve() == copy
    assert owners() == {pwd.getpwnam(guest).pw_uid}
    assert sources() == {"block": "proc"}

    sudo()
    again = far("deploy", "db01", "--yes")
    assert again.returncode == 0, again.stderr
    assert "copies nothing" in again.stdout
    assert f"--remote-command 'sudo -n {copy}/ioh.sh'" in again.stdout
    assert sources() == {"block": "bpf"}
    assert owners() == {pwd.getpwnam(guest).pw_uid}
    wait_for_no_far_ends()
