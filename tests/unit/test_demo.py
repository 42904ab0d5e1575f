"""The demo: a real recording of all five layers, played in a loop."""

from __future__ import annotations

import itertools
import json

import pytest

from ioh.commands import main, replay
from ioh.commands.arguments import IntervalOptions
from ioh.commands.sample import DEMO, bundled_path
from ioh.history.file import PlayOptions
from ioh.model.player import News
from ioh.pipeline import snapshots
from ioh.playback.replay import ReplaySource
from ioh.playback.time_range import Span
from ioh.player.file import FilePlayer
from ioh.session.stream import Tick
from tests.support.sessions import Shown


def test_json_shows_only_the_chosen_layers(shown: Shown) -> None:
    out = shown("json", "demo", "-t", "3", "--layers", "tcp,block")
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines
    assert all(list(line["layers"]) == ["tcp", "block"] for line in lines)


def test_the_screen_says_demo_and_starts_again_with_a_past_for_its_trends() -> None:
    ticks: list[int] = []

    def tell(news: News) -> None:
        if news.tick is not None:
            ticks.append(news.tick)
        if len(ticks) > 1 and ticks[-1] < ticks[-2]:
            player.stop()

    path = str(bundled_path(DEMO))
    with FilePlayer(path, PlayOptions(speed=1e5, mode="demo")) as player:
        assert player.mode == "demo"
        player.run(tell)
        extent = player.histories[0].extent
        assert ticks[0] == ticks[-1] == extent.first + 46
        assert extent.last > extent.first + 90


@pytest.mark.parametrize("words", [["demo"], ["replay", "demo"]])
def test_the_screen_starts_with_the_first_load(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[Span] = []

    def show(options: IntervalOptions, _: object, mode: str) -> int:
        assert mode == "demo"
        spans.append(options.span)
        return 0

    monkeypatch.setattr(replay, "wants_screen", lambda _, **__: True)
    monkeypatch.setattr(replay, "show_replay", show)
    assert main(words) == 0
    with ReplaySource(str(bundled_path(DEMO)), spans[0], speed=None) as source:
        samples = [item.sample for item in itertools.islice(source, 8) if isinstance(item, Tick)]
    first = list(snapshots(samples))[:2]
    assert any(shown.layers["syscall"].ops["read"].count for shown in first)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        (["--json"], "--json"),
        (["--layers", "nosuch"], "nosuch"),
        (["--pid", "1"], "--pid"),
    ],
)
def test_invalid_arguments_are_refused(args: list[str], cause: str, refused: Shown) -> None:
    assert cause in refused("demo", *args)
