"""Compiles a layer's probe with bcc; nothing else uses bcc."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.calls import map_shape
from ioh.bpf.compiled import Compiled, renumber
from ioh.bpf.layout import declarations
from ioh.bpf.maps import MapSpec
from ioh.bpf.totals import OP_TOTALS
from ioh.bpf.values import count_places
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from bcc import BPF

    from ioh.bpf.probe import Probe

_PACKAGE = Path(__file__).resolve().parent.parent


def probes_dir() -> Path:
    """The directory of ``<layer>.c`` and ``ioh.h``, in a checkout or in the package."""
    for candidate in (_PACKAGE.parent / "probes", _PACKAGE / "probes"):
        if (candidate / "ioh.h").is_file():
            return candidate
    msg = f"no probes directory next to or inside {_PACKAGE}"
    raise FileNotFoundError(msg)


def probe_source(probe: Probe) -> str:
    """A probe's C after its structs, with our headers inlined.

    bcc rewrites map accesses in the main file only.
    """
    folder = probes_dir()
    code = re.sub(
        r'^#include "([a-z_]+\.h)"$',
        lambda match: (folder / match[1]).read_text(),
        (folder / f"{probe.spec.name}.c").read_text(),
        flags=re.MULTILINE,
    )
    return declarations((OP_TOTALS, *probe.structs)) + code


def compile_probe(
    source: str, flags: Sequence[str], functions: Iterable[str], values: int = 0
) -> Compiled | Unavailable:
    """Compile functions of a probe with so many values of filters.

    The maps that bcc creates for it are closed again.

    Unavailable, with the compiler's last line, if bcc is missing or fails.
    """
    # bcc requires a kernel source tree; these few headers stand in for it.
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
        cflags = [*flags, f"-I{probes_dir()}", "-Wno-everything"]
        with bcc.BPF(text=source, cflags=cflags) as bpf:
            return _described(bpf, bcc.lib, functions, values)
    except Exception as error:  # noqa: BLE001 (bcc raises bare Exception)
        return Unavailable(f"BPF refused: {error}", "run ioh doctor to see what this kernel allows")


def _described(bpf: BPF, lib: ctypes.CDLL, functions: Iterable[str], values: int) -> Compiled:
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
    return Compiled(tuple(maps), code, count_places(code.values(), values))
