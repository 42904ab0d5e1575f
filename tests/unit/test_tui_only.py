"""What was narrowed by options is said on the screen, of a recording, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.filters import Filters
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.tui.options import ScreenOptions
from tests.screen_feed import FakeFeed, Stage, on_screen
from tests.screens import minute

FIO = Filters(comm="fio").note("pid", "comm")
SDA = Filters(device=1, device_name="sda").note("device")
IGNORED = "--comm not applied here: all requests are shown"


def noting(snapshot: Snapshot, notes: dict[str, tuple[str, ...]]) -> Snapshot:
    """The same with layers that say something."""
    layers = dict(snapshot.layers)
    for name, said in notes.items():
        layer = layers[name]
        assert isinstance(layer, LayerSnapshot)
        layers[name] = replace(layer, notes=said)
    return replace(snapshot, layers=layers)


def replay(notes: dict[str, tuple[str, ...]]) -> FakeFeed:
    return FakeFeed([noting(snapshot, notes) for snapshot in minute()], mode="replay")


@pytest.mark.parametrize("size", [(80, 24), (200, 40)])
@on_screen(lambda: replay({"syscall": FIO, "block": (IGNORED,)}), told=2)
async def test_a_recording_of_one_command_says_so(on: Stage, size: tuple[int, int]) -> None:
    assert "only --comm fio" in on.lines[0]
    await on.press("5")
    assert "only --comm fio" in on.lines[0]
    assert IGNORED in on.text, "and what that is not true of, too"
    await on.press("tab", "enter")
    assert "only --comm fio  only nvme0n1" in on.lines[0]
    assert "nvme0n1 nvme0n1" not in on.lines[0]
    await on.press("escape", "1", "tab", "enter")
    assert "only --comm fio  only 41" in on.lines[0]


@on_screen(
    lambda: FakeFeed(
        [noting(s, {"syscall": Filters(cgroup_id=7).note("cgroup")}) for s in minute()]
    ),
    options=ScreenOptions(utc=True, filters_text="only --cgroup /web"),
)
async def test_live_options_with_their_values_come_before_the_first_interval(on: Stage) -> None:
    assert "only --cgroup /web" in on.lines[0]
    await on.push(2)
    assert "only --cgroup /web" in on.lines[0]
    assert on.lines[0].count("only") == 1
