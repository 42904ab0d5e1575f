"""Compiles this kernel's probes into the cache, so that no start has to: a step of the set-up.

``python -m ioh.commands.prepare``, as root.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from ioh.bpf.btf import Btf
from ioh.bpf.defines import c_flags
from ioh.bpf.host import find_facts
from ioh.bpf.loader import how_it_ended
from ioh.bpf.program import attach_layer, choose_points
from ioh.layers import all_layers, find_probe
from ioh.model.filters import Filters
from ioh.model.printable import printable
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_AT_ONCE = 4  # each takes 200 MB
_SAID_WHY = 3  # LLVM exits with 1
# No filter, and what the filters compile to, alone and together, with any value: it is not compiled
# in.  All filters by process are one kind.
_KINDS = (
    Filters(),
    Filters(comm="ioh"),
    Filters(device=0),
    Filters(comm="ioh", device=0),
    Filters(port=1),
    Filters(sample_calls=True),
)


def main() -> int:
    """Compile each probe in a process of its own, because LLVM may end it; return 0."""
    due = list(_jobs())
    what, count, done = f"probes compiled for Linux {os.uname().release}", len(due), 0
    running: dict[int, str] = {}
    at_once = min(_MOST_AT_ONCE, len(os.sched_getaffinity(0)))
    while due or running:
        if due and len(running) < at_once:
            layer, filters = due.pop(0)
            running[_start(layer, filters)] = layer
            continue
        pid, ended = os.wait()
        layer, status = running.pop(pid), os.waitstatus_to_exitcode(ended)
        done += status == 0
        if status not in {0, _SAID_WHY}:
            _say(f"{layer}: {how_it_ended(status)}")
        if sys.stderr.isatty() or not (due or running):
            _say(f"{what}: {done} of {count}", end="" if due or running else "\n")
    return 0


def _jobs() -> Iterator[tuple[str, Filters]]:
    """Each layer with a probe, and the filters that change what is compiled."""
    for name, layer in all_layers().items():
        if (probe := layer.probe) is None:
            continue
        try:
            host = find_facts(Btf(probe.modules, probe.welcome_modules))
        except OSError:
            continue
        if isinstance(choose_points(probe.events, host), Unavailable):
            continue  # its modules are not loaded: it is compiled at the first mount
        known: list[list[str]] = []
        for filters in _KINDS:
            defines = probe.defines(host, filters)
            flags = [] if isinstance(defines, Unavailable) else c_flags(defines)[0]
            if flags not in known:
                known.append(flags)
                yield name, filters


def _start(layer: str, filters: Filters) -> int:
    """Start a process that compiles; it exits with 0, or with _SAID_WHY."""
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    status = _SAID_WHY
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.stderr = os.fdopen(os.dup(2), "w")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the compiler's many lines
        # Attached until this process ends: the kernel decides which form of it is used.
        answer, _, _ = attach_layer(find_probe(layer), filters, {}, bool)
        if "reason" in answer:
            _say(f"{layer}: {answer['reason']}")
        else:
            status = 0
    except BaseException as error:  # noqa: BLE001 (one line, and the others go on)
        _say(f"{layer}: {type(error).__name__}: {error}")
    finally:
        os._exit(status)


def _say(text: str, end: str = "\n") -> None:
    """Print a line, in place of an unfinished one on a terminal."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{clear}ioh: {printable(text)}{end}")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
