"""``ioh mark``: a named moment in the recording that is under way."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from ioh.commands.output import write_stdout
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.session.marks import RunningRecording

# A script starts `ioh record &` and marks at once: so long it may take to be there, and to begin,
# which takes seconds where the probes must be compiled.
APPEAR_S, BEGIN_S = 1.0, 60.0
_POLL_S = 0.05


class MarkCommand:
    """``ioh mark TEXT``."""

    name = "mark"
    summary = "put a named mark into the recording under way"
    examples = """\
  ioh mark "fio run 3 starts"
  ioh mark --file run.ioh "cache dropped"     where several recordings run

Afterwards: ioh replay run.ioh --from "fio run 3 starts"
Only root and the user who records can."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument("text", metavar="TEXT", help="what happens now")
        parser.add_argument("--file", metavar="FILE", help="the recording, where several run")

    def run(self, args: argparse.Namespace) -> int:
        """Send the mark.

        Raises:
            IohError: No recording runs, several do, or it refused.
        """
        from ioh.session.marks import send_mark

        if not args.text.strip():
            cause = "the mark needs a text"
            raise IohError(cause, 'Such as: ioh mark "fio run 3 starts"', ExitCode.USAGE)
        running = _running(args.file)
        if not running:
            which = f" into {printable(args.file)}" if args.file else ""
            cause = f"no recording{which} is under way that you may mark"
            raise IohError(cause, "Start one with: sudo ioh record; a mark of root's needs sudo")
        if len(running) > 1:
            names = ", ".join(printable(recording.file) for recording in running)
            cause = f"several recordings are under way: {names}"
            raise IohError(cause, "Say which one with --file", ExitCode.USAGE)
        why = send_mark(running[0], args.text)
        if why:
            cause = f"the mark was not made: {printable(why)}"
            raise IohError(cause, "")
        write_stdout(f"marked in {printable(running[0].file)}\n")
        return ExitCode.OK


def _running(file: str | None) -> list[RunningRecording]:
    """The recordings meant, as soon as they have begun: those that only start are waited for."""
    began = time.monotonic()
    while True:
        running = _matching(file)
        waited_s = time.monotonic() - began
        if running and (all(each.has_begun for each in running) or waited_s > BEGIN_S):
            return running
        if not running and waited_s > APPEAR_S:
            return []
        time.sleep(_POLL_S)


def _matching(file: str | None) -> list[RunningRecording]:
    from ioh.session.filename import is_part_of
    from ioh.session.marks import running_recordings

    running = running_recordings()
    if file is None:
        return running
    wanted = os.path.abspath(file)  # noqa: PTH100
    same = [recording for recording in running if recording.file == wanted]
    return same or [each for each in running if is_part_of(each.file, wanted)]
