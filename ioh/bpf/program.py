"""Compiles one layer's probe, or finds it compiled, and attaches it; in a child of the loader."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ioh.bpf.btf import Btf
from ioh.bpf.calls import (
    Made,
    Object,
    Outcome,
    attach_plain,
    attach_typed,
    create_map,
    lift_memory_limit,
    load_program,
    object_ids,
    open_object,
    set_element,
)
from ioh.bpf.compiled import Compiled, find, keep, key_of, renumber
from ioh.bpf.compiler import compile_probe, probe_source
from ioh.bpf.host import CASTS, HostFacts, find_facts, load_typed, resolve_casts
from ioh.model.limits import lack_behind
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from ioh.layers.base import AttachPoint, Event, Late, Layer
    from ioh.model.filters import Filters

# The maps that say what a late part, or the program of servers' functions, needs to know.
_LATE_MAPS = ("late_offsets", "sites")
_TAKERS_SMALL_HOST = 16384
_TAKERS_PER_CPU = 256  # an LRU map hands out up to 128 at a time to each


def attach_layer(
    layer: type[Layer], filters: Filters, handed_on: Mapping[str, Iterable[tuple[str, int]]]
) -> Outcome:
    """The answer for ioh, whatever goes wrong; ``handed_on`` is by layer, as Made has it."""
    started, joined = time.monotonic(), handed_on.get(layer.joins, ())
    try:
        host = find_facts(Btf(layer.modules, layer.welcome_modules))
        for form in forms_of(layer, host):
            outcome = attach_program(layer, form, filters, dict(joined))
            if not isinstance(outcome, Unavailable):
                break
    except OSError as error:
        refused = (str(error), "needs a kernel with CONFIG_DEBUG_INFO_BTF, and libbpf")
        outcome = Unavailable(*(lack_behind(error) or refused))
    if isinstance(outcome, Unavailable):
        return {"reason": outcome.reason, "hint": outcome.hint}, [], Made()
    outcome[0]["seconds"] = round(time.monotonic() - started, 3)
    return outcome


def c_constant(value: int | str) -> str:
    """A ``-D`` value; a string becomes a C string literal with every byte spelled out."""
    if isinstance(value, int):
        return f"{value}ULL" if value >= 1 << 31 else str(value)
    spelled = "".join(f"\\x{byte:02x}" for byte in value.encode("utf-8", "surrogateescape"))
    return f'"{spelled}"'


def choose_points(events: tuple[Event, ...], host: HostFacts) -> dict[str, int] | Unavailable:
    """Which way to attach each event on this host: the index of its first usable point.

    Events without a usable point are left out; Unavailable when one of them is needed.
    """
    chosen: dict[str, int] = {}
    for event in events:
        is_usable = event.usable is None or event.usable(host.btf)
        for index, point in enumerate(event.points if is_usable else ()):
            if host.btf.tracepoint(point.event) is not None:
                chosen[event.name] = index
                break
        else:
            if event.needed:
                names = ", ".join(p.event for p in event.points)
                return Unavailable(
                    f"this kernel has no raw tracepoint {names}",
                    "a kernel with CONFIG_TRACEPOINTS and BTF (CONFIG_DEBUG_INFO_BTF) has it",
                )
    return chosen


def all_defines(
    layer: type[Layer], host: HostFacts, filters: Filters, chosen: Mapping[str, int]
) -> Mapping[str, int | str] | Unavailable:
    """The ``-D`` constants of one layer's probe: its own, and what every probe may ask for.

    ``ON_<EVENT>`` is the point chosen, counted from 1; ``AT_<EVENT>`` the event's place among the
    chosen ones.
    """
    own = layer.defines(host, filters)
    if isinstance(own, Unavailable):
        return own
    defines = dict(own)
    if layer.trusts(host):
        defines["TRUSTED"] = 1
        if host.cast is not None:
            ids = {name: host.btf.struct_id(kind) for name, kind in layer.cast_types.items()}
            known = {f"TYPE_{name}": found for name, found in ids.items() if found is not None}
            defines |= {"CASTS": CASTS, **known}
    if host.alone:
        defines["ALONE"] = 1
    if host.preempted:
        defines["PREEMPTED"] = 1
    if layer.copies(host) > 1:
        takers = max(_TAKERS_SMALL_HOST, _TAKERS_PER_CPU * host.cpu_count)
        defines |= {"COPIES": layer.copies(host), "EVENTS": len(chosen), "TAKERS": takers}
    for at, (name, point) in enumerate(chosen.items()):
        defines |= {f"ON_{name.upper()}": point + 1, f"AT_{name.upper()}": at}
    return defines


def forms_of(layer: type[Layer], host: HostFacts) -> list[HostFacts]:
    """What a layer's probe may build upon, the cheapest form first; a verifier can refuse each."""
    forms = [host]
    if layer.trusts(host):
        forms += [replace(host, cast=None)] if host.cast is not None else []
        forms.append(replace(host, cast=None, trusted_loads=False))
    return forms


def attach_program(
    layer: type[Layer],
    host: HostFacts,
    filters: Filters,
    handed_on: Mapping[str, int],
) -> Outcome | Unavailable:
    """Compile, verify and attach one layer's probe; it runs while its descriptors are open.

    Returns descriptors of maps, programs and links, and an answer whose ``points`` say which way
    each event was attached, ``missing`` which optional events this kernel does not have.  The
    programs begin with those that are not attached yet (those of a late part, or that of servers'
    functions), and end with ``copies`` for each of ``points``, in that order.  Unavailable, with
    the compiler's or verifier's own last line, when one of them refuses.
    """
    chosen = choose_points(layer.events, host)
    if isinstance(chosen, Unavailable):
        return chosen
    defines = all_defines(layer, host, filters, chosen)
    if isinstance(defines, Unavailable):
        return defines
    compiled = _compiled(layer, defines, chosen)
    if isinstance(compiled, Unavailable):
        return compiled
    try:
        lift_memory_limit()
        map_fds = [create_map(spec) for spec in compiled.maps]
        programs, handlers = _load_all(compiled, map_fds, layer, chosen, host)
        typed = layer.trusts(host)
        links = [
            attach_typed(program) if typed else attach_plain(program, event)
            for program, event in handlers
            if not _is_called(program, handed_on.get(event))
        ]
    except OSError as error:
        refused = (f"BPF refused: {error}", "ioh doctor says what this kernel allows")
        return Unavailable(*(lack_behind(error) or refused))
    points = {name: point.event for name, point in _chosen_points(layer, chosen).items()}
    missing = {e.name: e.gives for e in layer.events if e.name not in chosen}
    program_fds = [*programs, *(program for program, _ in handlers)]
    late = programs[: len(_late_points(layer)) + bool(layer.server_program)]
    answer = {
        "maps": [asdict(spec) for spec in compiled.maps],
        "programs": len(program_fds),
        "has_late": bool(late),
        "copies": layer.copies(host),
        "points": points,
        "missing": missing,
    }
    maps = dict(zip((spec.name for spec in compiled.maps), object_ids("map", map_fds), strict=True))
    told = tuple(maps[name] for name in maps if name in _LATE_MAPS)
    handing = [e for e in layer.events if e.hands_on and e.name in points]
    arrays = tuple((points[e.name], maps[e.hands_on][1]) for e in handing)
    made = Made(tuple(maps.values()), (*told, *object_ids("program", late)), arrays)
    return answer, [*map_fds, *program_fds, *links], made


def _chosen_points(layer: type[Layer], chosen: Mapping[str, int]) -> dict[str, AttachPoint]:
    return {e.name: e.points[chosen[e.name]] for e in layer.events if e.name in chosen}


def _late_points(layer: type[Layer]) -> tuple[AttachPoint, ...]:
    return layer.late.points if layer.late is not None else ()


def _compiled(
    layer: type[Layer], defines: Mapping[str, int | str], chosen: Mapping[str, int]
) -> Compiled | Unavailable:
    """The layer's probe as it was kept, or compiled now, and kept."""
    source = probe_source(layer.probe)
    flags = [f"-D{name}={c_constant(value)}" for name, value in defines.items()]
    points = (*_chosen_points(layer, chosen).values(), *_late_points(layer))
    functions = {step.function for step in layer.steps} | {point.function for point in points}
    functions |= {layer.server_program} - {""}
    key = key_of(source, flags, functions)
    if key is not None and (kept := find(key)) is not None:
        return kept
    made = compile_probe(source, flags, functions)
    if key is not None and isinstance(made, Compiled):
        keep(key, made)
    return made


def _load_all(
    compiled: Compiled,
    map_fds: Sequence[int],
    layer: type[Layer],
    chosen: Mapping[str, int],
    host: HostFacts,
) -> tuple[list[int], list[tuple[int, str]]]:
    """The descriptors of programs that others call, and of those to attach, each with where.

    Everything is loaded before the first program is attached: the verifier takes long enough
    for thousands of operations to begin under one program and to end unseen by the next.
    """
    places = dict(enumerate(map_fds))
    typed = layer.trusts(host)

    def load(function: str, event: str) -> int:
        code = renumber(compiled.functions[function], places)
        if typed:
            return load_typed(function, resolve_casts(code, host.cast), event, host.btf)
        return load_program(function, code, None)

    # Not typed: the types of a module's tracepoints are not among the kernel's own.
    programs = [
        load_program(point.function, renumber(compiled.functions[point.function], places), None)
        for point in _late_points(layer)
    ]
    if name := layer.server_program:
        code = renumber(compiled.functions[name], places)
        programs.append(load_program(name, code, None, of_user_space=True))
    for step in layer.steps:
        programs.append(load(step.function, step.event))
        array = next(at for at, spec in enumerate(compiled.maps) if spec.name == step.array)
        set_element(map_fds[array], 0, programs[-1])
    points = _chosen_points(layer, chosen).values()
    copied = [point for point in points for _ in range(layer.copies(host))]
    return programs, [(load(point.function, point.event), point.event) for point in copied]


def _is_called(program: int, array: int | None) -> bool:
    """Let another layer's program call it, by the array of that number; False: attach it."""
    if array is None:
        return False
    try:
        fd = open_object(("map", array))
    except OSError:  # detached meanwhile
        return False
    try:
        set_element(fd, 0, program)
    except OSError:  # the other one is of another form
        return False
    finally:
        os.close(fd)
    return True


def attach_late_part(layer: type[Layer], objects: Sequence[Object]) -> Outcome:
    """Attach the part of a running probe that its layer wants now, its module being loaded.

    By the probe's map ``late_offsets``, if it has one, then a program for each point.  Returns the
    answer for ioh, whatever goes wrong.
    """
    if layer.late is None:
        return {"reason": "the layer has no such part"}, [], Made()
    try:
        links = _attach_late(layer.late, [open_object(made) for made in objects])
    except OSError as error:
        lack = lack_behind(error)
        return {"reason": lack.cause if lack else error.strerror or str(error)}, [], Made()
    return {"reason": ""}, links, Made(object_ids("link", links))


def _attach_late(late: Late, programs: list[int]) -> list[int]:
    """Write the offsets of the module's structs for the probe, then attach its programs."""
    if late.offsets:
        offsets_map, btf = programs.pop(0), Btf((late.module,))
        for index, (owner, member) in enumerate(late.offsets):
            offset = btf.offset(owner, member)
            if offset is None:
                raise OSError(0, f"this kernel's struct {owner} has no {member}")
            set_element(offsets_map, index, offset)
    points = zip(programs, late.points, strict=True)
    return [attach_plain(program, point.event) for program, point in points]
