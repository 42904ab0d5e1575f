"""What S writes and c copies: a picture, numbers, a table; never over another file."""

from __future__ import annotations

import os
import re
import tempfile
import time

from ioh.model.printable import printable
from ioh.model.snapshot import Snapshot
from ioh.rights.files import can_create_here, create
from ioh.sinks.text import TextOptions, TextSink
from ioh.tui.options import ThemeName
from ioh.tui.picture import svg
from ioh.tui.render.glyphs import drawn_in_ascii
from ioh.tui.render.line import ScreenFrame
from ioh.tui.render.panels import PanelView, breakdown, shown_layer
from ioh.tui.theme import styles_for

_COPY_WIDTH = 200
_COPY_HEIGHT = 1000


def writable_folder() -> str:
    """The current directory, else the one for temporary files: root may have been given up."""
    return "." if can_create_here() else tempfile.gettempdir()


def write_new(name: str, text: str) -> str:
    """Write a new file, readable by its owner alone; returns its path.

    Raises:
        OSError: It cannot be written.
    """
    folder = writable_folder()
    stem, extension = os.path.splitext(name)  # noqa: PTH122
    for number in range(1, 1000):
        suffix = "" if number == 1 else f"-{number}"
        path = os.path.join(folder, f"{stem}{suffix}{extension}").removeprefix("./")  # noqa: PTH118
        try:
            fd = create(path)
        except FileExistsError:
            continue
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return path
    raise FileExistsError(None, "too many files of that name", name)


def stem_of(hostname: str, time_unix_s: float) -> str:
    """``ioh-db01-20261121-144447``, in local time; as a recording is called."""
    host = re.sub(r"[^A-Za-z0-9._-]", "_", hostname)[:64].lstrip(".-") or "host"
    return f"ioh-{host}-" + time.strftime("%Y%m%d-%H%M%S", time.localtime(time_unix_s))


def save(frame: ScreenFrame, snapshot: Snapshot, theme: ThemeName, *, utc: bool) -> str:
    """Write the screen as a picture and as text, with all numbers below; what to say."""
    stem = stem_of(snapshot.hostname, snapshot.time_unix_s)
    title = f"ioh {printable(snapshot.hostname, 64)}"
    picture = svg(frame, styles_for(theme, "truecolor"), title, is_light=theme == "light")
    options = TextOptions(sections=frozenset({"all"}), top=20, utc=utc)
    numbers = frame.text() + "\n" + TextSink(options).render(snapshot)
    try:
        paths = [write_new(stem + ".svg", picture), write_new(stem + ".txt", numbers)]
    except OSError as error:
        return f"cannot save: {error.strerror}"
    return f"saved {paths[0]} and {paths[1]}"


def copied() -> str:
    """What to say of a table that was sent: nothing answers, and tmux may keep it to itself."""
    said = "sent to the terminal's clipboard (OSC 52)"
    if os.environ.get("TERM", "").startswith(("tmux", "screen")):
        said += "; in tmux: set -s set-clipboard on"
    return said


def table_text(view: PanelView) -> str:
    """The breakdown shown, as wide and as long as it takes; "" where there is none."""
    layer = shown_layer(view)
    if layer is None or not layer.spec.tables:
        return ""
    text = breakdown(view, _COPY_WIDTH, _COPY_HEIGHT).text()
    return drawn_in_ascii(text) if view.is_ascii else text
