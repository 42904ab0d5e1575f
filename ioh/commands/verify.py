"""``ioh verify``: what a recording contains, and whether it is intact."""

from __future__ import annotations

import argparse

from ioh.commands.output import write_stdout
from ioh.commands.sample import recording
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable
from ioh.sinks.cells import clock

SUMMARY = "check every byte of a recording; repair a damaged one"
EXAMPLES = """\
  ioh verify run.ioh
  ioh verify run.ioh --repair whole.ioh
  cat run-*.ioh | ioh verify - --repair all.ioh    one file from many

Exit status 0: whole (or cut off, but whole up to the cut); 1: damaged."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("file", metavar="FILE", type=recording, help="a recording, or - for stdin")
    add("--repair", metavar="NEW", help="write everything readable to this new file")


def run(args: argparse.Namespace) -> int:
    """Check it host by host, print the result, return the exit status."""
    from ioh.session.recorded_file import hosts_of

    names = hosts_of(args.file)
    if not names:
        return _verify(args.file, args.repair)
    hint = f"Repair one: ioh verify {args.file}#{names[0]} --repair NEW"
    refuse_if(args.repair is not None, f"{args.file} holds several hosts", hint)
    return max(_verify(f"{args.file}#{name}", None) for name in names)


def _verify(path: str, repaired: str | None) -> int:
    from ioh.session.check import check
    from ioh.session.records import to_text

    try:
        found = check(path, repaired)
    except OSError as error:
        cause = f"cannot copy {path}: {error.strerror}"
        raise IohError(cause, "Give --repair a place with enough space") from error
    facts: list[tuple[str, str]] = []
    if (header := found.header) is not None:
        host, kernel = (printable(to_text(raw)) for raw in (header.hostname, header.kernel))
        version = printable(header.ioh_version, 40)
        facts = [("format", f"{header.format_version}, by ioh {version}")]
        facts.append(("host", f"{host}, {kernel}"))
        if header.note:
            facts.append(("note", printable(to_text(header.note))))
        if found.last_part > 1:
            last = "" if found.last_part == header.part else f" to {found.last_part}"
            facts.append(("part", f"{header.part}{last}"))
    period = f"{found.ticks:,}, {found.seconds:,.0f} s from {_clock(found.first_unix_s)}"
    facts.append(("samples", period if found.ticks else "none"))
    facts += [("layer", f"{printable(name)}, {n:,} samples") for name, n in found.layers.items()]
    for mark in found.marks:
        facts.append(("mark", f"{_clock(mark.time_unix_s)}  {printable(to_text(mark.text))}"))
    for gap in found.gaps:
        length = f"{gap.to_unix_s - gap.from_unix_s:,.0f} s"
        why = printable(to_text(gap.reason))
        facts.append(("gap", f"{_clock(gap.from_unix_s)}, {length}: {why}"))
    if found.unlisted:
        facts.append(("and", f"{found.unlisted:,} more marks and gaps"))
    facts.append(("end", "complete" if found.is_ended else "cut off, or still being recorded"))
    damaged = len(found.faults) - found.is_torn
    verdict = "whole up to the cut" if found.is_torn else "whole"
    if damaged:
        verdict = f"DAMAGED: {found.lost_ticks + found.left_out} samples lost"
    after = [("verdict", verdict)]
    if repaired is not None:
        made = printable(repaired) if found.ticks else "nothing: it has no samples"
        after.append(("written", made))
    lines = [
        f"{printable(path)}: {found.size_bytes:,} bytes",
        *(f"{name:<10} {text}" for name, text in facts),
        *(f"! {printable(fault)}" for fault in found.faults),
        *(f"{name:<10} {text}" for name, text in after),
    ]
    write_stdout("\n".join(lines) + "\n")
    has_failed = damaged > 0 or (repaired is not None and not found.ticks)
    return ExitCode.FAILED if has_failed else ExitCode.OK


def _clock(unix_s: float) -> str:
    return clock(unix_s, utc=False, with_date=True)
