"""Compiles a layer's probe, or finds it in the cache, and attaches it; in a loader's child."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from ioh.bpf.btf import Btf
from ioh.bpf.calls import (
    AT_EVENT,
    OF_USER_SPACE,
    PLAIN,
    KernelObjects,
    Object,
    Outcome,
    ProgramKind,
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
from ioh.bpf.defines import c_flags, numbered
from ioh.bpf.host import CASTS, HostFacts, find_facts, load_typed, resolve_casts
from ioh.bpf.totals import hist_defines
from ioh.bpf.trace_events import attach_to_event
from ioh.bpf.trap_cost import measure_trap
from ioh.bpf.values import fill
from ioh.model.limits import lack_behind
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from ioh.bpf.probe import AttachPoint, Event, OnDemand, Probe
    from ioh.model.filters import Filters

# The maps with parameters of an on-demand part, or of the program for servers' functions.
_DEMAND_MAPS = ("demand_offsets", "sites")
_TAKERS_SMALL_HOST = 16384
_TAKERS_PER_CPU = 256  # an LRU map gives each CPU up to 128 entries at a time


def attach_layer(
    probe: Probe,
    filters: Filters,
    handed_on: Mapping[str, Iterable[tuple[str, int]]],
    report_compiling: Callable[[], object],
) -> Outcome:
    """Attach a layer; return an answer in any case.

    ``handed_on`` is by layer, as in KernelObjects.  ``report_compiling`` is called if the cache
    does not have the probe.
    """
    started, joined = time.monotonic(), handed_on.get(probe.joins, ())
    try:
        host = find_facts(Btf(probe.modules, probe.welcome_modules))
        for form in forms_of(probe, host):
            outcome = attach_program(probe, form, filters, dict(joined), report_compiling)
            if not isinstance(outcome, Unavailable):
                break
    except OSError as error:
        refused = (str(error), "needs a kernel with CONFIG_DEBUG_INFO_BTF, and libbpf")
        outcome = Unavailable(*(lack_behind(error) or refused))
    if isinstance(outcome, Unavailable):
        return {"reason": outcome.reason, "hint": outcome.hint}, [], KernelObjects()
    outcome[0]["seconds"] = round(time.monotonic() - started, 3)
    return outcome


def choose_points(events: tuple[Event, ...], host: HostFacts) -> dict[str, int] | Unavailable:
    """Choose each event's attach point on this host: the index of the first usable one.

    Leaves out events without one; Unavailable if such an event is needed.
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
                    "needs a kernel with CONFIG_TRACEPOINTS and BTF (CONFIG_DEBUG_INFO_BTF)",
                )
    return chosen


def all_defines(
    probe: Probe, host: HostFacts, filters: Filters, chosen: Mapping[str, int]
) -> Mapping[str, int] | Unavailable:
    """The ``-D`` constants of a layer's probe: its own and those of every probe.

    ``OP_<OP>``, ``LOST_<REASON>``: positions in the spec, from 0; ``OPS`` is the number of ops.
    ``ON_<EVENT>``: the chosen point, from 1.  ``AT_<EVENT>``: the event's position, from 0.
    """
    own = probe.defines(host, filters)
    if isinstance(own, Unavailable):
        return own
    ops, lost = probe.spec.ops, probe.spec.lost
    defines = {**hist_defines(), "OPS": len(ops), "LOST_REASONS": len(lost), **own}
    defines |= numbered("OP_", ops) | numbered("LOST_", lost)
    if probe.trusts(host):
        defines["TRUSTED"] = 1
        if host.cast is not None:
            ids = {name: host.btf.struct_id(kind) for name, kind in probe.cast_types.items()}
            known = {f"TYPE_{name}": found for name, found in ids.items() if found is not None}
            defines |= {"CASTS": CASTS, **known}
    if host.alone:
        defines["ALONE"] = 1
    if host.preempted:
        defines["PREEMPTED"] = 1
    defines |= dict.fromkeys(probe.records(host), 1)
    if probe.copies(host) > 1:
        takers = max(_TAKERS_SMALL_HOST, _TAKERS_PER_CPU * host.cpu_count)
        defines |= {"COPIES": probe.copies(host), "EVENTS": len(chosen), "TAKERS": takers}
    for at, (name, point) in enumerate(chosen.items()):
        defines |= {f"ON_{name.upper()}": point + 1, f"AT_{name.upper()}": at}
    return defines


def forms_of(probe: Probe, host: HostFacts) -> list[HostFacts]:
    """Forms of a layer's probe to try, best first; the kernel can refuse any of them."""
    forms = [host]
    if probe.at_events(host):
        host = replace(host, trace_events=False)
        forms.append(host)
    if probe.trusts(host):
        forms += [replace(host, cast=None)] if host.cast is not None else []
        forms.append(replace(host, cast=None, trusted_loads=False))
    return forms


def attach_program(
    probe: Probe,
    host: HostFacts,
    filters: Filters,
    handed_on: Mapping[str, int],
    report_compiling: Callable[[], object] = bool,
) -> Outcome | Unavailable:
    """Compile, verify and attach a layer's probe; it runs while its descriptors are open.

    Returns descriptors of maps, programs and links, and an answer.  Its ``points`` are the chosen
    tracepoints by event, ``missing`` the optional events that this kernel lacks.  The programs
    start with those not yet attached (on demand, or for servers' functions), and end with
    ``copies`` programs for each of ``points``, in that order.  Unavailable, with the last line of
    the compiler or verifier, if one of them refuses.
    """
    chosen = choose_points(probe.events, host)
    if isinstance(chosen, Unavailable):
        return chosen
    defines = all_defines(probe, host, filters, chosen)
    if isinstance(defines, Unavailable):
        return defines
    points = {e.name: e.points[chosen[e.name]] for e in probe.events if e.name in chosen}
    compiled = _compiled(probe, defines, points.values(), report_compiling)
    if isinstance(compiled, Unavailable):
        return compiled
    try:
        lift_memory_limit()
        map_fds = [create_map(spec) for spec in compiled.maps]
        programs, handlers = _load_all(compiled, map_fds, probe, points.values(), host)
        links = [
            _attach(program, event, probe, host)
            for program, event in handlers
            if not _is_called(program, handed_on.get(event))
        ]
    except OSError as error:
        refused = (f"BPF refused: {error}", "run ioh doctor to see what this kernel allows")
        return Unavailable(*(lack_behind(error) or refused))
    missing = {e.name: e.gives for e in probe.events if e.name not in chosen}
    program_fds = [*programs, *(program for program, _ in handlers)]
    on_demand = programs[: len(probe.demand_points) + bool(probe.server_program)]
    answer = {
        "maps": [asdict(spec) for spec in compiled.maps],
        "programs": len(program_fds),
        "has_on_demand": bool(on_demand),
        "copies": probe.copies(host),
        "points": {name: point.event for name, point in points.items()},
        "missing": missing,
    }
    maps = dict(zip((spec.name for spec in compiled.maps), object_ids("map", map_fds), strict=True))
    if probe.server_program:
        at = next(at for at, spec in enumerate(compiled.maps) if spec.name == "sites")
        answer["trap_ns"] = measure_trap(on_demand[-1], map_fds[at], compiled.maps[at].max_entries)
    demand_maps = tuple(maps[name] for name in maps if name in _DEMAND_MAPS)
    handing = [e for e in probe.events if e.hands_on and e.name in points]
    arrays = tuple((points[e.name].event, maps[e.hands_on][1]) for e in handing)
    later = (*demand_maps, *object_ids("program", on_demand))
    made = KernelObjects(tuple(maps.values()), later, arrays)
    return answer, [*map_fds, *program_fds, *links], made


def _compiled(
    probe: Probe,
    defines: Mapping[str, int],
    points: Iterable[AttachPoint],
    report_compiling: Callable[[], object],
) -> Compiled | Unavailable:
    """The layer's probe with its filters' values, from the cache or compiled now."""
    source = probe_source(probe)
    flags, values = c_flags(defines)
    functions = probe.functions(points)
    key = key_of(source, flags, functions)
    found = None if key is None else find(key)
    if found is None:
        report_compiling()
        made = compile_probe(source, flags, functions, len(values))
        if isinstance(made, Unavailable):
            return made
        found = made
        if key is not None:
            keep(key, found)
    try:
        return replace(found, functions=fill(found.functions, values, found.places))
    except ValueError as error:
        return Unavailable(str(error), "please report this")


def _load_all(
    compiled: Compiled,
    map_fds: Sequence[int],
    probe: Probe,
    points: Iterable[AttachPoint],
    host: HostFacts,
) -> tuple[list[int], list[tuple[int, str]]]:
    """Load all programs: descriptors of those that others call, and of those to attach, with where.

    All are loaded before the first is attached.  While the verifier runs, thousands of operations
    could start under one program and end unseen by the next.
    """
    places = dict(enumerate(map_fds))
    typed = probe.trusts(host)

    def load(function: str, event: str) -> int:
        code = renumber(compiled.functions[function], places)
        if event in probe.at_events(host):
            return load_program(function, resolve_casts(code, host.cast), AT_EVENT)
        if typed:
            return load_typed(function, resolve_casts(code, host.cast), event, host.btf)
        return load_program(function, code)

    def load_plain(function: str, kind: ProgramKind = PLAIN) -> int:
        return load_program(function, renumber(compiled.functions[function], places), kind)

    # Not typed: the kernel's own BTF does not have the types of a module's tracepoints.
    called = [partial(load_plain, point.function) for point in probe.demand_points]
    if probe.server_program is not None:
        called.append(partial(load_plain, probe.server_program.function, OF_USER_SPACE))
    first_step = len(called)
    called += [partial(load, step.function, step.event) for step in probe.steps]
    copied = [point for point in points for _ in range(probe.copies(host))]
    loaded = at_once([*called, *[partial(load, each.function, each.event) for each in copied]])
    programs = loaded[: len(called)]
    for step, program in zip(probe.steps, programs[first_step:], strict=True):
        array = next(at for at, spec in enumerate(compiled.maps) if spec.name == step.array)
        set_element(map_fds[array], 0, program)
    handlers = zip(loaded[len(called) :], copied, strict=True)
    return programs, [(program, point.event) for program, point in handlers]


def at_once(jobs: Sequence[Callable[[], int]]) -> list[int]:
    """The results of jobs that wait for the kernel, as many at a time as there are CPUs.

    The kernel verifies programs of one process in parallel.  Raises the first job's error after
    those already begun.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda job: job(), jobs))


def _attach(program: int, event: str, probe: Probe, host: HostFacts) -> int:
    if event in probe.at_events(host):
        return attach_to_event(program, event)
    return attach_typed(program) if probe.trusts(host) else attach_plain(program, event)


def _is_called(program: int, array: int | None) -> bool:
    """Make another layer's program call it, by program array ``array``; False: attach it."""
    if array is None:
        return False
    try:
        fd = open_object(("map", array))
    except OSError:  # detached since
        return False
    try:
        set_element(fd, 0, program)
    except OSError:  # the other program has another form
        return False
    finally:
        os.close(fd)
    return True


def attach_on_demand_part(probe: Probe, objects: Sequence[Object]) -> Outcome:
    """Attach the on-demand part of a running probe; return an answer in any case.

    ``objects``: the probe's map ``demand_offsets``, if it has one, then a program for each point.
    """
    if probe.on_demand is None:
        return {"reason": "the layer has no such part"}, [], KernelObjects()
    try:
        links = _attach_points(probe.on_demand, [open_object(made) for made in objects])
    except OSError as error:
        lack = lack_behind(error)
        return {"reason": lack.cause if lack else error.strerror or str(error)}, [], KernelObjects()
    return {"reason": ""}, links, KernelObjects(object_ids("link", links))


def _attach_points(part: OnDemand, programs: list[int]) -> list[int]:
    """Write the offsets of the module's structs into the map, then attach the programs."""
    if part.offsets:
        offsets_map, btf = programs.pop(0), Btf((part.module,))
        for index, (owner, member) in enumerate(part.offsets):
            offset = btf.offset(owner, member)
            if offset is None:
                raise OSError(0, f"this kernel's struct {owner} has no {member}")
            set_element(offsets_map, index, offset)
    points = zip(programs, part.points, strict=True)
    return [attach_plain(program, point.event) for program, point in points]
