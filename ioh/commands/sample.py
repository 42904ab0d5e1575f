"""The bundled recordings, and what to say if this machine has nothing to show."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.commands.output import say

if TYPE_CHECKING:
    from ioh.model.snapshot import Snapshot

SAMPLE, DEMO = "sample", "demo"
HINT = f"see a real recording with: ioh replay {SAMPLE}"


def bundled_path(name: str) -> Path:
    """Path of a bundled recording, SAMPLE or DEMO."""
    return Path(__file__).resolve().parent.parent / "data" / f"{name}.ioh"


def recording(text: str) -> str:
    """An argparse type: a file; SAMPLE and DEMO are bundled if no file has that name."""
    if not text:
        msg = "the name of the recording is empty"
        raise argparse.ArgumentTypeError(msg)
    return str(bundled_path(text)) if text in (SAMPLE, DEMO) and not os.path.lexists(text) else text


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
            if layer.is_starting:
                return ""
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


def report_nothing(why: str) -> None:
    """Print why there is nothing to show, and which command shows a recording."""
    say(f"nothing to show for this machine ({why}); {HINT}")
