"""Where a server's probes are, in handmade and in hostile ELF files."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ioh.bpf.elf import FUNCTION, Elf
from ioh.bpf.server_files import Server
from ioh.bpf.site_record import SITE, pack_site
from ioh.bpf.sites import MOST_SITES, Argument, Site, Sites, find_sites
from tests.unit.elf_maker import (
    ARM,
    BASE,
    CODE_AT,
    CODE_OFFSET,
    DATA_AT,
    DATA_OFFSET,
    X86,
    Note,
    program,
    written,
)


def server(*probes: dict[str, Any]) -> Server:
    return msgspec.convert({"title": "Made", "binaries": ["made"], "probe": probes}, Server)


X, A = "x86_64", "aarch64"
READ = {"op": "data_read", "start": "usdt:made:begin", "done": "usdt:made:end"}


def found(path: Path, data: bytes, *probes: dict[str, Any], machine: str = "x86_64") -> Sites:
    with written(path / "program", data).open("rb") as file:
        return find_sites(file, server(*probes), machine)


def test_probe_points_are_offsets_in_the_file(tmp_path: Path) -> None:
    notes = (
        Note("begin", CODE_AT + 0x10, DATA_AT + 2),
        Note("end", CODE_AT + 0x20, DATA_AT + 4, "-4@%r14d 4@(%r12) -4@%eax -4@$8192"),
        Note("end", CODE_AT + 0x30, DATA_AT + 4, "-4@%r14d 4@(%r12) -4@%eax -4@$8192"),
    )
    sites = found(tmp_path, program(notes), {**READ, "bytes": 3, "scale": 512})
    size = Argument("register", 80, 0, 4, signed=True)
    ends = [
        Site("data_read", "done", 0, CODE_OFFSET + at, False, DATA_OFFSET + 4, size, 512)
        for at in (0x20, 0x30)
    ]
    begin = Site("data_read", "start", 0, CODE_OFFSET + 0x10, False, DATA_OFFSET + 2, None, 512)
    assert sites == Sites((begin, *ends), ())


def test_addresses_of_a_program_moved_after_linking_are_corrected(tmp_path: Path) -> None:
    """Its notes still have the old addresses; .stapsdt.base says how far it was moved."""
    old = 0x1000
    notes = (
        Note("begin", CODE_AT - old, base=BASE - old),
        Note("end", CODE_AT + 8 - old, DATA_AT - old, base=BASE - old),
    )
    sites = found(tmp_path, program(notes), READ).sites
    places = [(site.offset, site.semaphore) for site in sites]
    assert places == [(CODE_OFFSET, 0), (CODE_OFFSET + 8, DATA_OFFSET)]


def test_several_places_can_start_one_operation(tmp_path: Path) -> None:
    notes = [Note(name, CODE_AT + at) for name, at in (("begin", 0x10), ("abort", 0x30))]
    data = program(tuple(notes), {"plan": CODE_AT + 0x20, "ready": CODE_AT + 0x40})
    start = ["usdt:made:begin", "function:plan"]
    probe = {"op": "statement", "start": start, "done": "function:ready"}
    for more, role in (({}, "start"), ({"cancel": "usdt:made:abort"}, "first")):
        sites = found(tmp_path, data, {**probe, **more}).sites
        begun = [(site.role, site.offset - CODE_OFFSET) for site in sites[:2]]
        assert begun == [(role, 0x10), (role, 0x20)]
        assert {site.way for site in sites} == {0}
        assert sites[2].role == "done"


@pytest.mark.parametrize(("argument", "done"), [(2, {"done": "function:end"}), ("return", {})])
def test_only_calls_with_the_listed_values_count(
    tmp_path: Path, argument: object, done: dict[str, str]
) -> None:
    only = {"argument": argument, "values": [3, 5]}
    probe = {"op": "lock_wait", "start": "function:put", "only": only, **done}
    data = program(functions={"not_put": CODE_AT + 4, "put": CODE_AT, "end": CODE_AT + 8})
    start, end = found(tmp_path, data, probe).sites
    chosen = Argument("register", 104 if done else 80, 0, 4)
    assert (start.size, end.size) == ((chosen, None) if done else (None, chosen))
    assert start.only == end.only == (3, 5)
    assert SITE.unpack(pack_site(start, "process", ["lock_wait"]))[-6:-2] == (3, 5, 3, 5)


def test_key_matches_operations_that_another_thread_may_end(tmp_path: Path) -> None:
    ways = {"key": 1, "bytes": 2, "bytes_is_int": True}
    probe = {"op": "data_read", "start": "function:put", "done": "function:end", **ways}
    data = program(functions={"put": CODE_AT, "end": CODE_AT + 8})
    start, end = found(tmp_path, data, probe).sites
    assert start.key == end.key == Argument("register", 112)
    assert (start.size, end.size) == (None, Argument("register", 104, 0, 4, signed=True))
    assert SITE.unpack(pack_site(end, "process", ["data_read"]))[-2:] == (113, 0)


def test_a_wait_counts_only_if_another_probe_counts_the_op(tmp_path: Path) -> None:
    waits = {"op": "data_read", "start": "function:wait", "is_wait": True}
    counts = {"op": "data_read", "start": "function:read"}
    both = found(tmp_path, program(functions={"wait": CODE_AT, "read": CODE_AT}), counts, waits)
    assert [site.is_wait for site in both.sites] == [False, False, True, True]
    alone = found(tmp_path, program(functions={"wait": CODE_AT}), counts, waits)
    assert not alone.sites
    assert "data_read not counted: the program has no function read" in alone.missing[0]


PUT: dict[str, Any] = {"op": "wait", "start": "function:put"}
ONLY = {"argument": "return", "values": [101]}


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        ({**PUT, "start": ["function:put", "function:plan"]}, "so it needs done"),
        ({**PUT, "key": 1, "done": "usdt:made:end"}, "wait: key needs functions"),
        ({**PUT, "only": ONLY, "bytes": 1}, "wait: only excludes bytes"),
        ({**PUT, "only": ONLY, "done": "function:end"}, "wait: only excludes bytes"),
    ],
)
def test_options_that_exclude_each_other_are_refused(probe: dict[str, Any], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        server(probe)


@pytest.mark.parametrize(("machine", "number", "register"), [(X, X86, 96), (A, ARM, 16)])
def test_a_functions_argument_is_read_from_its_register(
    tmp_path: Path, machine: str, number: int, register: int
) -> None:
    probe = {"op": "data_write", "start": "function:put", "bytes": 3, "bytes_at": "start"}
    data = program(functions={"put": CODE_AT}, machine=number)
    start, done = found(tmp_path, data, probe, machine=machine).sites
    assert (start.size, done.size) == (Argument("register", register), None)


@pytest.mark.parametrize(
    ("machine", "text", "expected"),
    [
        (X, "-4@%edx", Argument("register", 96, 0, 4, signed=True)),
        (X, "8@%rax", Argument("register", 80, 0, 8)),
        (X, "1@%dil", Argument("register", 112, 0, 1)),
        (X, "2@%r9w", Argument("register", 64, 0, 2)),
        (X, "8@-16(%rbp)", Argument("memory", 32, -16, 8)),
        (X, "4@(%r12)", Argument("memory", 24, 0, 4)),
        (X, "-4@$-1", Argument("constant", 0, -1, 4, signed=True)),
        (A, "-4@w0", Argument("register", 0, 0, 4, signed=True)),
        (A, "8@x30", Argument("register", 240, 0, 8)),
        (A, "8@[x29,-8]", Argument("memory", 232, -8, 8)),
        (A, "4@[x1]", Argument("memory", 8, 0, 4)),
        (A, "-4@8192", Argument("constant", 0, 8192, 4, signed=True)),
    ],
)
def test_arguments_of_probe_points(
    tmp_path: Path, machine: str, text: str, expected: Argument
) -> None:
    """On ARM the argument before it contains a space, as compilers write it."""
    before, number = ("4@%eax", X86) if machine == X else ("8@[sp, 8]", ARM)
    notes = (Note("begin"), Note("end", arguments=f"{before} {text}"))
    sites = found(tmp_path, program(notes, machine=number), {**READ, "bytes": 2}, machine=machine)
    assert sites.sites[1].size == expected


@pytest.mark.parametrize(
    "text",
    [
        "8@(%rax,%rdx,8)", "8f@%xmm0", "-4@40+Stats(%rip)", "3@%eax", "%eax", "8@",
        "8@$99999999999999999999", "8@%r99",
    ],
)  # fmt: skip
def test_an_argument_of_unknown_form_is_missing(tmp_path: Path, text: str) -> None:
    notes = (Note("begin"), Note("end", arguments=text))
    sites = found(tmp_path, program(notes), {**READ, "bytes": 1})
    assert sites.sites == ()
    assert len(sites.missing) == 1
    assert "data_read not counted" in sites.missing[0]


def test_what_a_stripped_program_lacks_gives_one_line(tmp_path: Path) -> None:
    probes = [{"op": op, "start": "function:flush"} for op in ("log_sync", "commit", "log_sync")]
    lacking = ("Made: log_sync, commit not counted: the program has no function flush (stripped?)",)
    assert found(tmp_path, program(), *probes).missing == lacking
    # An ifunc: its symbol is the resolver, which runs once, as the program is loaded.
    chooser = program(functions={"flush": CODE_AT}, symbol_kind=10)
    assert found(tmp_path, chooser, *probes).missing == lacking
    assert found(tmp_path, program(), READ).missing == (
        "Made: data_read not counted: the program has no probe point begin",
    )
    others = program((Note("begin"), Note("end", provider="other")))
    assert found(tmp_path, others, READ).sites == ()


def test_one_of_several_ways_is_enough(tmp_path: Path) -> None:
    probes = [{"op": "commit", "start": f"function:{name}"} for name in ("old", "new")]
    sites = found(tmp_path, program(functions={"new": CODE_AT}), *probes)
    assert sites.missing == ()
    assert {site.way for site in sites.sites} == {1}


@pytest.mark.parametrize(
    "note",
    [
        Note("begin", DATA_AT),
        Note("begin", CODE_AT - 1),
        Note("begin", CODE_AT + 0x800),
        Note("begin", semaphore=CODE_AT),
        Note("begin", semaphore=DATA_AT + 0x800),
        Note("begin", (1 << 64) - 1),
    ],
)
def test_a_probe_must_lie_in_code_and_its_semaphore_in_data(tmp_path: Path, note: Note) -> None:
    with pytest.raises(ValueError, match="outside"):
        found(tmp_path, program((note, Note("end"))), READ)


def test_a_function_must_lie_in_code_and_a_semaphore_at_a_32_bit_offset(
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match="outside"):
        found(tmp_path, program(functions={"put": DATA_AT}), PUT)
    data = bytearray(program((Note("begin", semaphore=DATA_AT), Note("end"))))
    struct.pack_into("<Q", data, 64 + 56 + 8, 1 << 32)  # the second segment's place in the file
    with pytest.raises(ValueError, match="outside"):
        found(tmp_path, bytes(data), READ)


def test_too_many_places_are_refused(tmp_path: Path) -> None:
    notes = (Note("begin"),) * MOST_SITES + (Note("end"),)
    with pytest.raises(ValueError, match=str(MOST_SITES)):
        found(tmp_path, program(notes), READ)


@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_a_program_for_another_machine_is_refused(tmp_path: Path, machine: str) -> None:
    with pytest.raises(ValueError, match=machine):
        found(tmp_path, program(), READ, machine=machine)


WHOLE = program(
    (
        Note("begin", CODE_AT + 1, DATA_AT, "8@%rax 4@-8(%rbp)"),
        Note("end", CODE_AT + 2, DATA_AT + 2, "-4@$8192 4@16(%rsp)"),
    ),
    {"flush": CODE_AT + 4, "other": CODE_AT + 5},
)
PROBES: tuple[dict[str, Any], ...] = (
    {**READ, "bytes": 2},
    {"op": "commit", "start": "function:flush"},
)


def outcome(path: Path, data: bytes) -> str:
    """What damage leads to: a line, or "" for sites that can all be passed to the probe."""
    try:
        sites = found(path, data, *PROBES)
    except ValueError as error:
        return str(error)
    for site in sites.sites:
        assert len(pack_site(site, "process", ("data_read", "commit"))) == SITE.size
        assert 0 <= site.semaphore < 1 << 32
        assert 0 <= site.offset < 1 << 64
    return ""


def test_a_file_cut_off_anywhere_gives_one_line(tmp_path: Path) -> None:
    assert not outcome(tmp_path, WHOLE)
    for size in (*range(0x40), *range(0x40, len(WHOLE), 37)):
        said = outcome(tmp_path, WHOLE[:size])
        assert said
        assert "\n" not in said


def damaged(seed: int) -> bytes:
    """The file with some bytes changed, of its headers, segments, symbols or notes."""
    rng = random.Random(seed)
    data = bytearray(WHOLE)
    for _ in range(rng.randint(1, 6)):
        at = rng.choice([rng.randrange(0, 176), rng.randrange(0x2000, len(WHOLE))])
        data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(data)


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 32))
@example(seed=172)  # a section whose names are in a nonexistent section
def test_damage_gives_sites_or_a_value_error(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    outcome(tmp_path_factory.getbasetemp(), damaged(seed))


@settings(max_examples=25)
@given(text=st.text(max_size=80))
def test_any_argument_is_a_place_or_missing(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    note = Note("end", arguments=text.replace("\0", ""))
    data = program((Note("begin"), note))
    sites = found(tmp_path_factory.getbasetemp(), data, {**READ, "bytes": 1})
    assert bool(sites.sites) != bool(sites.missing)


def huge(parts: int, name: bytes) -> bytes:
    """A program with ``parts`` symbol tables, each of 4 MB; all names are the same."""
    names = (name + b"\0") * ((4 << 20) // (len(name) + 1))
    head = bytearray(WHOLE[:0x2000])
    rows = [struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 0x2000, len(names), 0, 0, 1, 0)]
    rows += [struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, 0x2000, len(names), 0, 0, 1, 24)] * parts
    struct.pack_into("<Q", head, 40, 0x2000 + len(names))
    struct.pack_into("<HH", head, 60, len(rows), 0)
    return bytes(head) + names + b"".join(rows)


def test_huge_symbol_tables_are_refused_within_seconds(tmp_path: Path) -> None:
    path = written(tmp_path / "huge", huge(1000, b"flush"))
    began_s = time.process_time()
    with path.open("rb") as file, pytest.raises(ValueError, match="too large"):
        Elf(file).symbols(["flush"], FUNCTION)
    assert time.process_time() - began_s < 5
