"""Compiles a virtual machine's probes here, into the cache of ioh, which the machine sees.

    python -m tests.vm.prepare KERNEL_DIR    as tests/vm/kernel.sh prints it

Under emulation a probe takes half a minute.  What is not found there is compiled there, as ever;
that kernel verifies all code.  Needs root, since bcc makes the maps as it compiles.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

from ioh.bpf.host import HostFacts
from ioh.layers import find_probe
from ioh.model.filters import Filters
from tests.kernel.probe_stack import compile_layer
from tests.vm.compile_probes import LAYERS, PREEMPTED_SINCE
from tests.vm.kernel_btf import open_btf, unpack_btf

LOADED = {"overlay"}  # of the modules that a layer can do without; see tests/vm/initrd-init
# What the machine's tests ask for; the values are not compiled in.
KINDS = {
    "syscall": (Filters(), Filters(pid=1), Filters(device=0), Filters(comm="ioh")),
    "block": (Filters(), Filters(device=0)),
    "tcp": (Filters(), Filters(device=0)),
}


def main(kernel_dir: Path) -> None:
    """Compile each layer in the form that this kernel takes."""
    warnings.filterwarnings("ignore", "not a bytes object")  # bcc's, of a str
    preempted = int((kernel_dir / "version").read_text().split(".")[0]) >= PREEMPTED_SINCE
    for name in LAYERS:
        probe = find_probe(name)
        modules = probe.modules + tuple(LOADED.intersection(probe.welcome_modules))
        with tempfile.TemporaryDirectory() as directory:
            unpack_btf(kernel_dir, modules, Path(directory))
            btf = open_btf(Path(directory), modules)
            host = HostFacts(
                btf,
                cpu_count=2,
                cast=btf.function_id("bpf_rdonly_cast"),
                alone=True,
                preempted=preempted,
                trace_events=preempted,
            )
            for filters in KINDS.get(name, (Filters(),)):
                compile_layer(name, host, filters, into_cache=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
