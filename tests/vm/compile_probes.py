"""Compiles all probes for kernels that do not run here, with the bcc that is here.

    python -m tests.vm.compile_probes KERNEL_DIR...    as tests/vm/kernel.sh prints them

Prints which program of each layer needs most stack.  The exit status is 1 if that is too much, and
not 0 if a probe does not compile.  Needs root, since bcc makes the maps as it compiles.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

from ioh.bpf.host import HostFacts
from ioh.bpf.program import forms_of
from ioh.layers import find_probe
from ioh.model.filters import Filters
from tests.kernel.probe_stack import STACK_BYTES_MAX, compile_layer, stack_bytes
from tests.vm.kernel_btf import open_btf, unpack_btf

LAYERS = ("db", "syscall", "nfs_client", "tcp", "nfs_server", "block")
PREEMPTED_SINCE = 7
# Cookies of probes; types of modules, without which other layers do as well.
SINCE = {"db": (5, 15), "nfs_client": (5, 11), "nfs_server": (5, 11)}


def _is_small_enough(kernel_dir: Path) -> bool:
    version = (kernel_dir / "version").read_text().strip()
    preempted = int(version.split(".")[0]) >= PREEMPTED_SINCE
    deepest, asked = 0, Filters(sample_calls=True)  # this compiles most of the code
    release = tuple(map(int, version.split(".")[:2]))
    for name in LAYERS:
        if release < SINCE.get(name, (0, 0)):
            print(f"{version} {name}: none on this kernel")
            continue
        probe = find_probe(name)
        modules = probe.modules + probe.welcome_modules if release >= SINCE["nfs_client"] else ()
        with tempfile.TemporaryDirectory() as directory:
            unpack_btf(kernel_dir, modules, Path(directory))
            btf = open_btf(Path(directory), modules)
            host = HostFacts(btf, cast=1, alone=True, preempted=preempted, trace_events=preempted)
            compiled = [compile_layer(name, form, asked) for form in forms_of(probe, host)]
        programs = [program for form in compiled for program in form.functions.items()]
        needed = {stack_bytes(code): function for function, code in programs}
        most = max(needed)
        print(f"{version} {name}: {most} of {STACK_BYTES_MAX} bytes of stack ({needed[most]})")
        deepest = max(deepest, most)
    return deepest <= STACK_BYTES_MAX


def main(kernel_dirs: list[str]) -> int:
    """Check every kernel, even if one has failed; return the exit status."""
    warnings.filterwarnings("ignore", "not a bytes object")  # bcc's, of a str
    if not kernel_dirs:
        sys.exit(__doc__)
    verdicts = [_is_small_enough(Path(name)) for name in kernel_dirs]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
