"""The compiled probes: no instructions that are too new, no deep stacks, no oversized maps."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from ioh.bpf.btf import Btf
from ioh.bpf.channel import close_all
from ioh.bpf.compiled import Compiled
from ioh.bpf.compiler import compile_probe
from ioh.bpf.host import HostFacts, find_facts
from ioh.bpf.maps import MapSpec
from ioh.bpf.program import attach_program, forms_of
from ioh.layers import find_probe
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from tests.kernel.probe_stack import STACK_BYTES_MAX, compile_layer, stack_bytes
from tests.unit.fake_kernel import KERNELS

ATOMICS = (0xC3, 0xDB)  # of 32 and 64 bits
BEFORE_5_12 = 0  # plain addition
CALL, TAIL_CALL = 0x85, 12
ALL_FILTERS = Filters(pid=1, comm="fio", cgroup_id=1, device=7 << 20, port=80)

pytestmark = pytest.mark.filterwarnings("ignore:not a bytes object")  # bcc's, of a str


@pytest.mark.parametrize("layer", ["syscall", "tcp", "block"])
def test_atomics_only_add(layer: str) -> None:
    """Linux 5.12 (commit 91c960b00566) added the others; older kernels refuse such a program."""
    for form in forms_of(find_probe(layer), HostFacts(Btf(), cast=1)):
        compiled = compile_layer(layer, form, Filters())
        for name, code in compiled.functions.items():
            instructions = struct.iter_unpack("=BBhi", code)
            kinds = {number for opcode, _, _, number in instructions if opcode in ATOMICS}
            assert kinds <= {BEFORE_5_12}, name


def test_programs_at_uprobes_have_no_per_cpu_stack() -> None:
    """Linux 6.13 and newer give one, which the next task overwrites, but not with a tail call."""
    for form in forms_of(find_probe("db"), HostFacts(Btf(), cast=1)):
        for name, code in compile_layer("db", form, Filters()).functions.items():
            calls = {n for op, _, _, n in struct.iter_unpack("=BBhi", code) if op == CALL}
            assert TAIL_CALL in calls, name


@pytest.mark.parametrize("preempted", [False, True])
@pytest.mark.parametrize("filters", [Filters(), ALL_FILTERS], ids=["all", "filtered"])
@pytest.mark.parametrize("layer", ["syscall", "tcp", "block"])
def test_programs_fit_on_the_stack(layer: str, filters: Filters, preempted: bool) -> None:
    """A program that needs more stack than there is makes LLVM end the compiling process."""
    btf = Btf(welcome=find_probe(layer).welcome_modules)
    host = HostFacts(btf, cast=1, alone=True, preempted=preempted, trace_events=preempted)
    for form in forms_of(find_probe(layer), host):
        _assert_room(compile_layer(layer, form, filters))


@pytest.mark.parametrize("preempted", [False, True])
@pytest.mark.parametrize("kernel", ["6.1", "6.18"])
@pytest.mark.parametrize("layer", ["nfs_client", "nfs_server"])
def test_nfs_programs_fit_on_the_stack(layer: str, kernel: str, preempted: bool) -> None:
    """Kernels without the modules have no offsets for them; to compile, any offsets will do."""
    host = KERNELS[kernel]().host(preempted=preempted)
    _assert_room(compile_layer(layer, host, Filters()))


def _assert_room(compiled: Compiled) -> None:
    needed = {name: stack_bytes(code) for name, code in compiled.functions.items()}
    assert {name: need for name, need in needed.items() if need > STACK_BYTES_MAX} == {}
    assert any(needed.values())


def test_a_deep_stack_is_measured() -> None:
    source = """
        int deep(struct bpf_raw_tracepoint_args *ctx)
        {
            char room[400];

            bpf_probe_read_kernel(room, sizeof(room), (void *)ctx->args[0]);
            return room[399];
        }
    """
    compiled = compile_probe(source, (), {"deep"})
    assert isinstance(compiled, Compiled)
    assert stack_bytes(compiled.functions["deep"]) == 400


LAYERS = ("syscall", "nfs_client", "tcp", "nfs_server", "block")
PER_CPU_KINDS = {5, 6, 10}  # BPF_MAP_TYPE_PERCPU_HASH, _PERCPU_ARRAY, _LRU_PERCPU_HASH
MOST_BYTES = {128: 100_000_000, 256: 125_000_000}  # of one layer


def host_of(layer: str, cpu_count: int) -> HostFacts:
    """This kernel, or one with the modules that this one lacks, on so many CPUs."""
    if layer.startswith("nfs"):
        return replace(KERNELS["6.18"]().host(preempted=False), cpu_count=cpu_count)
    return HostFacts(Btf(welcome=find_probe(layer).welcome_modules), cpu_count=cpu_count)


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


@pytest.mark.parametrize("filters", [Filters(), ALL_FILTERS], ids=["all", "filtered"])
@pytest.mark.parametrize("layer", ["syscall", "tcp", "block"])
def test_the_kernel_accepts_the_programs(layer: str, filters: Filters) -> None:
    attached = attach_program(find_probe(layer), host_of(layer, 256), filters, {})
    assert not isinstance(attached, Unavailable), attached
    close_all(attached[1])


def test_the_kernel_accepts_the_programs_at_trace_events() -> None:
    """All programs are loaded before the first one is attached, which needs tracefs."""
    probe = find_probe("syscall")
    host = replace(find_facts(Btf(welcome=probe.welcome_modules)), trace_events=True)
    attached = attach_program(probe, host, Filters(), {})
    if isinstance(attached, Unavailable):
        assert "no trace event for sys_exit" in attached.reason
        return
    close_all(attached[1])
