"""The wheel holds the package and its probes, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_wheel_contains_the_probes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", str(tmp_path)], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("ioh-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for probe in (ROOT / "probes").rglob("*.[ch]"):
        assert f"ioh/probes/{probe.relative_to(ROOT / 'probes')}" in names
    assert "ioh/commands/__init__.py" in names
    assert "ioh/data/sample.ioh" in names
    assert not [name for name in names if not name.startswith(("ioh/", "ioh-"))]
