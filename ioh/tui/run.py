"""Shows the screen of a player until the user quits."""

from __future__ import annotations

import sys

from ioh.model.errors import ExitCode
from ioh.model.player import Player
from ioh.model.snapshot import Snapshot
from ioh.tui.app import IohApp
from ioh.tui.options import ScreenOptions
from ioh.tui.preferences import Preferences, save


def run_screen(
    player: Player,
    options: ScreenOptions | None = None,
    first: Snapshot | None = None,
    *,
    remembered: Preferences | None = None,
    note: str = "",
) -> int:
    """Show a player until the user quits; return the exit status.

    ``first`` is shown until the player reports something; ``remembered`` are the last choices, and
    the new ones are saved; ``note`` is the first message, printable.

    Raises:
        BaseException: The player's error, after the terminal is restored.
    """
    remembered = remembered or Preferences()
    app = IohApp(player, options, first, remembered)
    if note:
        app.say(note, "warn")
    try:
        code = app.run(mouse=app.options.mouse)
    finally:
        player.stop()
        app.end()
    if why := save(remembered, Preferences.of(app.state, app.chosen_theme)):
        sys.stderr.write(f"ioh: {why}\n")
    if app.error is not None:
        raise app.error
    return int(ExitCode.FAILED) if code is None else code  # None: a crash, already reported
