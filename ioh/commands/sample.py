"""The bundled recordings, and the offer to show one if this machine has nothing to show."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.commands.output import agrees, say

if TYPE_CHECKING:
    from ioh.model.snapshot import Snapshot

SAMPLE, DEMO = "sample", "demo"
HINT = f"see a real recording with: ioh replay {SAMPLE}"


class SampleWantedError(Exception):
    """The user wants to see the bundled recording instead of this machine."""


def bundled_path(name: str) -> Path:
    """Path of a bundled recording, SAMPLE or DEMO."""
    return Path(__file__).resolve().parent.parent / "data" / f"{name}.ioh"


def recording(text: str) -> str:
    """An argparse type: a file; ``sample`` is the bundled recording if no file has that name."""
    return str(bundled_path(SAMPLE)) if text == SAMPLE and not os.path.lexists(text) else text


def why_nothing(snapshot: Snapshot) -> str:
    """Why an interval shows no I/O of programs or disks; "" if it does.

    TCP does not count, unless no other layer is shown.  A layer that appears later by itself, as
    NFS does with the first mount, is not a reason.
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
            reasons.append(f"/proc has no numbers for layer {name} here")
    if not snapshot.layers:
        return "no layer is available"
    return reasons[0] if reasons else ""


def report_nothing(why: str, *, asks: bool) -> bool:
    """Print why there is nothing to show; return whether to show the bundled recording instead.

    With ``asks`` and a terminal, the user decides.
    """
    say(f"nothing to show for this machine ({why}); {HINT}")
    is_asked = asks and sys.stdin.isatty() and sys.stdout.isatty()
    return is_asked and agrees("Show this recording now?")
