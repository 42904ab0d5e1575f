"""The bundled recording, and when it is offered: where live has nothing to show."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.commands.output import agrees, say

if TYPE_CHECKING:
    from ioh.model.snapshot import Snapshot

SAMPLE, DEMO = "sample", "demo"
HINT = f"a real recording to look at: ioh replay {SAMPLE}"


class SampleWantedError(Exception):
    """The user wants to see the bundled recording instead of this machine."""


def bundled_path(name: str) -> Path:
    """Where a recording that comes with ioh lies: SAMPLE or DEMO."""
    return Path(__file__).resolve().parent.parent / "data" / f"{name}.ioh"


def recording(text: str) -> str:
    """An argparse type: a file; ``sample``, where none is called so, is the bundled one."""
    return str(bundled_path(SAMPLE)) if text == SAMPLE and not os.path.lexists(text) else text


def why_nothing(snapshot: Snapshot) -> str:
    """Why an interval shows no I/O of programs or disks; "" where it shows some.

    TCP alone is not what anyone starts ioh for, unless no other layer was asked for.  A layer that
    comes by itself, as NFS does with the first mount, is waited for.
    """
    from ioh.model.snapshot import LayerSnapshot
    from ioh.sinks.rows import is_flow

    reasons = []
    for name, layer in snapshot.layers.items():
        if not isinstance(layer, LayerSnapshot):
            if not layer.is_idle:
                reasons.append(layer.reason)
        elif not is_flow(layer.spec):
            numbers = [n for op in layer.ops.values() for n in (op.count, op.bytes)]
            is_known = any(n is not None for n in [*numbers, *layer.metrics.values()])
            if is_known or layer.source == "bpf":
                return ""
            reasons.append(f"/proc knows nothing of layer {name} here")
    if not snapshot.layers:
        return "no layer is available"
    return reasons[0] if reasons else ""


def tell_nothing(why: str, *, asks: bool) -> bool:
    """Say so, and why, in one line on stderr.

    Returns whether the user wants the bundled recording instead: a terminal is asked, if ``asks``.
    """
    say(f"nothing to show of this machine ({why}); {HINT}")
    is_asked = asks and sys.stdin.isatty() and sys.stdout.isatty()
    return is_asked and agrees("Show that recording now?")
