"""Compiles one layer's probe with bcc and attaches it; runs in a child of the loader."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioh.bpf.maps import MapSpec
from ioh.bpf.source import probes_dir
from ioh.bpf.typed import attach_typed, load_typed
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from bcc import BPF

    from ioh.bpf.host import HostFacts
    from ioh.layers.base import Event, Layer
    from ioh.model.filters import Filters


_TAKERS_SMALL_HOST = 16384
_TAKERS_PER_CPU = 256  # an LRU map hands out up to 128 at a time to each


@dataclass(frozen=True, slots=True)
class AttachedProgram:
    """A probe that runs: keep every descriptor open for as long as it shall.

    Shape:
        ``maps[i]`` belongs to ``map_fds[i]``.  ``points`` tells which way each event was
        attached, ``missing`` which optional events this kernel does not have.  ``program_fds``
        ends with ``copies`` programs for each of ``points``, in that order.
    """

    maps: tuple[MapSpec, ...]
    map_fds: tuple[int, ...]
    program_fds: tuple[int, ...]
    link_fds: tuple[int, ...]
    points: Mapping[str, str]
    missing: Mapping[str, str]
    copies: int


def c_constant(value: int | str) -> str:
    """A ``-D`` value; a string becomes a C string literal with every byte spelled out."""
    if isinstance(value, int):
        return f"{value}ULL" if value >= 1 << 31 else str(value)
    return '"' + "".join(f"\\x{byte:02x}" for byte in value.encode()) + '"'


def probe_source(name: str) -> str:
    """One probe's C with our own headers in place: bcc rewrites map accesses in the main file."""

    def include(match: re.Match[str]) -> str:
        return (probes_dir() / match[1]).read_text()

    source = (probes_dir() / f"{name}.c").read_text()
    return re.sub(r'^#include "([a-z_]+\.h)"$', include, source, flags=re.MULTILINE)


def choose_points(events: tuple[Event, ...], host: HostFacts) -> dict[str, int] | Unavailable:
    """Which way to attach each event on this host: the index of its first usable point.

    Returns:
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

    Shape:
        ``ON_<EVENT>`` is the point chosen, counted from 1; ``AT_<EVENT>`` the event's place
        among the chosen ones.
    """
    own = layer.defines(host, filters)
    if isinstance(own, Unavailable):
        return own
    defines = dict(own)
    if layer.trusts(host):
        defines["TRUSTED"] = 1
    if host.preempted:
        defines["PREEMPTED"] = 1
    if layer.copies(host) > 1:
        takers = max(_TAKERS_SMALL_HOST, _TAKERS_PER_CPU * host.cpu_count)
        defines |= {"COPIES": layer.copies(host), "EVENTS": len(chosen), "TAKERS": takers}
    for at, (name, point) in enumerate(chosen.items()):
        defines |= {f"ON_{name.upper()}": point + 1, f"AT_{name.upper()}": at}
    return defines


def attach_program(
    layer: type[Layer], host: HostFacts, filters: Filters
) -> AttachedProgram | Unavailable:
    """Compile, verify and attach one layer's probe.

    Returns:
        Unavailable, with the compiler's or verifier's own last line, when the kernel or bcc
        refuses.
    """
    chosen = choose_points(layer.events, host)
    if isinstance(chosen, Unavailable):
        return chosen
    defines = all_defines(layer, host, filters, chosen)
    if isinstance(defines, Unavailable):
        return defines
    # bcc insists on a kernel source tree and needs these few stand-in headers of it.
    os.environ["BCC_KERNEL_SOURCE"] = str(probes_dir())
    try:
        import bcc
    except ImportError as error:
        return Unavailable(f"bcc cannot be imported: {error}", "apt-get install python3-bpfcc")
    if not hasattr(bcc, "BPF"):
        return Unavailable(
            "the module called bcc is another program (PyPI's bcc)",
            "pip uninstall bcc; apt-get install python3-bpfcc",
        )
    source = probe_source(layer.probe)
    flags = [f"-D{name}={c_constant(value)}" for name, value in defines.items()]
    try:
        bpf = bcc.BPF(text=source, cflags=[*flags, f"-I{probes_dir()}", "-Wno-everything"])
        programs, links = _attach_all(bpf, layer, chosen, host)
    except Exception as error:  # noqa: BLE001 (bcc raises bare Exception)
        return Unavailable(f"BPF refused: {error}", "ioh doctor says what this kernel allows")
    return _describe(bpf, layer.events, chosen, (programs, links), layer.copies(host))


def _attach_all(
    bpf: BPF, layer: type[Layer], chosen: Mapping[str, int], host: HostFacts
) -> tuple[list[int], list[int]]:
    """The programs' descriptors, steps included, and the links' that keep them attached.

    Everything is loaded before the first program is attached: the verifier takes long enough
    for thousands of operations to begin under one program and to end unseen by the next.
    """
    programs: list[int] = []
    load = _load_typed if layer.trusts(host) else _load_raw
    for step in layer.steps:
        programs.append(load(bpf, step.function, step.event, host))
        key = (0).to_bytes(4, sys.byteorder)
        array = bpf[step.array]
        value = programs[-1].to_bytes(4, sys.byteorder)
        if _declared_lib().bpf_update_elem(array.map_fd, key, value, 0) != 0:
            msg = f"cannot put {step.function} into {step.array}"
            raise OSError(msg)
    points = [e.points[chosen[e.name]] for e in layer.events if e.name in chosen]
    points = [point for point in points for _ in range(layer.copies(host))]
    handlers = [load(bpf, point.function, point.event, host) for point in points]
    links = [
        _attach(program, point.event, typed=layer.trusts(host))
        for program, point in zip(handlers, points, strict=True)
    ]
    return [*programs, *handlers], links


def _load_raw(bpf: BPF, function: str, event: str, host: HostFacts) -> int:
    del event, host
    import bcc

    bpf.funcs.pop(function.encode(), None)  # bcc would give back the copy it loaded before
    fd: int = bpf.load_func(function, bcc.BPF.RAW_TRACEPOINT).fd
    return fd


def _load_typed(bpf: BPF, function: str, event: str, host: HostFacts) -> int:
    lib = _declared_lib()
    name = function.encode()
    code = ctypes.string_at(
        lib.bpf_function_start(bpf.module, name), lib.bpf_function_size(bpf.module, name)
    )
    return load_typed(function, code, event, host.btf)


def _attach(program: int, event: str, *, typed: bool) -> int:
    if typed:
        return attach_typed(program)
    link: int = _declared_lib().bpf_attach_raw_tracepoint(program, event.encode())
    if link < 0:
        msg = f"cannot attach to {event}"
        raise OSError(msg)
    return link


def _describe(
    bpf: BPF,
    events: tuple[Event, ...],
    chosen: Mapping[str, int],
    fds: tuple[list[int], list[int]],
    copies: int,
) -> AttachedProgram:
    lib = _declared_lib()
    maps: list[MapSpec] = []
    map_fds: list[int] = []
    for index in range(lib.bpf_num_tables(bpf.module)):
        maps.append(
            MapSpec(
                lib.bpf_table_name(bpf.module, index).decode(),
                lib.bpf_table_type_id(bpf.module, index),
                lib.bpf_table_key_size_id(bpf.module, index),
                lib.bpf_table_leaf_size_id(bpf.module, index),
                lib.bpf_table_max_entries_id(bpf.module, index),
            )
        )
        map_fds.append(lib.bpf_table_fd_id(bpf.module, index))
    points = {e.name: e.points[chosen[e.name]].event for e in events if e.name in chosen}
    missing = {e.name: e.gives for e in events if e.name not in chosen}
    programs, links = fds
    return AttachedProgram(
        tuple(maps), tuple(map_fds), tuple(programs), tuple(links), points, missing, copies
    )


def _declared_lib() -> ctypes.CDLL:
    """bcc's C library with the prototypes that its Python side does not declare."""
    import bcc

    lib: ctypes.CDLL = bcc.lib
    lib.bpf_num_tables.argtypes = (ctypes.c_void_p,)
    lib.bpf_num_tables.restype = ctypes.c_size_t
    lib.bpf_function_start.argtypes = lib.bpf_function_size.argtypes = (
        ctypes.c_void_p,
        ctypes.c_char_p,
    )
    lib.bpf_function_start.restype = ctypes.c_void_p
    lib.bpf_function_size.restype = ctypes.c_size_t
    for name, result in (
        ("bpf_table_name", ctypes.c_char_p),
        ("bpf_table_key_size_id", ctypes.c_size_t),
        ("bpf_table_leaf_size_id", ctypes.c_size_t),
        ("bpf_table_fd_id", ctypes.c_int),
    ):
        function = getattr(lib, name)
        function.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        function.restype = result
    return lib
