"""Compiles one layer's probe with bcc, which is used for nothing else."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ioh.bpf.calls import map_flags
from ioh.bpf.compiled import Compiled, renumber
from ioh.bpf.maps import MapSpec
from ioh.bpf.source import probes_dir
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from bcc import BPF


def compile_probe(
    source: str, flags: Sequence[str], functions: Iterable[str]
) -> Compiled | Unavailable:
    """Compile a probe; the maps that bcc makes meanwhile go with it.

    Args:
        source: C, our own headers in place.
        flags: For the compiler.
        functions: The names of those that are wanted.

    Returns:
        Unavailable, with the compiler's own last line, when bcc is missing or refuses.
    """
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
    try:
        bpf = bcc.BPF(text=source, cflags=[*flags, f"-I{probes_dir()}", "-Wno-everything"])
        return _described(bpf, functions)
    except Exception as error:  # noqa: BLE001 (bcc raises bare Exception)
        return Unavailable(f"BPF refused: {error}", "ioh doctor says what this kernel allows")


def _described(bpf: BPF, functions: Iterable[str]) -> Compiled:
    lib = _declared_lib()
    maps, places = [], {}
    for index in range(lib.bpf_num_tables(bpf.module)):
        fd = lib.bpf_table_fd_id(bpf.module, index)
        places[fd] = index
        maps.append(
            MapSpec(
                lib.bpf_table_name(bpf.module, index).decode(),
                lib.bpf_table_type_id(bpf.module, index),
                lib.bpf_table_key_size_id(bpf.module, index),
                lib.bpf_table_leaf_size_id(bpf.module, index),
                lib.bpf_table_max_entries_id(bpf.module, index),
                map_flags(fd),
            )
        )
    code = {name: renumber(_instructions(bpf, name), places) for name in functions}
    return Compiled(tuple(maps), code)


def _instructions(bpf: BPF, function: str) -> bytes:
    lib, name = _declared_lib(), function.encode()
    start = lib.bpf_function_start(bpf.module, name)
    if not start:
        msg = f"the probe has no function {function}"
        raise ValueError(msg)
    return ctypes.string_at(start, lib.bpf_function_size(bpf.module, name))


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
