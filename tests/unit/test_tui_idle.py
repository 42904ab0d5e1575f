"""A layer that does nothing gives its room away, and nothing jumps when it pauses for a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ioh.model.snapshot import OpStats, Snapshot
from ioh.tui.actions import Context, act, with_valid_choice
from ioh.tui.history import point_of
from ioh.tui.render.panels import PanelView
from ioh.tui.render.trends import TREND_INTERVALS
from ioh.tui.state import ViewState
from tests.screens import FINDINGS, LAYERS, drawn, layer_of, minute, nothing_known, with_layer

BUSY = minute()[-1]
SIZES = [(80, 24), (120, 40), (200, 60)]
NOTHING = OpStats(count=0, bytes=0, ops_per_s=0.0, bytes_per_s=0.0)


def quiet(*names: str) -> Snapshot:
    """The demo's last interval, in which some layers did nothing."""
    shown = BUSY
    for name in names:
        nothing = dict.fromkeys(layer_of(BUSY, name).ops, NOTHING)
        shown = with_layer(shown, name, ops=nothing, tables={})
    return shown


def lines(
    shown: Snapshot,
    size: tuple[int, int],
    past: Sequence[Snapshot] = (),
    state: ViewState | None = None,
) -> list[str]:
    return [line.text for line in drawn(shown, size, state, [*past, shown]).lines]


def numbered(text: list[str]) -> set[int]:
    """Layers that have a panel, or lines."""
    starts = (line.lstrip("╭─ !i") for line in text)
    return {int(start[0]) for start in starts if start[:1].isdigit() and start[1:2] == " "}


@pytest.mark.parametrize("size", SIZES)
def test_it_is_folded_after_the_time_of_the_trends_and_not_before(size: tuple[int, int]) -> None:
    pause = quiet("tcp", "nfs_client")
    still = lines(pause, size, [BUSY, *[pause] * (TREND_INTERVALS - 2)])
    assert numbered(still) == {1, 2, 3, 4, 5}
    folded = lines(pause, size, [BUSY, *[pause] * (TREND_INTERVALS - 1)])
    assert numbered(folded) == {1, 4, 5}
    told = [line.strip() for line in folded if line.startswith(" inactive")]
    assert told == ["inactive  nfs client, tcp: idle"]
    assert len(folded) == len(still) == size[1]


def test_it_comes_back_at_once() -> None:
    pause = quiet("tcp")
    assert 3 in numbered(lines(BUSY, (120, 40), [pause] * TREND_INTERVALS))


@pytest.mark.parametrize("size", SIZES)
def test_what_is_looked_at_or_found_stays(size: tuple[int, int]) -> None:
    pause = quiet("tcp", "nfs_client")
    chosen = ViewState(chosen=("tcp", "in"), has_chosen=True)
    assert numbered(lines(pause, size, [], chosen)) == {1, 3, 4, 5}
    found = replace(pause, findings=(replace(FINDINGS[0], layer="nfs_client"),))
    assert numbered(lines(found, size)) == {1, 2, 4, 5}


@pytest.mark.parametrize("size", SIZES)
def test_where_none_is_busy_all_have_their_room(size: tuple[int, int]) -> None:
    assert numbered(lines(quiet(*LAYERS), size)) == {1, 2, 3, 4, 5}


def test_what_is_not_known_is_not_idle() -> None:
    known = quiet("tcp")
    unknown = nothing_known().layers["nfs_server"]
    shown = replace(known, layers={**known.layers, "nfs_server": unknown})
    assert numbered(lines(shown, (80, 24))) == {1, 2, 4, 5}


def test_the_arrow_keys_pass_it_by_and_its_number_zooms_into_it() -> None:
    shown = quiet("tcp", "nfs_server")
    state = with_valid_choice(ViewState(), shown)
    seen = []
    for _ in range(8):
        view = PanelView(state, shown, [point_of(shown)])
        state = act(state, "down", "", Context(view, LAYERS, 10))
        seen.append(state.chosen[0])
    assert list(dict.fromkeys(seen)) == ["syscall", "nfs_client", "block"]
    view = PanelView(state, shown, [point_of(shown)])
    assert act(state, "layer", 3, Context(view, LAYERS, 10)).layer == "tcp"


def test_a_kind_of_call_that_did_not_occur_has_no_bar() -> None:
    shown = with_layer(BUSY, "syscall", ops={**layer_of(BUSY, "syscall").ops, "fsync": NOTHING})
    for past, bars in (([], ["READ", "WRITE"]), ([BUSY], ["READ", "WRITE", "SYNC"])):
        first = [line.split()[0] for line in lines(shown, (120, 40), past) if line.strip()]
        assert [word for word in first if word in {"READ", "WRITE", "SYNC"}] == bars
