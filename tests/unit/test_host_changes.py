"""A host whose CPUs go offline and come back, and one with thousands of parts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from ioh.model.derive import derive_host
from ioh.model.sample import LayerSample, OpTotals
from ioh.procfs.host import read_host
from ioh.session.encoder import LEFT_OUT
from tests.support import fakes
from tests.support.sessions import recorded, samples_of

MANY = 3000
# Number of CPUs, then ticks: user system idle.  The second CPU had been idle for days.
CPUS = [(2, 1000, 500, 90000000), (1, 1080, 520, 100100), (1, 1120, 540, 100140)]
CPUS += [(2, 1160, 560, 90000200)]


def test_a_cpu_that_goes_or_comes_makes_cpu_time_unknown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's own sum jumps by that CPU's idle time."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    readings = []
    for count, user, system, idle in CPUS:
        (tmp_path / "stat").write_text(f"cpu  {user} 0 {system} {idle} 10 0 0 0 0 0\n")
        monkeypatch.setattr(psutil, "cpu_count", lambda count=count: count)
        readings.append(read_host())
    shown = [derive_host(a, b, 1.0) for a, b in pairwise(readings)]
    assert [(stats.cpu_pct, stats.cpu_count) for stats in shown] == [
        (None, 1),
        (pytest.approx(60.0), 1),
        (None, 2),
    ]
    assert (shown[2].iowait_pct, shown[2].steal_pct) == (None, None)


def test_a_recording_says_that_it_leaves_out_some_of_very_many_parts() -> None:
    made = []
    for sample in fakes.first(3):
        layer = sample.layers["platter"]
        assert isinstance(layer, LayerSample)
        parts = {f"vd{at}": {"read": OpTotals(count_total=at)} for at in range(MANY)}
        made.append(replace(sample, layers={"platter": replace(layer, parts=parts)}))
    played = [sample.layers["platter"] for sample in samples_of(recorded(made))]
    assert len(played) == len(made)
    for sample, found in zip(made, played, strict=True):
        assert isinstance(found, LayerSample)
        assert found.ops == sample.layers["platter"].ops  # type: ignore[union-attr]
        assert 1000 < len(found.parts) < MANY
        assert found.notes[-1] == LEFT_OUT.decode()
