"""The named styles mean one thing each, in every theme and with every number of colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest
from rich.style import Style

from ioh.tui.options import ThemeName
from ioh.tui.theme import styles_for

SYSTEMS = ("truecolor", "256", "standard")
COLOURED = [(name, each) for name in get_args(ThemeName) for each in SYSTEMS if name != "mono"]


def colours(styles: Mapping[str, Style], *names: str) -> set[str]:
    found = {styles[name].color for name in names}
    assert None not in found
    return {color.name for color in found if color is not None}


@pytest.mark.parametrize(("theme", "system"), COLOURED)
def test_amber_and_red_are_not_colours_of_usual_things(theme: ThemeName, system: str) -> None:
    styles = styles_for(theme, system)
    unusual = colours(styles, "warn", "crit")
    usual = ("read", "write", "trend_r", "trend_w", "head", "mark")
    assert not unusual & colours(styles, *usual)
    assert len(colours(styles, "read", "write")) == 2
