"""Write requirements.lock: what ./ioh.sh installs from PyPI, with the hashes of all its wheels.

Run it with the oldest Python that ioh supports, so that packages which only that one needs are
included.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBCS = ("manylinux2014", "manylinux_2_17", "manylinux_2_26", "manylinux_2_27", "manylinux_2_28")
HEAD = """\
# What ./ioh.sh installs from PyPI: wheels of these versions with these hashes, and nothing else.
# For Python 3.10 to 3.14 on x86_64 and aarch64.  Renewed after a change of pyproject.toml with:
#   python3.10 tests/make_lock.py
"""


def dependencies(python: str) -> list[str]:
    """Dependencies in pyproject.toml for one Python; the only marker there is for 3.10."""
    text = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert block, "no dependencies in pyproject.toml"
    wanted = re.findall(r'^ *"([^";]*)(;[^"]*)?"', block[1], re.MULTILINE)
    return [name for name, marker in wanted if not marker or python == PYTHONS[0]]


def resolved(python: str, machine: str) -> list[dict[str, object]]:
    """What pip would install for this Python on this machine."""
    tags = [word for glibc in GLIBCS for word in ("--platform", f"{glibc}_{machine}")]
    done = subprocess.run(
        [sys.executable, "-I", "-m", "pip", "install", "--dry-run", "--ignore-installed",
         "--quiet", "--report", "-", "--only-binary", ":all:", "--implementation", "cp",
         "--python-version", python, *tags, "--target", "/nonexistent", *dependencies(python)],
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    installed: list[dict[str, object]] = json.loads(done.stdout)["install"]
    return installed


def lock() -> str:
    """The contents of requirements.lock."""
    hashes: dict[tuple[str, str], set[str]] = defaultdict(set)
    pythons: dict[tuple[str, str], set[str]] = defaultdict(set)
    for python in PYTHONS:
        for machine in MACHINES:
            for found in resolved(python, machine):
                told: dict[str, dict[str, str]] = found  # type: ignore[assignment]
                name = re.sub(r"[-_.]+", "-", told["metadata"]["name"]).lower()
                key = name, told["metadata"]["version"]
                archive: dict[str, dict[str, str]] = told["download_info"]["archive_info"]  # type: ignore[assignment]
                hashes[key].add(archive["hashes"]["sha256"])
                pythons[key].add(python)
    entries = [
        [f"{name}=={version}{marker(pythons[name, version])}"]
        + [f"    --hash=sha256:{value}" for value in sorted(hashes[name, version])]
        for name, version in sorted(hashes)
    ]
    return HEAD + "".join(" \\\n".join(entry) + "\n" for entry in entries)


def marker(which: set[str]) -> str:
    """The marker for consecutive Pythons; the newest also stands for later ones."""
    numbers = sorted(PYTHONS.index(python) for python in which)
    bounds = [f'python_version >= "{PYTHONS[numbers[0]]}"'] * (numbers[0] > 0)
    if numbers[-1] + 1 < len(PYTHONS):
        bounds.append(f'python_version < "{PYTHONS[numbers[-1] + 1]}"')
    return f"; {' and '.join(bounds)}" if bounds else ""


if __name__ == "__main__":
    (ROOT / "requirements.lock").write_text(lock())
