"""Hosts of more CPUs than this one: what the maps of the probes would take of their memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.bpf.btf import Btf
from ioh.bpf.channel import close_all
from ioh.bpf.host import HostFacts
from ioh.bpf.maps import MapSpec
from ioh.bpf.program import attach_program
from ioh.layers import find_layer
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from tests.kernel.probe_stack import compile_layer
from tests.unit.fake_kernel import KERNELS

LAYERS = ("syscall", "nfs_client", "tcp", "nfs_server", "block")
PER_CPU_KINDS = {5, 6, 10}  # BPF_MAP_TYPE_PERCPU_HASH, _PERCPU_ARRAY, _LRU_PERCPU_HASH
MOST_BYTES = {128: 100_000_000, 256: 125_000_000}  # of one layer

pytestmark = pytest.mark.filterwarnings("ignore:not a bytes object")  # bcc's, of a str


def host_of(layer: str, cpu_count: int) -> HostFacts:
    """This kernel, or one with the modules that this one lacks, on so many CPUs."""
    if layer.startswith("nfs"):
        return replace(KERNELS["6.18"]().host(preempted=False), cpu_count=cpu_count)
    return HostFacts(Btf(welcome=find_layer(layer).welcome_modules), cpu_count=cpu_count)


def size_bytes(spec: MapSpec, cpu_count: int) -> int:
    values = cpu_count if spec.kind in PER_CPU_KINDS else 1
    return (spec.key_size + -(-spec.value_size // 8) * 8 * values) * spec.max_entries


@pytest.mark.parametrize("cpu_count", MOST_BYTES)
@pytest.mark.parametrize("layer", LAYERS)
def test_maps_stay_within_bounds(layer: str, cpu_count: int) -> None:
    maps = compile_layer(layer, host_of(layer, cpu_count), Filters()).maps
    sizes = {spec.name: size_bytes(spec, cpu_count) for spec in maps}
    assert sum(sizes.values()) < MOST_BYTES[cpu_count], sizes
    assert min(spec.max_entries for spec in maps) >= 1


@pytest.mark.parametrize("layer", ["syscall", "tcp", "block"])
def test_the_kernel_takes_them(layer: str) -> None:
    attached = attach_program(find_layer(layer), host_of(layer, 256), Filters())
    assert not isinstance(attached, Unavailable), attached
    close_all(attached[1])
