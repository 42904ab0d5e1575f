"""ioh.sh on made-up machines: every program that it runs or installs with is a fake."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import ROOT, Machine

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


UNIT_TESTS = "python -m pytest -n auto --dist worksteal tests/unit"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_scripts_are_plain_sh() -> None:
    for script in (ROOT / "ioh.sh", ROOT / "contrib/install.sh", *(ROOT / "tests").rglob("*.sh")):
        assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
        text = script.read_text()
        assert not re.search(r"(?m)^\s*(local|function) |\[\[ |<<<|\$'|&>", text), script


def test_the_first_use_says_what_it_does_and_runs_ioh(machine: Machine) -> None:
    machine.bcc.unlink()
    status, said = machine.run("text", "-c", "1")
    assert status == 0
    assert said[0] == "ioh.sh: installing with apt-get: python3-bpfcc"
    assert said[1].startswith("ioh.sh: fetching the lists of packages")
    made = (
        r"ioh.sh: creating .*/\.venv with Python 3\.11 and these packages from PyPI,"
        r" in about a minute: .*"
    )
    assert re.fullmatch(made, said[2])
    assert len(said) == 3
    assert machine.calls[-1] == "python -I -m ioh text -c 1"
    assert machine.litter == []


def test_only_new_dependencies_or_a_move_make_a_new_environment(machine: Machine) -> None:
    machine.run()
    assert machine.run("json", "a b", "*") == (0, [])
    assert machine.calls == ["python -I -m ioh json a b *"]
    script = (machine.checkout / ".venv/bin/script").read_text()
    assert script == f"#!{machine.checkout}/.venv/bin/python\n"
    project = machine.checkout / "pyproject.toml"
    project.write_text(project.read_text().replace("line-length = 100", "line-length = 99"))
    assert machine.run() == (0, [])
    project.write_text(project.read_text().replace('"numpy>=1.23"', '"numpy>=9"'))
    _, said = machine.run()
    assert "numpy>=9" in said[0].split()
    assert machine.run() == (0, [])
    moved = machine.checkout.with_name("moved")
    machine.checkout.rename(moved)
    machine.checkout = moved
    _, said = machine.run()
    assert f"creating {moved}/.venv" in said[0]
    machine.bcc.unlink()
    _, said = machine.run()
    assert said[0] == "ioh.sh: installing with apt-get: python3-bpfcc"
    assert not any("-m venv" in call for call in machine.calls)


def test_it_reads_its_dependencies_as_pip_would(machine: Machine) -> None:
    machine.run("--setup")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = machine.checkout / "requirements.lock"
    locked = f" --ignore-installed --only-binary :all: --require-hashes -r {lock}"
    installs = [call for call in machine.calls if "pip install" in call]
    assert [call.endswith(locked) for call in installs] == [True]
    machine.run("--lint")
    installs = [call for call in machine.calls if "pip install" in call]
    dev = project["optional-dependencies"]["dev"]
    assert installs[0].endswith(locked)
    assert installs[1].endswith(" --only-binary :all: " + " ".join(dev))
    assert len(installs) == 2
    assert not any(name.startswith("bcc") for name in project["dependencies"] + dev)


def test_without_pypi_the_distributions_packages_are_used(machine: Machine) -> None:
    _, said = machine.run("--setup", PIP_ERROR="Temporary failure in name resolution")
    installs = [call for call in machine.calls if "pip install" in call]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert installs[-1].endswith(" --no-index " + " ".join(project["dependencies"]))
    assert "no network" in said[-1]


def test_the_lock_file_has_what_the_project_needs() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    entries = lock.replace(" \\\n", " ").splitlines()
    entries = [entry for entry in entries if not entry.startswith("#")]
    assert all(
        re.match(r"[a-z0-9-]+==[0-9.]+(; [^-]*)? +--hash=sha256:", entry) for entry in entries
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for wanted in project["dependencies"]:
        name, relation, version = re.split("(==|>=)", wanted.partition(";")[0])
        locked = re.findall(rf"(?m)^{name}==([0-9.]+)", lock)
        numbers = [tuple(map(int, text.split("."))) for text in locked]
        least = tuple(map(int, version.partition(",")[0].split(".")))
        assert numbers, name
        assert all(each >= least if relation == ">=" else each == least for each in numbers)


def test_an_old_python_is_refused_in_one_line_and_nothing_is_installed(machine: Machine) -> None:
    status, said = machine.run(PYTHON="3.9")
    assert status == 1
    assert len(said) == 1
    assert "Python 3.9 is too old" in said[0]
    assert "IOH_PYTHON" in said[0]
    assert machine.calls == []
    assert machine.litter == []
    (machine.fakes / "python3").unlink()
    status, said = machine.run(APT_PYTHON="3.9.2-3")  # the distribution has no other
    assert status == 1
    assert "Python 3.9 is too old" in said[-1]
    assert not any(" install " in call for call in machine.calls)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full; free some space"),
        ("Temporary failure in name resolution", "no network, or a proxy is needed"),
        ("CERTIFICATE_VERIFY_FAILED] certificate verify failed", "TLS certificate is not trusted"),
        ("ERROR: odd thing", "ERROR: odd thing (full log: "),
    ],
)
def test_a_failed_download_is_reported_in_one_line_and_leaves_nothing(
    machine: Machine, error: str, cause: str
) -> None:
    status, said = machine.run(PIP_ERROR=error)
    assert status == 1
    assert len(said) == 2
    assert said[1].startswith("ioh.sh: cannot install what ioh needs from PyPI: ")
    assert cause in said[1]
    assert len(machine.litter) == ("full log" in cause)  # the log that the message names
    assert not (machine.checkout / ".venv").exists()


def test_it_runs_without_bpf_if_the_package_is_not_available(machine: Machine) -> None:
    machine.bcc.unlink()
    status, said = machine.run(APT_ERROR="E: Unable to locate package python3-bpfcc")
    assert status == 0
    assert any(line.startswith("ioh.sh: no BPF: apt-get install python3-bpfcc") for line in said)
    assert machine.run() == (0, [])  # and does not try each time


@pytest.mark.parametrize("sudo", [False, True])
def test_a_user_without_sudo_has_no_bpf_until_root_installs_it(
    machine: Machine, sudo: bool
) -> None:
    machine.bcc.unlink()
    status, said = machine.run(UID="1000")
    assert status == 0
    assert said[0] == "ioh.sh: no BPF: root is needed: apt-get install python3-bpfcc"
    assert machine.calls[-1] == "python -I -m ioh"
    assert machine.run(UID="1000") == (0, [])
    who: dict[str, Any] = {"UID": "1000", "SUDO": "1"} if sudo else {}
    _, said = machine.run(**who)
    assert said[0] == "ioh.sh: installing with apt-get: python3-bpfcc"
    assert any(call.startswith("sudo -- env DEBIAN_FRONTEND") for call in machine.calls) == sudo
    assert machine.run(**who) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "through_sudo"),
    [
        ([], True),
        (["text", "--comm", "recording"], True),
        (["doctor"], True),
        (["json", "-"], False),
        (["record", "-o", "-"], True),
        (["bench", "."], True),
        (["bench", "--plans"], False),
        (["replay", "recording"], False),
        (["text", "sample"], False),
        (["json", "demo"], False),
        (["text", "--comm", "sample"], True),
        (["mark", "now"], False),
        (["text", "--help"], False),
        (["other"], False),
    ],
)
def test_it_uses_sudo_only_to_measure_this_machine(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, arguments: list[str], through_sudo: bool
) -> None:
    monkeypatch.chdir(machine.checkout.parent)
    Path("recording").touch()
    machine.run("--setup")
    assert machine.run(*arguments, UID="1000", SUDO="1") == (0, [])
    assert machine.calls[0].startswith("sudo -- ") == through_sudo
    assert machine.calls[-1].endswith(" ".join(["-m ioh", *arguments]))


@pytest.mark.parametrize(("uid", "compiles"), [("0", True), ("1000", False)])
def test_set_up_as_root_compiles_the_probes(machine: Machine, uid: str, *, compiles: bool) -> None:
    machine.run("--setup", UID=uid)
    assert ("python -I -m ioh.commands.prepare" in machine.calls) == compiles
    machine.run("--version", UID=uid)
    assert "python -I -m ioh.commands.prepare" not in machine.calls


def test_fio_is_installed_at_the_first_bench_and_only_then(machine: Machine) -> None:
    machine.hide_the_rest()
    machine.run("--setup")
    (machine.fakes / "fio").unlink()
    assert machine.run("text") == (0, [])
    assert machine.run("bench", "--plans") == (0, [])
    status, said = machine.run("bench", "/mnt")
    assert (status, said[0]) == (0, "ioh.sh: installing with apt-get: fio")
    assert machine.calls[-1] == "python -I -m ioh bench /mnt"
    status, said = machine.run("bench", "/mnt", UID="1000")
    assert (status, said) == (1, ["ioh.sh: root is needed: apt-get install fio"])


def test_a_users_display_settings_are_passed_through_sudo(machine: Machine) -> None:
    machine.run("--setup")
    machine.environment |= {"NO_COLOR": "1", "PAD": "a b"}
    assert machine.run(UID="1000", SUDO="1") == (0, [])
    assert machine.calls[0].startswith("sudo -- env PAD=a b NO_COLOR=1 ")
    assert machine.calls[-1].endswith("-m ioh")


def test_two_first_uses_at_once_make_one_environment(machine: Machine) -> None:
    machine.log.write_text("")
    both = [machine.start("text", SLEEP="0.5") for _ in range(2)]
    messages = [process.communicate(timeout=30)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("-m venv" in call for call in machine.calls) == 1
    assert sum("waiting for the setup of another ioh.sh" in message for message in messages) == 1
    assert sum(call == "python -I -m ioh text" for call in machine.calls) == 2
    assert machine.litter == []


@pytest.mark.parametrize(
    ("fault", "status", "last", "calls"),
    [
        (
            {"NO_BPF": "not root"}, 0,
            ", unit tests, fuzzer. THE KERNEL TESTS DID NOT RUN: not root",
            [UNIT_TESTS, "python -m tests.fuzz 60 1"],
        ),
        ({}, 0, ", fuzzer, kernel tests", ["python -m pytest tests/kernel"]),
        ({"RUFF": "1"}, 1, "ioh.sh: FAILED: ruff check", ["python -m pytest tests/kernel"]),
        ({"PYTEST": "5"}, 1, "FAILED: unit tests, kernel tests", []),  # none was collected
    ],
)  # fmt: skip
def test_failed_and_skipped_checks_are_named_last_and_the_rest_runs(
    machine: Machine, fault: dict[str, Any], status: int, last: str, calls: list[str]
) -> None:
    ended, said = machine.run("--test", **fault)
    assert ended == status
    assert said[-1].endswith(last)
    assert machine.calls[len(machine.calls) - len(calls) :] == calls


def test_rhel_gets_a_newer_python_beside_its_own(machine: Machine) -> None:
    (machine.fakes / "apt-get").unlink()
    machine.add("dnf")
    machine.bcc.unlink()
    machine.hide_the_rest()
    status, said = machine.run("text", PYTHON="3.9")
    assert status == 0
    assert said[0] == "ioh.sh: installing with dnf: python3.12 python3-bcc"
    assert "with Python 3.12" in said[1]
    assert machine.run("text", PYTHON="3.9") == (0, [])


def test_on_an_unknown_distribution_it_says_what_to_install(machine: Machine) -> None:
    (machine.fakes / "apt-get").unlink()
    (machine.fakes / "python3").unlink()
    machine.bcc.unlink()
    machine.hide_the_rest()
    status, said = machine.run()
    assert status == 1
    assert said == [
        "ioh.sh: no apt-get, dnf or zypper here: install python3 python3-pip python3-bcc yourself"
    ]


def test_a_machine_without_python_gets_that_of_the_distribution(machine: Machine) -> None:
    (machine.fakes / "python3").unlink()
    machine.bcc.unlink()
    status, said = machine.run("text")
    assert status == 0
    assert "ioh.sh: installing with apt-get: python3 python3-venv python3-bpfcc" in said
    assert "with Python 3.11" in said[-1]


def test_root_uses_only_programs_and_libraries_of_the_system(
    machine: Machine, tmp_path: Path
) -> None:
    """If sudo keeps the caller's PATH, nothing from it runs; nor does it as an ordinary user."""
    machine.run("--setup")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    mark = tmp_path / "mark"
    for name in ("id", "cksum", "stat", "find", "sudo", "python3", "sed", "dirname", "readlink"):
        (theirs / name).write_text(f"#!/bin/sh\necho {name} >>'{mark}'\n")
        (theirs / name).chmod(0o755)
    (machine.checkout / ".venv/bin/python").write_text(f"#!/bin/sh\nenv >'{tmp_path}/env'\n")
    machine.environment["PATH"] = f"{theirs}:{machine.environment['PATH']}"
    libraries = {"LD_PRELOAD": "", "LD_LIBRARY_PATH": str(theirs), "LD_AUDIT": ""}
    machine.environment |= {**libraries, "GCONV_PATH": str(theirs), "PYTHONPATH": str(theirs)}
    assert machine.run("text") == (0, [])
    assert not mark.exists()
    passed_on = (tmp_path / "env").read_text()
    assert not re.findall("(?m)^(?:LD_|GCONV_PATH).*", passed_on)
    assert str(theirs) not in re.findall("(?m)^PATH=.*", passed_on)[0]


@pytest.mark.parametrize(("mode", "is_said"), [(0o755, False), (0o777, True), (0o1777, False)])
def test_root_is_warned_if_others_can_change_what_it_runs(
    machine: Machine, mode: int, is_said: bool
) -> None:
    machine.run("--setup")
    machine.checkout.chmod(mode)
    _, said = machine.run("text")
    assert said == [line for line in said if "others can change (everybody)" in line]
    assert bool(said) == is_said
    assert machine.run("text", UID="1000") == (0, [])
