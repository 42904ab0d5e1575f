"""A minute of a database server on NFS in all five layers, and a failure of its network.

Both are recordings of a load that the demo of an earlier ioh generated: nothing in them is random,
and the layers agree with each other.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ioh.model.derive import derive
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.pipeline import snapshots
from tests.support.sessions import samples_of

DATA = Path(__file__).parents[1] / "data"
START_S = 1_795_270_000.0


@cache
def samples() -> list[Sample]:
    """61 samples, one each second."""
    return samples_of((DATA / "made-up-minute.ioh").read_bytes())


@cache
def intervals() -> list[Snapshot]:
    """The minute, second by second."""
    return list(snapshots(samples()))


@cache
def trouble_and_quiet() -> list[Snapshot]:
    """Five seconds in which the network loses segments, and five of a quiet night."""
    four = samples_of((DATA / "made-up-trouble.ioh").read_bytes())
    return [derive(four[0], four[1]), derive(four[2], four[3])]
