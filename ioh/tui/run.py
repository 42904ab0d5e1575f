"""Shows the screen over a feed from its begin to its end."""

from __future__ import annotations

import sys

from ioh.model.errors import ExitCode
from ioh.model.feed import Feed, Hosts
from ioh.model.snapshot import Snapshot
from ioh.tui.app import IohApp
from ioh.tui.options import ScreenOptions
from ioh.tui.preferences import Preferences, save


def run_screen(
    feed: Feed | Hosts,
    options: ScreenOptions | None = None,
    first: Snapshot | None = None,
    *,
    remembered: Preferences | None = None,
    note: str = "",
) -> int:
    """Show a feed until the user ends it; returns the exit status.

    ``first`` is shown until the feed reports something; ``remembered`` is what was chosen the last
    time, and what is chosen now is remembered; ``note`` is said at the beginning, printable.

    Raises:
        BaseException: What ended the feed, once the terminal is as it was.
    """
    remembered = remembered or Preferences()
    app = IohApp(feed, options, first, remembered)
    if note:
        app.say(note, "warn")
    try:
        code = app.run(mouse=app.options.mouse)
    finally:
        feed.stop()
        app.end()
    if why := save(remembered, app.preferences):
        sys.stderr.write(f"ioh: {why}\n")
    if app.error is not None:
        raise app.error
    return int(ExitCode.FAILED) if code is None else code  # None: a crash, told already
