"""Which maps several CPUs write, and how often.  A line that all CPUs write stops a large host."""

from __future__ import annotations

import pytest

from ioh.bpf.maps import MapSpec
from ioh.layers import all_layers
from tests.unit.probe_text import text_of

_PER_CPU = {5, 6}  # BPF_MAP_TYPE_PERCPU_HASH, …_PERCPU_ARRAY
_PROGRAMS = 3
USER = "written by user space, at most once a tick"
OWN = "an entry of one request, call, thread, session or connection: no two CPUs write it at once"
RARE = "written when something new appears: a file, a mount, a failure"
# A new map that is not per CPU belongs here, with what limits its writes.
SHARED = {
    "epoch": USER,
    "own_session": USER,
    "need_issue": USER,
    "stacked": USER,
    "fuse_daemons": USER,
    "demand_offsets": USER,
    "sites": USER,
    "metadata_ops": "written by user space, once",
    "devices": RARE,
    "mount_roots": RARE,
    "paths": RARE,
    "drafts": RARE,
    "crowded": RARE,
    "newcomers": RARE,
    "call_groups": "written by each thread that calls, once in 2^27 ns (134 ms)",
    "disk_names": RARE,
    "destroyed": RARE,
    "failures": "written at a call that fails",
    "failed_parts": "written at a part of a request that fails",
    "open_ops": OWN,
    "sessions": OWN,
    "calls": OWN,
    "asyncs": OWN,
    "faults": OWN,
    "pendings": OWN,
    "servings": OWN,
    "closed": OWN,
    "issued": OWN,
    "flush_bytes": OWN,
    "async_places": "written for each of the first 16,384 addresses of requests, once",
    "faults_under_way": "written twice at a page fault that reads from a disk",
    "recents": "a device's entry: written at most 50,000 times a second",
}


PROBES = [name for name, layer in all_layers().items() if layer.probe is not None]


def shared(name: str) -> list[MapSpec]:
    return [spec for spec in text_of(name).maps() if spec.kind not in {*_PER_CPU, _PROGRAMS}]


@pytest.mark.parametrize("name", PROBES)
def test_each_map_that_is_not_per_cpu_says_what_limits_its_writes(name: str) -> None:
    assert {spec.name for spec in shared(name)} <= SHARED.keys()


def test_no_map_is_listed_that_does_not_exist() -> None:
    assert SHARED.keys() == {spec.name for name in PROBES for spec in shared(name)}
