"""The first screen, printed while the screen's libraries are imported."""

from __future__ import annotations

import time

from ioh.model.player import Mode
from ioh.model.snapshot import Snapshot
from ioh.tui.actions import with_valid_choice
from ioh.tui.options import ScreenOptions
from ioh.tui.render.header import HeaderView
from ioh.tui.render.screen import ScreenData, draw
from ioh.tui.render.trends import TREND_INTERVALS
from ioh.tui.state import ViewState

STARTING = "starting"


def first_picture(  # noqa: PLR0913
    mode: Mode,
    options: ScreenOptions,
    size: tuple[int, int],
    *,
    cycle_s: float,
    title: str = "",
    snapshot: Snapshot | None = None,
) -> list[str]:
    """The lines of the screen before the player reports anything: plain, no spaces at their ends.

    ``size`` in columns and lines; ``cycle_s`` as requested; ``title`` of a recording, printable;
    ``snapshot`` is the first interval, if it is available.
    """
    header = HeaderView(
        mode=mode,
        shown="playing" if mode != "live" else "live",
        cycle_s=cycle_s,
        speed=options.speed,
        title=title,
        now_unix_s=time.time(),
        utc=options.utc,
        narrowed=options.filters_text,
    )
    state = ViewState() if snapshot is None else with_valid_choice(ViewState(), snapshot)
    points = (None,) * TREND_INTERVALS  # no past is known
    data = ScreenData(snapshot, header, points, status=STARTING, is_ascii=options.ascii_only)
    frame = draw(state, data, *size)
    return [line.text.rstrip() for line in frame.lines]
