"""Finds a server's probe sites in its file, and where each has the size to count."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import BinaryIO, Literal, NamedTuple, NoReturn

from ioh.bpf.elf import FUNCTION, VARIABLE, Elf, ProbePoint
from ioh.bpf.server_files import Only, Server, ServerProbe

MOST_SITES = 128  # per file
_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
_COMPARED = frozenset({"start", "first", "done", "unseen"})
Role = Literal["start", "first", "done", "cancel", "drop", "unseen"]
ANY_VALUE = 0xFFFF_FFFF  # in Site.only: any but 0

# Offsets in struct pt_regs (uapi).
_X86 = {"15": 0, "14": 8, "13": 16, "12": 24, "bp": 32, "bx": 40, "11": 48, "10": 56, "9": 64}
_X86 |= {"8": 72, "ax": 80, "cx": 88, "dx": 96, "si": 104, "di": 112, "ip": 128, "sp": 152}
_X86 |= {"al": 80, "bl": 40, "cl": 88, "dl": 96, "sil": 104, "dil": 112, "bpl": 32, "spl": 152}
_ARM = {f"{kind}{number}": 8 * number for kind in "xw" for number in range(31)} | {"sp": 248}
_CALL_ARGUMENTS = {
    "x86_64": [_X86[name] for name in ("di", "si", "dx", "cx", "8", "9")],
    "aarch64": [_ARM[f"x{number}"] for number in range(8)],
}
_HERE = {"x86_64": _X86["ip"], "aarch64": 256}  # the address of the probe itself
_RETURNED = {"x86_64": _X86["ax"], "aarch64": _ARM["x0"]}
_ARGUMENT = re.compile(r"(-?)([1248])@(.+)")
_X86_FORMS = re.compile(
    r"\$(?P<constant>-?\d{1,18})|%(?P<register>\w+)|(?P<displacement>-?\d{1,18})?\(%(?P<base>\w+)\)"
)
_ARM_FORMS = re.compile(
    r"(?P<constant>-?\d{1,18})|(?P<register>[xw]\d+|sp)"
    r"|\[(?P<base>x\d+|sp)(?:, ?(?P<displacement>-?\d{1,18}))?\]"
)


@dataclass(frozen=True, slots=True)
class Argument:
    """Where a number is when a probe is hit.

    ``register``: in the register at that offset of struct pt_regs.  ``memory``: at the register's
    value plus ``displacement``.  ``constant``: ``displacement`` itself.
    """

    kind: Literal["register", "memory", "constant"]
    register: int = 0
    displacement: int = 0
    width_bytes: int = 8
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """One place to attach to; offsets are file offsets.

    ``semaphore``: the counter to raise while attached, 0 for none.  Role ``first`` starts an
    operation unless it is already in flight.  ``way`` is the probe's number: an operation must end
    by the probe that started it.  Role ``unseen`` tells that one happens which no probe sees.  With
    ``only``, ``size`` must be one of these values.  ``key`` identifies an operation that another
    thread can end; ``is_wait`` as in ServerProbe.
    """

    op: str
    role: Role
    way: int
    offset: int
    at_return: bool = False
    semaphore: int = 0
    size: Argument | None = None
    scale: int = 1
    only: tuple[int, ...] = ()
    key: Argument | None = None
    is_wait: bool = False


@dataclass(frozen=True, slots=True)
class Sites:
    """All sites of a file; ``missing`` says which ops are not counted, and why."""

    sites: tuple[Site, ...]
    missing: tuple[str, ...]


class _Place(NamedTuple):
    """A place of an event in this file."""

    address: int
    offset: int
    semaphore: int
    arguments: tuple[str, ...] | None  # None: of a function


class _LacksError(Exception):
    """Something is missing in the file."""


def _lack(what: str) -> NoReturn:
    raise _LacksError(what)


def find_sites(file: BinaryIO, server: Server, machine: str) -> Sites:
    """The sites of a server's probes; ValueError if the file is not a program for this machine."""
    finder = _Finder(Elf(file), server, machine)
    sites: list[Site] = []
    lacks: dict[str, list[str]] = {}
    for way, probe in enumerate(server.probes):
        try:
            sites += finder.sites_of(way, probe)
        except _LacksError as error:  # noqa: PERF203 (few probes)
            lacks.setdefault(str(error), []).append(probe.op)
    counted = {site.op for site in sites if not site.is_wait and site.role != "unseen"}
    sites = [site for site in sites if site.op in counted]
    missing = [
        f"{server.title}: {', '.join(dict.fromkeys(ops))} not counted: {what}"
        for what, several in lacks.items()
        if (ops := [op for op in several if op not in counted])
    ]
    if len(sites) > MOST_SITES:
        msg = f"it has more than {MOST_SITES} probe sites"
        raise ValueError(msg)
    return Sites(tuple(sites), tuple(missing))


class _Finder:
    def __init__(self, elf: Elf, server: Server, machine: str) -> None:
        if elf.machine != _ELF_MACHINES.get(machine):
            msg = f"it is not a program for {machine}"
            raise ValueError(msg)
        self._elf, self._machine = elf, machine
        events = [e for p in server.probes for e in (*p.starts, p.done, p.cancel, *p.drop)]
        named = [event.removeprefix("function:") for event in events if ":" in event]
        self._functions = elf.symbols([name for name in named if ":" not in name], FUNCTION)
        variables = {p.only.variable for p in server.probes if p.only} - {""}
        self._variables = elf.symbols(variables, VARIABLE)
        providers = {event.split(":")[1] for event in events if event.startswith("usdt:")}
        self._points = {provider: elf.probe_points(provider) for provider in providers}

    def sites_of(self, way: int, probe: ServerProbe) -> list[Site]:
        """The sites of one probe."""
        start: Role = "unseen" if probe.unseen else "first" if probe.cancel else "start"
        roles: tuple[tuple[Role, str], ...] = (
            *((start, event) for event in probe.starts),
            ("done", "" if probe.unseen else probe.done or probe.starts[0]),
            ("cancel", probe.cancel),
            *(("drop", event) for event in probe.drop),
        )
        made = []
        for role, event in roles:
            at_return = role == "done" and not probe.done
            for place in self._places(event) if event else ():
                size = self._size(probe, role, place, at_return=at_return)
                key = self._argument(place, probe.key) if probe.key else None
                where = (way, place.offset, at_return, place.semaphore)
                chosen = probe.only and (probe.only.values or (ANY_VALUE,))
                only = chosen if chosen and role in _COMPARED else ()
                more = (probe.scale, only, key, probe.is_wait)
                made.append(Site(probe.op, role, *where, size, *more))
        return made

    def _places(self, event: str) -> list[_Place]:
        kind, _, name = event.partition(":")
        if kind == "function":
            address = self._functions.get(name)
            if address is None:
                _lack(f"the program has no function {name} (stripped?)")
            return [_Place(address, self._elf.code_at(address), 0, None)]
        provider, _, point = name.partition(":")
        points = self._points[provider].get(point)
        if not points:
            _lack(f"the program has no probe point {point}")
        return [self._place_of(point) for point in points]

    def _place_of(self, point: ProbePoint) -> _Place:
        semaphore = self._elf.variable_at(point.semaphore) if point.semaphore else 0
        return _Place(point.address, self._elf.code_at(point.address), semaphore, point.arguments)

    def _size(
        self, probe: ServerProbe, role: Role, place: _Place, *, at_return: bool
    ) -> Argument | None:
        number: int | str = probe.bytes
        of = probe.bytes_at
        width, signed = 8, True
        if probe.only and probe.only.variable:
            return None if role == "done" else self._variable(place, probe.only)
        if probe.only:
            number, of, width, signed = probe.only.argument, "start", 4, False
        if number == "return":
            returned = Argument("register", _RETURNED[self._machine], 0, width, signed)
            return returned if at_return else None
        if (
            not isinstance(number, int)
            or not number
            or (role == "done") != (of == "done")
            or role not in _COMPARED
        ):
            return None
        if at_return:
            _lack(f"argument {number} is not available at the return")
        if probe.bytes_is_int:
            width = 4
        return self._argument(place, number, width, signed=probe.bytes_is_int)

    def _variable(self, place: _Place, only: Only) -> Argument:
        """A variable of the program, which is moved as a whole: by its distance from the probe."""
        address = self._variables.get(only.variable)
        if address is None:
            _lack(f"the program has no variable {only.variable}")
        width = 4 if only.values else 8  # a number, or a pointer
        return Argument("memory", _HERE[self._machine], address - place.address, width)

    def _argument(
        self, place: _Place, number: int, width: int = 8, *, signed: bool = False
    ) -> Argument:
        if place.arguments is None:
            registers = _CALL_ARGUMENTS[self._machine]
            if number > len(registers):
                _lack(f"argument {number} is not in a register")
            return Argument("register", registers[number - 1], 0, width, signed)
        if number > len(place.arguments):
            _lack(f"the probe point has no argument {number}")
        return parse_argument(place.arguments[number - 1], self._machine)


def parse_argument(text: str, machine: str) -> Argument:
    """Parse a note's argument: ``-4@%edx``, ``8@-16(%rbp)``, ``8@[sp, 16]``."""
    whole = _ARGUMENT.fullmatch(text)
    forms, registers = (_X86_FORMS, _X86) if machine == "x86_64" else (_ARM_FORMS, _ARM)
    found = forms.fullmatch(whole[3]) if whole else None
    if whole is None or found is None:
        _lack(f"an argument has an unknown form ({text})")
    sign, width = whole[1] == "-", int(whole[2])
    if found["constant"]:
        return Argument("constant", 0, int(found["constant"]), width, sign)
    name = found["register"] or found["base"]
    register = registers.get(_plain(name) if machine == "x86_64" else name)
    if register is None:
        _lack(f"an argument is in an unknown register ({name})")
    kind: Literal["register", "memory"] = "register" if found["register"] else "memory"
    return Argument(kind, register, int(found["displacement"] or 0), width, sign)


def _plain(name: str) -> str:
    """``rax``, ``eax``, ``ax`` or ``r8d`` without the parts that give the width."""
    if numbered := re.fullmatch(r"r(\d+)[dwb]?", name):
        return numbered[1]
    return name[1:] if len(name) == 3 and name[0] in "re" else name
