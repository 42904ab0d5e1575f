"""The named styles mean one thing each, in every theme and with every number of colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest
from rich.style import Style

from ioh.tui.options import ThemeName
from ioh.tui.theme import styles_for

SYSTEMS = ("truecolor", "256", "standard", None)
STEPS = ("step0", "step1", "slowest", "step_found")
ALL = [(theme, system) for theme in get_args(ThemeName) for system in SYSTEMS]
COLOURED = [(theme, system) for theme, system in ALL if system and theme != "mono"]


def colours(styles: Mapping[str, Style], *names: str) -> set[str]:
    found = {styles[name].color for name in names}
    assert None not in found
    return {color.name for color in found if color is not None}


@pytest.mark.parametrize(("theme", "system"), ALL)
def test_each_step_has_an_area_and_its_own_look(theme: ThemeName, system: str | None) -> None:
    """Also without colours: a step is seen by its length."""
    styles = styles_for(theme, system)
    assert all(styles[name].reverse or styles[name].underline for name in STEPS)
    assert len({styles[name] for name in STEPS}) == len(STEPS)


@pytest.mark.parametrize(("theme", "system"), COLOURED)
def test_amber_and_red_are_not_colours_of_usual_things(theme: ThemeName, system: str) -> None:
    styles = styles_for(theme, system)
    unusual = colours(styles, "warn", "crit", "step_found")
    usual = ("read", "write", "step0", "step1", "slowest", "trend_r", "trend_w", "head", "mark")
    assert not unusual & colours(styles, *usual)
    assert len(colours(styles, "read", "write")) == 2


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_no_step_glares_on_sixteen_colours(theme: ThemeName) -> None:
    styles = styles_for(theme, "standard")
    assert not colours(styles, *STEPS) & {"white", "bright_white", "black"}
