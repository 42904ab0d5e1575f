"""What is attached and compiled on which kernel: a capable host, and hosts that lack one thing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.bpf.program import all_defines, c_constant, choose_points
from ioh.bpf.syscall_numbers import SYSCALL_NUMBERS
from ioh.layers import all_layers
from ioh.layers.base import Event
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
) -> Mapping[str, int | str]:
    layer = all_layers()[name]
    host = btf.host(
        machine, trusted=trusted, preempted=preempted, casts=casts, trace_events=trace_events
    )
    chosen = choose_points(layer.events, host)
    assert not isinstance(chosen, Unavailable), f"{chosen.reason}; {HERE}"
    defines = all_defines(layer, host, filters or Filters(), chosen)
    assert not isinstance(defines, Unavailable), f"{defines.reason}; {HERE}"
    return defines


def refusal(name: str, btf: FakeBtf, machine: str = "x86_64") -> Unavailable:
    found = all_layers()[name].defines(btf.host(machine), Filters())
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
    layer, btf = all_layers()[name], KERNELS[kernel]()
    if (name, kernel) == ("db", "5.10"):
        assert "5.15" in refusal(name, btf).hint
        return
    defines = defines_of(name, btf, filters, trusted=trusted, preempted=preempted, casts=casts)
    text = ProbeText(layer.probe, defines)
    assert text.undefined() == set()
    chosen = choose_points(layer.events, btf.host())
    assert not isinstance(chosen, Unavailable)
    for event in layer.events:
        if event.name in chosen:
            assert text.has_function(event.points[chosen[event.name]].function), event.name


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_calls_are_whole_at_trace_events(machine: str) -> None:
    btf = linux_6_18()
    text = ProbeText(
        "syscall",
        defines_of("syscall", btf, None, machine, trusted=True, preempted=True, trace_events=True),
    )
    assert text.undefined() == set()
    assert text.macros["RESULT"].strip() == "2"


@pytest.mark.parametrize("name", LAYERS)
def test_aarch64_has_no_registers_by_name(name: str) -> None:
    btf = linux_6_18()
    for register in ("di", "si", "dx", "r10", "r9"):
        btf.drop(f"pt_regs.{register}")
    text = ProbeText(all_layers()[name].probe, defines_of(name, btf, machine="aarch64"))
    assert text.undefined() == set()


@pytest.mark.parametrize(
    ("machine", "member", "bit"), [("x86_64", "status", 2), ("aarch64", "flags", 1 << 22)]
)
def test_a_call_of_a_32_bit_program_is_told_apart(machine: str, member: str, bit: int) -> None:
    """On ARM64 number 63, read, is dup2 in the 32-bit table."""
    btf = linux_6_18()
    defines = defines_of("syscall", btf, machine=machine)
    info, inside = btf.offset("task_struct", "thread_info"), btf.offset("thread_info", member)
    assert info is not None
    assert inside is not None
    assert (defines["OFF_thread_info_compat"], defines["COMPAT"]) == (info + inside, bit)


def test_pages_are_as_large_as_this_machines() -> None:
    """ARM64 has kernels with pages of 16 and of 64 KB."""
    defines = defines_of("syscall", linux_6_18(), machine="aarch64")
    assert defines["PAGE_BYTES"] == os.sysconf("SC_PAGE_SIZE")


def test_no_two_calls_have_one_number() -> None:
    for numbers in SYSCALL_NUMBERS.values():
        assert len(set(numbers.values())) == len(numbers)


def test_an_unknown_machine_is_named() -> None:
    found = refusal("syscall", linux_6_18(), machine="riscv64")
    assert "riscv64" in found.reason
    assert found.hint


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("kernel", ["6.18", "5.10"])
def test_a_member_that_is_missing_is_named_or_not_needed(name: str, kernel: str) -> None:
    for owner, path in KERNELS[kernel]().offsets:
        btf = KERNELS[kernel]()
        btf.drop(f"{owner}.{path}")
        found = all_layers()[name].defines(btf.host(), Filters())
        if isinstance(found, Unavailable):
            assert re.search(r"struct (\w+) has no (\S+)$", found.reason), found.reason
            assert found.hint
        else:
            text = ProbeText(all_layers()[name].probe, defines_of(name, btf))
            assert text.undefined() == set(), (owner, path)


@pytest.mark.parametrize("path", ["opcode", "file", "flags", "cqe.fd"])
def test_io_uring_that_cannot_be_followed_costs_only_itself(path: str) -> None:
    btf = linux_6_18()
    btf.drop(f"io_kiocb.{path}")
    assert not {"uring_submit", "uring_complete"} & chosen_on("syscall", btf).keys()
    assert ProbeText("syscall", defines_of("syscall", btf)).undefined() == set()


def test_io_uring_whose_flags_are_not_known_is_counted_all_the_same() -> None:
    btf = linux_6_18()
    assert "OFF_io_rw_flags" in defines_of("syscall", btf)
    btf.drop("io_rw.flags")
    assert "OFF_io_rw_flags" not in defines_of("syscall", btf)
    assert {"uring_submit", "uring_complete"} <= chosen_on("syscall", btf).keys()
    assert ProbeText("syscall", defines_of("syscall", btf)).undefined() == set()


def chosen_on(name: str, btf: FakeBtf) -> dict[str, int]:
    chosen = choose_points(all_layers()[name].events, btf.host())
    assert not isinstance(chosen, Unavailable)
    return chosen


@pytest.mark.parametrize(
    ("name", "owner", "path"),
    [
        ("syscall", "dentry", "d_name.name"),
        ("block", "request", "start_time_ns"),
        ("tcp", "tcp_sock", "bytes_sent"),
    ],
)
def test_the_missing_member_itself_is_named(name: str, owner: str, path: str) -> None:
    btf = linux_6_18()
    btf.drop(f"{owner}.{path}")
    assert refusal(name, btf).reason == f"this kernel's struct {owner} has no {path}"


@pytest.mark.parametrize("tracepoint", sorted(linux_6_18().tracepoints))
@pytest.mark.parametrize("name", LAYERS)
def test_without_one_tracepoint(name: str, tracepoint: str) -> None:
    btf = linux_6_18()
    del btf.tracepoints[tracepoint]
    layer = all_layers()[name]
    chosen = choose_points(layer.events, btf.host())
    hit = [e for e in layer.events if [p.event for p in e.points] == [tracepoint]]
    if any(event.needed for event in hit):
        assert isinstance(chosen, Unavailable)
        assert tracepoint in chosen.reason
        return
    assert not isinstance(chosen, Unavailable), f"{chosen.reason}; {HERE}"
    assert not {event.name for event in hit} & chosen.keys()
    text = ProbeText(layer.probe, defines_of(name, btf))
    assert text.undefined() == set()
    for event in layer.events:
        if event.name in chosen:
            assert text.has_function(event.points[chosen[event.name]].function), event.name


def test_the_first_point_that_exists_is_chosen() -> None:
    events = (
        Event("a", "new old"),
        Event("b", "gone", gives="beauty"),
    )
    both = FakeBtf(tracepoints={"new": (), "old": ()}).host()
    assert choose_points(events, both) == {"a": 0}
    assert choose_points(events, FakeBtf(tracepoints={"old": ()}).host()) == {"a": 1}
    neither = choose_points(events, FakeBtf().host())
    assert isinstance(neither, Unavailable)
    assert neither.reason == "this kernel has no raw tracepoint new, old"


def test_where_the_bio_and_the_request_are() -> None:
    names = ("QUEUE_BIO_ARG", "GETRQ_BIO_ARG", "MERGE_BIO_ARG")
    assert [defines_of("syscall", linux_6_18())[n] for n in names] == [0, 0, 0]
    assert [defines_of("syscall", linux_5_10())[n] for n in names] == [1, 1, 1]
    names = ("ISSUE_ARG", "BIO_ARG", "MERGE_BIO_ARG")
    assert [defines_of("block", linux_6_18())[n] for n in names] == [0, 0, 0]
    assert [defines_of("block", linux_5_10())[n] for n in names] == [1, 1, 1]


def test_bits_that_moved_or_were_macros() -> None:
    assert defines_of("block", linux_6_18())["RQF_FLUSH_SEQ"] == 1 << 1
    # Debian's 6.12: the enum has no name yet.
    btf = linux_6_18()
    btf.enums[""] = btf.enums.pop("rqf_flags")
    assert defines_of("block", btf)["RQF_FLUSH_SEQ"] == 1 << 1
    assert defines_of("block", linux_5_10())["RQF_FLUSH_SEQ"] == 1 << 4
    btf = linux_6_18()
    btf.enums["req_flag_bits"] = {"__REQ_PREFLUSH": 21}
    assert defines_of("block", btf)["PREFLUSH"] == 1 << 21


def test_a_device_without_requests_is_measured_from_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_requests, stack in ((True, "sda"), (False, "vg-lv on sda"), (False, "zram0")):
        device = BlockDevice(5, "it", stack, 5, "it", has_requests=has_requests)
        monkeypatch.setattr("ioh.layers.block.read_block_device", lambda _, d=device: d)
        found = all_layers()["block"].defines(linux_6_18().host(), Filters(device=5))
        assert isinstance(found, Unavailable) != has_requests
    assert isinstance(all_layers()["block"].defines(linux_6_18().host(), Filters()), dict)


def test_an_nvme_disk_with_several_ways_is_known_by_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "nvme12n3"
    device = BlockDevice(5, name, f"{name} on nvme12c0n3", 5, name, has_requests=False)
    monkeypatch.setattr("ioh.layers.block.read_block_device", lambda _: device)
    monkeypatch.setattr("ioh.layers.block.ways_to", lambda _: ["nvme12c0n3"])
    defines = defines_of("block", linux_6_18(), Filters(device=5))
    assert (defines["FILTER_WAY_HEAD"], defines["FILTER_WAY_TAIL"]) == ("nvme12c", "n3")
    assert "is_way" in ProbeText("block", defines).code
    plain = defines_of("block", linux_6_18())
    assert "is_way" not in ProbeText("block", plain).code


def test_the_disk_is_found_by_the_queue_or_by_the_request() -> None:
    assert "OFF_request_rq_disk" not in defines_of("block", linux_6_18())
    assert "OFF_request_queue_disk" not in defines_of("block", linux_5_10())
    assert "OFF_bio_bi_disk" in defines_of("block", linux_5_10())


def test_io_uring_only_where_completions_name_their_request() -> None:
    assert defines_of("syscall", linux_6_18())["URING_CQE"] == 1
    for kernel in ("6.1", "5.10"):
        assert "URING_CQE" not in defines_of("syscall", KERNELS[kernel]())
    assert {"uring_submit", "uring_complete"} <= chosen_on("syscall", KERNELS["6.1"]()).keys()
    for kernel in ("5.19", "5.15", "5.10"):
        chosen = chosen_on("syscall", KERNELS[kernel]())
        assert not {"uring_submit", "uring_complete"} & chosen.keys(), kernel
    events = all_layers()["syscall"].events
    assert {e.gives for e in events if e.name.startswith("uring")} == {"io_uring"}
    assert "OFF_io_kiocb_cqe_fd" in defines_of("syscall", KERNELS["6.1"]())


def test_only_a_layer_that_wants_it_is_loaded_typed() -> None:
    for layer in all_layers().values():
        assert layer.trusts(linux_6_18().host()) == layer.prefers_typed
        assert not layer.trusts(linux_6_18().host(trusted=False))


def test_filters_become_constants() -> None:
    found = defines_of("syscall", linux_6_18(), ALL_FILTERS)
    wanted = {"FILTER_PID": 7, "FILTER_COMM": "fio", "FILTER_CGROUP": 1 << 40}
    assert found.items() >= {**wanted, "FILTER_DEVICE": 8 << 20 | 1}.items()
    assert defines_of("block", linux_6_18(), ALL_FILTERS)["FILTER_DEVICE"] == 8 << 20 | 1
    assert defines_of("tcp", linux_6_18(), ALL_FILTERS)["PORT"] == 0x0108  # network order
    for name in LAYERS:
        unfiltered = defines_of(name, linux_6_18())
        assert not [key for key in unfiltered if key.startswith("FILTER_") or key == "PORT"]


@pytest.mark.parametrize("cpus", [1, 4, 512, 8192])
def test_maps_stay_affordable_on_large_hosts(cpus: int) -> None:
    found = all_layers()["syscall"].defines(linux_6_18().host(cpus=cpus), Filters())
    assert not isinstance(found, Unavailable)
    flows = found["FLOWS"]
    assert isinstance(flows, int)
    assert 1024 <= flows <= 16384
    found = all_layers()["block"].defines(linux_6_18().host(cpus=cpus), Filters())
    assert not isinstance(found, Unavailable)
    room = found["MAX_DEV_OPS"]
    assert isinstance(room, int)
    assert room >= 16


def decode_literal(literal: str) -> bytes:
    """What a C compiler makes of a string literal of hexadecimal escapes."""
    assert re.fullmatch(r'"(\\x[0-9a-f]{2})*"', literal)
    return bytes(int(digits, 16) for digits in literal[1:-1].split("\\x")[1:])


@given(st.text(st.characters(codec="utf-8")))
def test_a_string_arrives_byte_by_byte(text: str) -> None:
    assert decode_literal(c_constant(text)) == text.encode()


@pytest.mark.parametrize("text", ['"; evil(); "', "a\nb", "数据库", "\\x41", "-Dx=1 y", "??/"])
def test_a_hostile_string_is_no_code(text: str) -> None:
    assert decode_literal(c_constant(text)) == text.encode()


@given(st.integers(0, (1 << 64) - 1))
def test_a_number_keeps_its_value_and_has_room(number: int) -> None:
    literal = c_constant(number)
    assert int(literal.removesuffix("ULL")) == number
    assert literal.endswith("ULL") == (number > 0x7FFFFFFF)
