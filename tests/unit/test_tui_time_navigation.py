"""Moving through time: the position, the keys that change it, and the thread that fetches."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

from ioh.model.player import Extent
from ioh.model.snapshot import Snapshot, TableRow
from ioh.tui import history, prefetch
from ioh.tui.drill_down import narrowed
from ioh.tui.history import Past, has_rates, point_of, row_id, row_rates, series
from ioh.tui.prefetch import Found, Prefetch
from ioh.tui.state import Narrow
from ioh.tui.time_navigation import FindingTimes, TimeNavigation
from tests.support.screen_player import FakePlayer
from tests.support.screens import FINDINGS, layer_of, minute, with_layer


def test_a_step_to_a_dropped_interval_goes_to_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    player, asked = FakePlayer(minute()), list[int]()
    travel = TimeNavigation(player, 0, asked.append, FindingTimes(player.overview))
    travel.tick = 3
    monkeypatch.setattr(FakePlayer, "extent", Extent(30, 90))
    travel.actions["step"](-1, minute()[2])
    assert asked == [30]


class SlowPlayer(FakePlayer):
    """visit() waits until it may go on."""

    def __init__(self) -> None:
        super().__init__(minute(), mode="replay")
        self.may_go_on = threading.Semaphore(0)
        self.is_visiting = threading.Semaphore(0)

    def visit(self, tick: int) -> Snapshot | None:
        self.is_visiting.release()
        assert self.may_go_on.acquire(timeout=10)
        return super().visit(tick)


class Seeking:
    """A running seeker, and what it found."""

    def __init__(self, feed: FakePlayer, past: Past | None = None, span: int = 10) -> None:
        self.found: list[Found] = []
        self.past = past or Past()
        self.seeker = Prefetch(feed, self.past, self.found.append, span)

    def __enter__(self) -> Seeking:  # noqa: PYI034
        self.seeker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seeker.stop()
        assert "seeker" not in [thread.name for thread in threading.enumerate()]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, self.found
            time.sleep(0.002)


def test_a_request_gets_the_interval_then_its_past_then_its_findings() -> None:
    feed = FakePlayer(minute(), mode="replay")
    feed.judged[30] = replace(minute()[29], findings=FINDINGS)
    with Seeking(feed) as seeking:
        seeking.seeker.ask(30)
        seeking.wait_for(lambda: len(seeking.found) == 3)
    first, past, judged = seeking.found
    assert (first.tick, first.snapshot, first.purpose) == (30, minute()[29], "show")
    assert (past.tick, past.purpose) == (30, "history")
    assert judged.snapshot is feed.judged[30]
    assert seeking.past.window(30, 10) == [point_of(s) for s in minute()[20:30]]
    assert seeking.past.missing(30, 10, 1) is None


def test_a_past_that_is_known_is_not_read_again() -> None:
    past = Past()
    for tick in range(1, 61):
        past.take(tick, minute()[tick - 1])
    with Seeking(FakePlayer(minute(), mode="replay"), past) as seeking:
        seeking.seeker.ask(30)
        seeking.wait_for(lambda: len(seeking.found) == 1)
    assert [found.purpose for found in seeking.found] == ["show"]


def test_the_past_of_one_row_is_read_when_the_screen_is_narrowed_to_it() -> None:
    past, to = Past(), Narrow("device", ("sda",))
    for tick in range(21, 31):
        past.take(tick, minute()[tick - 1])
    assert past.narrow(to)
    assert not past.narrow(to)
    assert past.window(30, 10) == [None] * 10
    feed = FakePlayer(minute(), mode="live")
    with Seeking(feed, past) as seeking:
        seeking.seeker.ask(30, "history")
        seeking.wait_for(lambda: len(seeking.found) == 1)
    assert seeking.found[0].purpose == "history"
    assert not feed.visits
    row = [point_of(narrowed(s, to)) for s in minute()[20:30]]
    assert past.window(30, 10) == row != [point_of(s) for s in minute()[20:30]]
    assert not past.narrow(None)
    assert past.window(30, 10) == [point_of(s) for s in minute()[20:30]]


def test_a_held_key_skips_to_the_last_interval_requested() -> None:
    feed = SlowPlayer()
    with Seeking(feed) as seeking:
        seeking.seeker.ask(10)
        assert feed.is_visiting.acquire(timeout=10)
        for tick in range(11, 41):
            seeking.seeker.ask(tick)
        feed.may_go_on.release(2)
        seeking.wait_for(lambda: any(found.purpose == "history" for found in seeking.found))
    assert feed.visits == [10, 40]
    assert min(feed.walked) == 31, "the past of what nobody waits for is not read"


def test_an_interval_can_be_drawn_before_its_past_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another key ends the wait, and so does the screen's end."""
    monkeypatch.setattr(prefetch, "DRAW_S", 3600.0)
    feed = SlowPlayer()
    feed.may_go_on.release(2)
    with Seeking(feed) as seeking:
        for count, tick in enumerate((30, 40), 1):
            seeking.seeker.ask(tick)
            seeking.wait_for(lambda count=count: len(seeking.found) == count)  # type: ignore[misc]
    assert [found.tick for found in seeking.found] == [30, 40]
    assert not feed.walked


@pytest.mark.parametrize("looks_back", [1, 100])
def test_a_far_search_for_findings_waits_until_no_key_is_pressed(
    looks_back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "REST_S", 3600.0)
    feed = FakePlayer(minute(), mode="replay")
    feed.looks_back = looks_back
    feed.judged = {30: minute()[29], 40: minute()[39]}
    with Seeking(feed) as seeking:
        for count, tick in enumerate((30, 40), 1):
            seeking.seeker.ask(tick)
            each = 2 if looks_back > 1 else 3  # itself, its past, its findings
            seeking.wait_for(lambda: len(seeking.found) >= each * count)  # noqa: B023
    assert [found.tick for found in seeking.found] == [30] * each + [40] * each


def test_a_seeker_ends_while_it_reads_the_past() -> None:
    feed = SlowPlayer()
    with Seeking(feed, span=60) as seeking:
        seeking.seeker.ask(50)
        feed.may_go_on.release()
        seeking.wait_for(lambda: bool(feed.walked))
    Prefetch(feed, Past(), print, 1).stop()  # one that was never started, too


@pytest.mark.parametrize("count", [1, 20])
def test_history_forgets_what_is_farthest_away(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_POINTS", count)
    past = Past()
    for tick in [*range(1, 40), 10]:
        past.take(tick, minute()[tick])
    known = past.window(40, 40)
    assert len([point for point in known if point is not None]) == count
    assert past.window(10, 1)[0] is not None


def test_the_rates_of_rows_are_read_where_only_the_layers_were_known() -> None:
    past = Past()
    for tick in range(1, 61):
        past.take(tick, minute()[tick - 1], is_whole=False)
    assert past.rows(60) == [None] * 60
    with Seeking(FakePlayer(minute(), mode="replay"), past, span=60) as seeking:
        seeking.seeker.ask(60)
        seeking.wait_for(lambda: any(found.purpose == "history" for found in seeking.found))
    assert past.rows(60) == [row_rates(snapshot) for snapshot in minute()]
    assert past.missing(60, 60, 1) is None


def test_a_rows_rate_is_the_sum_that_ranks_it() -> None:
    def process(name: str, **values: float | None) -> TableRow:
        return TableRow((name, name), values)

    known = process("1", read_bytes_per_s=3.0, write_bytes_per_s=4.0, reads_per_s=9.0)
    half = process("2", read_bytes_per_s=None, write_bytes_per_s=5.0)
    many = [process(str(n), read_bytes_per_s=2.0) for n in range(3, 30)]
    rates = row_rates(with_layer(minute()[0], "syscall", tables={"process": (known, half, *many)}))
    kept = [rates.get(row_id("syscall", "process", row.key)) for row in (known, half, *many)]
    assert kept == [7.0, 5.0, *[2.0] * 18, *[None] * 9]
    tables = {spec.name: spec for spec in minute()[0].specs["block"].tables}
    assert has_rates(tables["device"])
    assert not has_rates(tables["limit"]), "limits have no trend"
    (limit,) = layer_of(minute()[-1], "block").rows("limit")
    assert row_id("block", "limit", limit.key) not in row_rates(minute()[-1])


def test_the_rates_of_rows_need_little_memory() -> None:
    """Of 20 busy rows in each breakdown, with other names in each interval."""

    def crowded(tick: int) -> Snapshot:
        shown = minute()[0]
        for name, layer in shown.measured.items():
            tables = {
                spec.name: tuple(
                    TableRow(
                        tuple(f"{tick} {n} {key}" for key in spec.keys),
                        dict.fromkeys(spec.sort_by, float(tick)),
                    )
                    for n in range(40)
                )
                for spec in layer.spec.tables
            }
            shown = with_layer(shown, name, tables=tables)
        return shown

    def taken(*, is_whole: bool) -> tuple[Past, int]:
        """The past of 200 intervals, and the memory that it takes."""
        past = Past()
        tracemalloc.start()
        for tick in range(200):
            past.take(tick, crowded(tick), is_whole=is_whole)
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return past, used

    past, with_rows = taken(is_whole=True)
    assert with_rows - taken(is_whole=False)[1] < 3_000_000
    assert None not in past.rows(199)
    assert past.rows(100)[0] is None


def test_a_series_has_none_where_unknown_and_zero_where_nothing_happened() -> None:
    point = point_of(minute()[0])
    values = series([None, point], ("block", "read"), "ops_per_s")
    assert values[0] is None
    assert values[1]
    assert series([point], ("block", "no such op"), "ops_per_s") == [0.0]
