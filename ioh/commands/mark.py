"""``ioh mark``: add a named mark to a running recording."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from ioh.commands.output import write_stdout
from ioh.model.errors import IohError, refuse_if
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.recorder.marks import RunningRecording

# The whole command takes at most LIMIT_S.  A script may run `ioh record &` and mark immediately:
# these are the times a recording may take to appear, to begin, and to answer each request.
LIMIT_S, APPEAR_S, BEGIN_S, ANSWER_S = 2.0, 1.0, 1.2, 0.5
POLL_S = 0.05

SUMMARY = "add a named mark to the running recording"
EXAMPLES = """\
  ioh mark "fio run 3 starts"
  ioh mark --file run.ioh "cache dropped"     if several recordings run

Then: ioh replay run.ioh --from "fio run 3 starts"
Only root and the user who records can add a mark."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("text", metavar="TEXT", help="text of the mark")
    parser.add_argument("--file", metavar="FILE", help="which recording, if several run")


def run(args: argparse.Namespace) -> None:
    """Send the mark."""
    from ioh.recorder.marks import why_not
    from ioh.rights.user import own_rights

    why = why_not(args.text)
    refuse_if(why, f"not a valid mark: {why}", 'Give one such as: ioh mark "fio run 3 starts"')
    with own_rights():  # root's recording answers only root; the file is never opened
        _mark(args.text, args.file)


def _mark(text: str, file: str | None) -> None:
    from ioh.recorder.marks import send_mark

    began = time.monotonic()
    running = _running(file, began)
    if not running:
        which = f" to {printable(file)}" if file else ""
        cause = f"no recording{which} is running, or none that you may mark"
        raise IohError(cause, "Start one with: sudo ioh record; use sudo to mark root's recording")
    names = ", ".join(map(_name_of, running))
    refuse_if(len(running) > 1, f"several recordings are running: {names}", "Choose with --file")
    (meant,) = running
    hint = waits = ""
    if not meant.answers:
        why, hint = "it does not answer", "Check its process: it may be stopped"
    elif not meant.has_begun:
        why = f"nothing is recorded yet: {meant.paused_why}" if meant.paused_why else ""
        hint = "" if why else "Try again: its probes are still being compiled"
        why = why or "it has not started yet"
    else:
        why, waits = send_mark(meant, text, began + LIMIT_S)
    if why:
        cause = f"the mark was not added to {names}: {why}"
        raise IohError(cause, hint)
    later = f", as soon as it resumes: {printable(waits)}" if waits else ""
    write_stdout(f"marked in {names}{later}\n")


def _name_of(recording: RunningRecording) -> str:
    if recording.file:
        return printable(recording.file)
    which = "a pipe (process {})" if recording.answers else "the recording of process {}"
    return which.format(recording.pid)


def _running(file: str | None, began: float) -> list[RunningRecording]:
    """The requested recordings; wait for those that are still starting."""
    while True:
        running = _matching(file, time.monotonic() + ANSWER_S)
        waited_s = time.monotonic() - began
        if running and (all(each.has_begun for each in running) or waited_s > BEGIN_S):
            return running
        if not running and waited_s > APPEAR_S:
            return []
        time.sleep(POLL_S)


def _matching(file: str | None, deadline: float) -> list[RunningRecording]:
    from ioh.recorder.marks import running_recordings
    from ioh.session.output import part_of_name

    running = [each for each in running_recordings(deadline) if not each.is_private]
    silent = [recording for recording in running if not recording.answers]
    if file is None:
        return [recording for recording in running if recording.answers] or silent
    wanted = os.path.abspath(file)  # noqa: PTH100
    same = [recording for recording in running if recording.file == wanted]
    return same or [r for r in running if part_of_name(r.file, wanted) is not None] or silent
