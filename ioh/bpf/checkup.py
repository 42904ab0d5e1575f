"""Facts about BPF on this host, for ``ioh doctor``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ioh.bpf.libbpf import libbpf
from ioh.bpf.privileges import is_privileged
from ioh.bpf.syscall_numbers import SYSCALL_NUMBERS
from ioh.model.limits import lack_behind

_BCC_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class BpfFacts:
    """The facts, without any verdict.

    ``bcc`` is the distribution's version; None if it cannot be imported, with the reason in
    ``bcc_error``.  ``lockdown`` is the kernel's lockdown mode, None if the kernel has none.
    """

    machine: str
    is_root: bool
    is_privileged: bool
    knows_machine: bool
    btf_bytes: int | None
    has_libbpf: bool
    bcc: str | None
    bcc_error: str
    lockdown: str | None


def _lockdown() -> str | None:
    try:
        text = Path("/sys/kernel/security/lockdown").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"\[(.*?)\]", text)
    return found and found[1]


def _find_bcc() -> tuple[str | None, str]:
    """Import bcc in a separate process: it loads 100 MB of LLVM.

    Isolated and without our environment, so root does not import a stray ``bcc.py``.
    """
    script = "import bcc; bcc.BPF; print(getattr(bcc, '__version__', '?'))"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", script],
            cwd="/",
            env={"LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BCC_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode == 0:
        return done.stdout.strip(), ""
    lines = done.stderr.strip().splitlines()
    return None, lines[-1] if lines else "import failed"


def _has_libbpf() -> bool:
    try:
        libbpf()
    except OSError as error:
        if lack_behind(error) is not None:
            raise
        return False
    return True


def read_bpf_facts() -> BpfFacts:
    """Collect the facts."""
    version, error = _find_bcc()
    try:
        btf_bytes = Path("/sys/kernel/btf/vmlinux").stat().st_size
    except OSError:
        btf_bytes = None
    machine = os.uname().machine
    return BpfFacts(
        machine=machine,
        is_root=os.geteuid() == 0,
        is_privileged=is_privileged(),
        knows_machine=machine in SYSCALL_NUMBERS,
        btf_bytes=btf_bytes,
        has_libbpf=_has_libbpf(),
        bcc=version,
        bcc_error=error,
        lockdown=_lockdown(),
    )
