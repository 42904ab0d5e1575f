"""Hosts that lack or refuse something: ioh says what and why in one line, and goes on with less."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kernel.mounts import with_own_sys
from tests.kernel.rig import ROOT, ended, ioh_command

JSON = ("json", "-c", "0.3", "-t", "0.6")
# Runs a command in which bpf(2) answers EPERM, as a container's seccomp profile makes it.
REFUSE_BPF = """
import ctypes, os, platform, struct, sys
number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
program = b"".join(struct.pack("=HBBI", *line) for line in code)
buffer = ctypes.create_string_buffer(program)
filter_ = ctypes.create_string_buffer(
    struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(buffer)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter_, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
CAPABILITIES = ("--bounding-set", "-sys_admin,-bpf,-perfmon", "--inh-caps", "-all")
Done = subprocess.CompletedProcess[str]


def ioh(command: Sequence[str], cwd: Path = ROOT, **environment: str) -> Done:
    return ended(*command, cwd=cwd, env={**os.environ, **environment})


def ioh_with(folder: Path, module: str, text: str, *words: str) -> Done:
    """Run an ioh that finds this module first; for that it cannot be isolated, unlike a user's."""
    (folder / f"{module}.py").write_text(text)
    return ioh([sys.executable, "-m", "ioh", *words], PYTHONPATH=f"{folder}:{ROOT}")


def layers(done: Done) -> dict[str, dict[str, Any]]:
    """Layers of the last interval; ioh must have succeeded without a message."""
    assert (done.stderr, done.returncode) == ("", 0)
    told: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["layers"]
    return told


def assert_proc_because(done: Done, reason: str) -> None:
    """Every layer comes from /proc, and a note gives the reason."""
    found = layers(done).values()
    assert {layer["source"] for layer in found} == {"proc"}
    assert reason in " ".join(note for layer in found for note in layer["notes"])


@pytest.fixture
def copy(folder: Path) -> Path:
    """ioh where everybody can read it, unlike a checkout below /root; /proc needs only psutil."""
    shutil.copytree(ROOT / "ioh", folder / "ioh")
    shutil.copytree(Path(psutil.__file__).parent, folder / "psutil")
    return folder


def test_without_root_layers_come_from_proc(copy: Path) -> None:
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    done = ioh([*nobody, "/usr/bin/python3", "-m", "ioh", *JSON], copy)
    assert_proc_because(done, "BPF needs root: start with sudo")
    assert layers(done)["block"]["ops"]["read"]["count"] is not None


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (
            "raise ImportError('No module named bcc')\n",
            "bcc cannot be imported: No module named bcc",
        ),
        ("", "PyPI's bcc"),
    ],
    ids=["none", "another"],
)
def test_without_bcc_layers_come_from_proc(tmp_path: Path, module: str, reason: str) -> None:
    assert_proc_because(ioh_with(tmp_path, "bcc", module, *JSON), reason)
    if module:
        doctor = ioh_with(tmp_path, "bcc", module, "doctor")
        assert "apt-get install python3-bpfcc" in doctor.stdout
        assert (doctor.returncode, doctor.stderr) == (3, "")


@pytest.mark.parametrize(
    ("wrap", "reason"),
    [
        pytest.param(
            with_own_sys("mount -t tmpfs none /sys/kernel/btf"),
            "no readable BTF at /sys/kernel/btf/vmlinux",
            id="no BTF",
        ),
        pytest.param([sys.executable, "-c", REFUSE_BPF], "BPF refused", id="BPF refused"),
        pytest.param(["setpriv", *CAPABILITIES], "BPF needs root", id="no capabilities"),
    ],
)
def test_without_bpf_layers_come_from_proc(wrap: list[str], reason: str) -> None:
    assert_proc_because(ioh([*wrap, *ioh_command(*JSON)]), reason)


def test_tracefs_is_not_needed() -> None:
    wrap = with_own_sys("umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null || true")
    found = layers(ioh([*wrap, *ioh_command(*JSON)])).values()
    assert {layer["source"] for layer in found} == {"bpf"}


def test_a_missing_library_is_reported_in_one_line(tmp_path: Path) -> None:
    text = "raise ImportError('No module named psutil')\n"
    done = ioh_with(tmp_path, "psutil", text, "json", "-t", "1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "psutil" in done.stderr
