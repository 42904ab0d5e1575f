"""What is attached and compiled on which kernel: a capable host, and hosts that lack one thing."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pytest

from ioh.bpf.defines import c_flags
from ioh.bpf.program import all_defines, choose_points
from ioh.bpf.syscall_numbers import SYSCALL_NUMBERS
from ioh.layers import all_layers, find_probe
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from ioh.procfs.blockdev import BlockDevice
from tests.unit.fake_kernel import HERE, KERNELS, FakeBtf, linux_5_10, linux_6_18
from tests.unit.probe_text import ProbeText

LAYERS = [name for name, layer in all_layers().items() if layer.probe]
ALL_FILTERS = Filters(
    pid=7, comm="fio", cgroup_id=1 << 40, device=8 << 20 | 1, device_name="sda1", port=2049
)


def defines_of(
    name: str,
    btf: FakeBtf,
    filters: Filters | None = None,
    machine: str = "x86_64",
    *,
    trusted: bool = False,
    preempted: bool = False,
    casts: bool = False,
    trace_events: bool = False,
) -> Mapping[str, int]:
    probe = find_probe(name)
    host = btf.host(
        machine, trusted=trusted, preempted=preempted, casts=casts, trace_events=trace_events
    )
    chosen = choose_points(probe.events, host)
    assert not isinstance(chosen, Unavailable), f"{chosen.reason}; {HERE}"
    defines = all_defines(probe, host, filters or Filters(), chosen)
    assert not isinstance(defines, Unavailable), f"{defines.reason}; {HERE}"
    return defines


def refusal(name: str, btf: FakeBtf, machine: str = "x86_64") -> Unavailable:
    found = find_probe(name).defines(btf.host(machine), Filters())
    assert isinstance(found, Unavailable)
    return found


@pytest.mark.parametrize(
    ("casts", "trusted", "preempted", "filters"),
    [
        (True, True, False, Filters()),
        (False, True, False, Filters()),
        (True, True, True, ALL_FILTERS),
        (False, False, True, Filters()),
    ],
    ids=["cast", "typed", "cast, filtered", "untyped"],
)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", LAYERS)
def test_the_probe_is_whole_on_this_kernel(
    name: str, kernel: str, casts: bool, trusted: bool, preempted: bool, filters: Filters
) -> None:
    probe, btf = find_probe(name), KERNELS[kernel]()
    if (name, kernel) == ("db", "5.10"):
        assert "5.15" in refusal(name, btf).hint
        return
    defines = defines_of(name, btf, filters, trusted=trusted, preempted=preempted, casts=casts)
    text = ProbeText(name, defines)
    assert text.undefined() == set()
    chosen = choose_points(probe.events, btf.host())
    assert not isinstance(chosen, Unavailable)
    for event in probe.events:
        if event.name in chosen:
            assert text.has_function(event.points[chosen[event.name]].function), event.name


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_syscall_probe_is_complete_with_trace_events(machine: str) -> None:
    btf = linux_6_18()
    text = ProbeText(
        "syscall",
        defines_of("syscall", btf, None, machine, trusted=True, preempted=True, trace_events=True),
    )
    assert text.undefined() == set()
    assert text.macros["RESULT"].strip() == "2"


@pytest.mark.parametrize(
    ("machine", "member", "bit"), [("x86_64", "status", 2), ("aarch64", "flags", 1 << 22)]
)
def test_the_flag_of_a_32_bit_program_is_found(machine: str, member: str, bit: int) -> None:
    """The numbers differ: on ARM64, 63 is read, but in the 32-bit table it is dup2."""
    btf = linux_6_18()
    defines = defines_of("syscall", btf, machine=machine)
    info, inside = btf.offset("task_struct", "thread_info"), btf.offset("thread_info", member)
    assert info is not None
    assert inside is not None
    assert (defines["OFF_thread_info_compat"], defines["COMPAT"]) == (info + inside, bit)


def test_system_call_numbers_are_unique_and_an_unknown_machine_is_named() -> None:
    for numbers in SYSCALL_NUMBERS.values():
        assert len(set(numbers.values())) == len(numbers)
    found = refusal("syscall", linux_6_18(), machine="riscv64")
    assert "riscv64" in found.reason
    assert found.hint


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("kernel", ["6.18", "5.10"])
def test_a_member_that_is_missing_is_named_or_not_needed(name: str, kernel: str) -> None:
    probe, whole = find_probe(name), KERNELS[kernel]()
    as_ever = probe.defines(whole.host(), Filters())
    for owner, path in whole.offsets:
        btf = KERNELS[kernel]()
        btf.drop(f"{owner}.{path}")
        found = probe.defines(btf.host(), Filters())
        if isinstance(found, Unavailable):
            owned, _, member = found.reason.partition(" has no ")
            assert owned.startswith("this kernel's struct "), found.reason
            assert kernel != "6.18" or (owned.endswith(f" {owner}") and path.endswith(member))
            assert found.hint
        elif found != as_ever:
            assert ProbeText(name, defines_of(name, btf)).undefined() == set(), (owner, path)


@pytest.mark.parametrize(
    ("member", "is_followed"),
    [("io_kiocb.opcode", False), ("io_kiocb.cqe.fd", False), ("io_rw.flags", True)],
)
def test_io_uring_that_cannot_be_followed_disables_nothing_else(
    member: str, is_followed: bool
) -> None:
    btf = linux_6_18()
    btf.drop(member)
    followed = {"uring_submit", "uring_complete"} & chosen_on("syscall", btf).keys()
    assert len(followed) == 2 * is_followed
    assert member != "io_rw.flags" or "OFF_io_rw_flags" not in defines_of("syscall", btf)
    assert ProbeText("syscall", defines_of("syscall", btf)).undefined() == set()


def chosen_on(name: str, btf: FakeBtf) -> dict[str, int]:
    chosen = choose_points(find_probe(name).events, btf.host())
    assert not isinstance(chosen, Unavailable)
    return chosen


@pytest.mark.parametrize("tracepoint", sorted(linux_6_18().tracepoints))
@pytest.mark.parametrize("name", LAYERS)
def test_a_missing_tracepoint_is_named_or_disables_only_its_event(
    name: str, tracepoint: str
) -> None:
    btf = linux_6_18()
    del btf.tracepoints[tracepoint]
    probe = find_probe(name)
    chosen = choose_points(probe.events, btf.host())
    hit = [e for e in probe.events if [p.event for p in e.points] == [tracepoint]]
    if any(event.needed for event in hit):
        assert isinstance(chosen, Unavailable)
        assert tracepoint in chosen.reason
        return
    assert not isinstance(chosen, Unavailable), f"{chosen.reason}; {HERE}"
    assert not {event.name for event in hit} & chosen.keys()
    text = ProbeText(name, defines_of(name, btf))
    assert text.undefined() == set()
    for event in probe.events:
        if event.name in chosen:
            assert text.has_function(event.points[chosen[event.name]].function), event.name


def test_bio_request_and_disk_are_found_on_old_and_new_kernels() -> None:
    for layer, names in (
        ("syscall", ("QUEUE_BIO_ARG", "GETRQ_BIO_ARG", "MERGE_BIO_ARG")),
        ("block", ("ISSUE_ARG", "BIO_ARG", "MERGE_BIO_ARG")),
    ):
        assert [defines_of(layer, linux_6_18())[n] for n in names] == [0, 0, 0]
        assert [defines_of(layer, linux_5_10())[n] for n in names] == [1, 1, 1]
    new, old = defines_of("block", linux_6_18()), defines_of("block", linux_5_10())
    members = ("OFF_request_rq_disk", "OFF_request_queue_disk", "OFF_bio_bi_disk")
    assert [member in new for member in members] == [False, True, False]
    assert [member in old for member in members] == [True, False, True]


def test_a_device_without_requests_is_measured_from_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_requests, stack in ((True, "sda"), (False, "vg-lv on sda"), (False, "zram0")):
        device = BlockDevice(5, "it", stack, 5, "it", has_requests=has_requests)
        monkeypatch.setattr("ioh.layers.block_probe.read_block_device", lambda _, d=device: d)
        found = find_probe("block").defines(linux_6_18().host(), Filters(device=5))
        assert isinstance(found, Unavailable) != has_requests
    assert isinstance(find_probe("block").defines(linux_6_18().host(), Filters()), dict)


def test_a_multipath_nvme_disk_is_filtered_by_the_names_of_its_paths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "nvme12n3"
    device = BlockDevice(5, name, f"{name} on nvme12c0n3", 5, name, has_requests=False)
    monkeypatch.setattr("ioh.layers.block_probe.read_block_device", lambda _: device)
    monkeypatch.setattr("ioh.layers.block_probe.ways_to", lambda _: ["nvme12c0n3"])
    defines = defines_of("block", linux_6_18(), Filters(device=5))
    for part, text in (("HEAD", "nvme12c"), ("TAIL", "n3")):
        words = [defines[f"FILTER_WAY_{part}_{at}"] for at in (1, 2)]
        assert struct.pack("=QQ", *words) == text.encode().ljust(16, b"\0")
        assert defines[f"WAY_{part}_CHARS"] == len(text)
    assert "is_way" in ProbeText("block", defines).code
    plain = defines_of("block", linux_6_18())
    assert "is_way" not in ProbeText("block", plain).code


def test_io_uring_is_followed_only_where_tracepoints_name_the_request() -> None:
    points = {"uring_submit", "uring_complete"}
    for kernel, is_followed in (("6.18", True), ("6.1", True), ("5.19", False), ("5.10", False)):
        assert len(points & chosen_on("syscall", KERNELS[kernel]()).keys()) == 2 * is_followed
        assert ("URING_CQE" in defines_of("syscall", KERNELS[kernel]())) == (kernel == "6.18")
    assert "OFF_io_rw_flags" in defines_of("syscall", KERNELS["6.1"]())
    events = find_probe("syscall").events
    assert {e.gives for e in events if e.name.startswith("uring")} == {"io_uring"}
    assert "OFF_io_kiocb_cqe_fd" in defines_of("syscall", KERNELS["6.1"]())


@pytest.mark.parametrize("cpus", [1, 8192])
def test_maps_stay_affordable_on_large_hosts(cpus: int) -> None:
    room: dict[str, int] = {}
    for layer in ("syscall", "block"):
        found = find_probe(layer).defines(linux_6_18().host(cpus=cpus), Filters())
        assert not isinstance(found, Unavailable)
        room |= found
    assert 1024 <= int(room["FLOWS"]) <= 16384
    assert int(room["MAX_DEV_OPS"]) >= 16


@pytest.mark.parametrize("number", [0, 0x7FFFFFFF, 0x80000000, (1 << 64) - 1])
def test_a_number_becomes_a_c_constant_of_sufficient_width(number: int) -> None:
    ([flag], values) = c_flags({"N": number})
    literal = flag.removeprefix("-DN=")
    assert int(literal.removesuffix("ULL")) == number
    assert literal.endswith("ULL") == (number > 0x7FFFFFFF)
    assert values == ()


@pytest.mark.parametrize("name", LAYERS)
def test_other_values_of_the_same_filters_need_no_other_compilation(name: str) -> None:
    others = Filters(pid=1 << 22, comm="another-name-15", cgroup_id=3, device=9 << 20, port=1)
    flags, values = c_flags(defines_of(name, linux_6_18(), ALL_FILTERS))
    assert c_flags(defines_of(name, linux_6_18(), others))[0] == flags
    assert len(values) == {"syscall": 21, "block": 1, "tcp": 2}.get(name, 0)
    assert len(c_flags(defines_of(name, linux_6_18()))[1]) == (name == "tcp")  # its namespace


@pytest.mark.parametrize("given", [{"comm": "x"}, {"cgroup_id": 3}, {"pid": 7, "cgroup_id": 3}])
def test_all_filters_by_process_are_one_compilation(given: dict[str, Any]) -> None:
    """Those that are not given let all processes pass: their value is 0."""
    found = defines_of("syscall", linux_6_18(), Filters(**given))
    flags, values = c_flags(defines_of("syscall", linux_6_18(), Filters(pid=7)))
    assert c_flags(found)[0] == flags
    assert sorted(values) == [0, 0, 0, 7]
    assert found["FILTER_PID"] == given.get("pid", 0)
    assert found["FILTER_CGROUP"] == given.get("cgroup_id", 0)


def test_a_kernel_without_control_groups_filters_by_process() -> None:
    kernel = linux_6_18()
    del kernel.offsets["css_set", "dfl_cgrp"]
    assert "FILTER_CGROUP" not in defines_of("syscall", kernel, Filters(pid=7))
    with pytest.raises(AssertionError, match="css_set has no dfl_cgrp"):
        defines_of("syscall", kernel, Filters(cgroup_id=3))


def test_filters_become_constants() -> None:
    found = defines_of("syscall", linux_6_18(), ALL_FILTERS)
    wanted = {"FILTER_PID": 7, "FILTER_CGROUP": 1 << 40, "FILTER_DEVICE": 8 << 20 | 1}
    assert found.items() >= wanted.items()
    assert struct.pack("=QQ", found["FILTER_COMM_1"], found["FILTER_COMM_2"]) == b"fio" + bytes(13)
    assert defines_of("block", linux_6_18(), ALL_FILTERS)["FILTER_DEVICE"] == 8 << 20 | 1
    assert defines_of("tcp", linux_6_18(), ALL_FILTERS)["PORT"] == 0x0108  # network order
    for name in LAYERS:
        unfiltered = defines_of(name, linux_6_18())
        assert not [key for key in unfiltered if key.startswith("FILTER_") or key == "PORT"]
