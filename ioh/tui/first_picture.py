"""The screen that is drawn while the libraries that will show it are imported."""

from __future__ import annotations

import time

from ioh.model.feed import Mode
from ioh.model.snapshot import Snapshot
from ioh.tui.actions import with_valid_choice
from ioh.tui.options import ScreenOptions
from ioh.tui.render.glyphs import to_ascii
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
    """The lines of the screen until a feed reports something; plain, without spaces at their ends.

    ``size`` in columns and lines; ``cycle_s`` as asked for; ``title`` of what is played, printable;
    ``snapshot`` is the first interval, where that is over already.
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
    points = (None,) * TREND_INTERVALS  # nothing is known of what was before
    data = ScreenData(snapshot, header, points, status=STARTING, is_ascii=options.ascii_only)
    frame = draw(state, data, *size)
    texts = (line.text.rstrip() for line in frame.lines)
    return [to_ascii(text) if options.ascii_only else text for text in texts]
