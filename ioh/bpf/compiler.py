"""Compiles one layer's probe with bcc, which is used for nothing else."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.calls import map_shape
from ioh.bpf.compiled import Compiled, renumber
from ioh.bpf.maps import MapSpec
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from bcc import BPF

_PACKAGE = Path(__file__).resolve().parent.parent


def probes_dir() -> Path:
    """The directory of ``<layer>.c`` and ``ioh.h``, in a checkout or inside the package."""
    for candidate in (_PACKAGE.parent / "probes", _PACKAGE / "probes"):
        if (candidate / "ioh.h").is_file():
            return candidate
    msg = f"no probes directory beside or inside {_PACKAGE}"
    raise FileNotFoundError(msg)


def probe_source(name: str) -> str:
    """One probe's C with our own headers in place: bcc rewrites map accesses in the main file."""
    folder = probes_dir()
    return re.sub(
        r'^#include "([a-z_]+\.h)"$',
        lambda match: (folder / match[1]).read_text(),
        (folder / f"{name}.c").read_text(),
        flags=re.MULTILINE,
    )


def compile_probe(
    source: str, flags: Sequence[str], functions: Iterable[str]
) -> Compiled | Unavailable:
    """Compile some functions of a probe; the maps that bcc makes meanwhile go with it.

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
        return _described(bpf, bcc.lib, functions)
    except Exception as error:  # noqa: BLE001 (bcc raises bare Exception)
        return Unavailable(f"BPF refused: {error}", "ioh doctor says what this kernel allows")


def _described(bpf: BPF, lib: ctypes.CDLL, functions: Iterable[str]) -> Compiled:
    # bcc's Python side does not declare these.
    lib.bpf_num_tables.argtypes = (ctypes.c_void_p,)
    lib.bpf_num_tables.restype = ctypes.c_size_t
    lib.bpf_table_name.argtypes = lib.bpf_table_fd_id.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    lib.bpf_table_name.restype = ctypes.c_char_p
    maps, places = [], {}
    for index in range(lib.bpf_num_tables(bpf.module)):
        fd = lib.bpf_table_fd_id(bpf.module, index)
        places[fd] = index
        maps.append(MapSpec(lib.bpf_table_name(bpf.module, index).decode(), *map_shape(fd)))
    code = {name: renumber(bpf.dump_func(name.encode()), places) for name in functions}
    return Compiled(tuple(maps), code)
