"""Remove from a recording of a whole machine what names other programs and their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ioh.model.sample import LayerSample, Sample
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.stream import Tick
from ioh.session.writer import SessionWriter


def keep_own(path: Path, devices: tuple[str, ...], comms: tuple[str, ...]) -> None:
    """Rewrite a recording with the rows of these devices and programs only; totals stay."""
    with Session(str(path)) as session:
        samples = [item.sample for item in session.items(0) if isinstance(item, Tick)]
        marks = list(session.marks())
    path.unlink()
    writer = SessionWriter(FileOutput(str(path)))
    for sample in samples:
        writer.write(_own(sample, devices, comms))
    for mark in marks:
        writer.mark(mark.text, mark.time_unix_s)
    writer.close()


def _own(sample: Sample, devices: tuple[str, ...], comms: tuple[str, ...]) -> Sample:
    block = sample.layers.get("block")
    if not isinstance(block, LayerSample):
        return sample
    rows = {
        **block.tables,
        "device": {k: row for k, row in block.tables["device"].items() if k[0] in devices},
        "process": {k: row for k, row in block.tables["process"].items() if k[1] in comms},
    }
    parts = {name: ops for name, ops in block.parts.items() if name in devices}
    own = replace(block, tables=rows, parts=parts)
    return replace(sample, layers={**sample.layers, "block": own})
