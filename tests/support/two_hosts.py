"""Recordings of a client, ``db01``, and of the server it mounts from, ``nfs01``; and of both."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ioh.layers import all_layers
from ioh.model.intervals import interval
from ioh.model.pairs import HostInterval
from ioh.model.sample import LayerSample, Sample
from ioh.session.join import Joining
from tests.support import fake_ssh, fakes
from tests.support.sessions import recorded

ADDRESSES = fake_ssh.ADDRESSES


def host(name: str, count: int, first: int = 0) -> list[Sample]:
    """Samples, a second apart, of ``db01``, which mounts from ``nfs01``, or of ``nfs01``."""
    found = all_layers()
    made = []
    for tick in range(first, first + count):
        count = tick * fake_ssh.READS
        layers = fake_ssh.layers(name, count)
        if name == "nfs01":  # its disk takes 600 of a call's 1,000 us, 100 of them in the queue
            layers["block"] = LayerSample("bpf", {"read": fake_ssh.reads(count, 600, 100)})
        empty = fakes.sample(tick, {}, hostname=f"{name}.example")
        specs = {layer: found[layer].spec for layer in layers}
        made.append(replace(empty, layers=layers, specs=specs))
    return made


def write(path: Path, samples: list[Sample], name: str = "", **options: Any) -> str:
    addresses = [ADDRESSES[name]] if name else []
    path.write_bytes(recorded(samples, addresses=addresses, **options))
    return str(path)


def two_in_one(folder: Path, count: int = 20) -> str:
    """One file of both hosts, each with a mark; ``nfs01`` begins 5 s later."""
    paths = [
        write(folder / "db01.ioh", host("db01", count), "db01", marks={3: "go"}),
        write(folder / "nfs01.ioh", host("nfs01", count - 5, 5), "nfs01", marks={3: "go"}),
    ]
    with Joining() as joining:
        for path in paths:
            joining.add(path, Path(path).stem)
        return joining.write([str(folder / "both.ioh")]).name


def parts(name: str, samples: list[Sample]) -> list[HostInterval]:
    made = []
    for older, newer in pairwise(samples):
        found = interval(older, newer)
        assert found is not None
        made.append(HostInterval(name, (ADDRESSES[name],) if name else (), found, (older, newer)))
    return made
