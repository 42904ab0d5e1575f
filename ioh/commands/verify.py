"""``ioh verify``: what is in a recording, and whether it is whole."""

from __future__ import annotations

import argparse

from ioh.commands.output import write_stdout
from ioh.commands.sample import recording
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.sinks.cells import clock


class VerifyCommand:
    """``ioh verify FILE``."""

    name = "verify"
    summary = "check every byte of a recording; repair a damaged one"
    examples = """\
  ioh verify run.ioh
  ioh verify run.ioh --repair whole.ioh
  cat run-*.ioh | ioh verify - --repair all.ioh    one file from many

Exit status 0: whole (a recording that was cut off is, up to there); 1: something is damaged."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument(
            "file", metavar="FILE", type=recording, help="a recording, or - for stdin"
        )
        parser.add_argument(
            "--repair", metavar="NEW", help="write all that can be read to this new file"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Check it, and print what was found.

        Raises:
            IohError: It is no recording, or the copy cannot be written.
        """
        from ioh.session.reader import hosts_of

        names = hosts_of(args.file)
        if not names:
            return _verify(args.file, args.repair)
        if args.repair is not None:
            cause = f"{printable(args.file)} holds several hosts"
            hint = f"Repair one: ioh verify {printable(f'{args.file}#{names[0]}')} --repair NEW"
            raise IohError(cause, hint, ExitCode.USAGE)
        return max(_verify(f"{args.file}#{name}", None) for name in names)


def _verify(path: str, repaired: str | None) -> int:
    """Check one host's recording, and print what was found."""
    from ioh.session.check import check

    try:
        found = check(path, repaired)
    except OSError as error:
        cause = f"cannot copy {printable(path)}: {error.strerror}"
        raise IohError(cause, "Give --repair a place with room") from error
    from ioh.session.records import to_text

    header = found.header
    lines = [f"{printable(path)}: {found.size_bytes:,} bytes"]
    if header is not None:
        host, kernel = (printable(to_text(raw)) for raw in (header.hostname, header.kernel))
        lines += [
            f"format     {header.format_version}, by ioh {printable(header.ioh_version, 40)}",
            f"host       {host}, {kernel}",
            *([f"note       {printable(to_text(header.note))}"] if header.note else []),
            *(
                [f"part       {_parts(header.part, found.last_part)}"]
                if found.last_part > 1
                else []
            ),
        ]
    seconds = max(0.0, found.last_unix_s - found.first_unix_s)
    period = f"{found.ticks:,}, {seconds:,.0f} s from {_clock(found.first_unix_s)}"
    lines += [
        f"samples    {period if found.ticks else 'none'}",
        *(f"layer      {printable(name)}, {n:,} samples" for name, n in found.layers.items()),
        *(
            f"mark       {_clock(mark.time_unix_s)}  {printable(to_text(mark.text))}"
            for mark in found.marks
        ),
        *(_gap(gap.from_unix_s, gap.to_unix_s, to_text(gap.reason)) for gap in found.gaps),
        *([f"and        {found.untold:,} more marks and gaps"] if found.untold else []),
        f"end        {'in order' if found.is_ended else 'cut off, or still being recorded'}",
        *(f"! {printable(fault)}" for fault in found.faults),
    ]
    damaged = len(found.faults) - found.is_torn
    verdict = "whole up to there" if found.is_torn else "whole"
    if damaged:
        verdict = f"DAMAGED: {found.lost_ticks + found.left_out} samples lost"
    lines.append(f"verdict    {verdict}")
    has_failed = damaged > 0
    if repaired is not None:
        has_failed = has_failed or not found.ticks
        made = printable(repaired) if found.ticks else "nothing: there is no sample"
        lines.append(f"written    {made}")
    write_stdout("\n".join(lines) + "\n")
    return ExitCode.FAILED if has_failed else ExitCode.OK


def _parts(first: int, last: int) -> str:
    return f"{first}" if last == first else f"{first} to {last}"


def _clock(unix_s: float) -> str:
    return clock(unix_s, utc=False, with_date=True)


def _gap(from_unix_s: float, to_unix_s: float, reason: str) -> str:
    return (
        f"gap        {_clock(from_unix_s)}, {to_unix_s - from_unix_s:,.0f} s: {printable(reason)}"
    )
