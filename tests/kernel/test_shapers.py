"""Shapers as the kernel tells of them, beside what tc was asked for."""

from __future__ import annotations

import json
import sys

import pytest

from tests.kernel.netns import Namespace
from tests.kernel.rig import ROOT

READ = "import json; from ioh.procfs.network import read_shapers; print(json.dumps(read_shapers()))"


@pytest.mark.parametrize(("asked", "bits_per_s"), [("80mbit", 80e6), ("50gbit", 50e9)])
def test_the_rate_of_a_tbf(
    pair: tuple[Namespace, Namespace], asked: str, bits_per_s: float
) -> None:
    one, _ = pair
    program = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-c", READ)
    assert json.loads(one.run(*program)) == {}
    one.run("tc", "qdisc", "add", "dev", "ioh0", "root", "tbf", "rate", asked, "burst", "1m",
            "latency", "50ms")  # fmt: skip
    assert json.loads(one.run(*program)) == {"ioh0": bits_per_s}
