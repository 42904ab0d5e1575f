"""PostgreSQL's panel on the screen: what it shows, at every size, whatever is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.layers.pg import SPEC
from ioh.model.derive import derive
from ioh.model.sample import LayerSample, OpTotals, Sample
from ioh.model.snapshot import Snapshot
from ioh.pg.reading import Reading, Views
from ioh.tui.actions import with_valid_choice
from ioh.tui.render.screen import draw
from ioh.tui.state import TableState, ViewState
from tests.support import fakes
from tests.support.screens import screen_data
from tests.unit.pg_server import FakeServer, session

HOSTILE = b"\x1b[31m\xe2\x80\xae[/b][red]"


def sample(tick: int, reading: Reading, *, is_known: bool = True) -> Sample:
    ops = dict(reading.ops) if is_known else {op: OpTotals() for op in reading.ops}
    layer = LayerSample("pg", ops, reading.metrics, reading.tables, reading.databases)
    made = replace(fakes.sample(tick, {}), specs={"pg": SPEC})
    return replace(made, layers={"pg": layer}, mono_ns=tick * 10**9)


def interval(query: bytes = b"select 1", *, is_known: bool = True) -> Snapshot:
    now_s = [100.0]
    server = FakeServer()
    server.schema = None
    views = Views(with_parameters=False, clock=lambda: now_s[0])
    lock = {"type": b"Lock", "wait": b"relation"}
    server.sessions = [session(7, query=query, **lock), session(8, query=query)]
    views.meet(server)
    now_s[0] += 1
    older = views.read(server)
    server.databases = [(5, b"shop", 3, 1607, 1, 1012, 9093, 4.0, 1000, 0)]
    server.wal = (3_005_000, 3, 60, 40, 2.0, 18.0)
    now_s[0] += 1
    return derive(sample(0, older), sample(1, views.read(server), is_known=is_known))


def shown(snapshot: Snapshot, width: int, height: int, table: str = "") -> list[str]:
    state = with_valid_choice(ViewState(), snapshot)
    if table:
        state = replace(state, tables={**state.tables, "pg": TableState(name=table)})
    return [line.text for line in draw(state, screen_data(snapshot), width, height).lines]


def test_the_panel_shows_what_a_dba_asks_first() -> None:
    lines = shown(interval(), 120, 40)
    title = next(line for line in lines if "1 postgresql" in line)
    for said in ("commit 1.50k/s", "read 8.19 MB/s", "log 3.00 MB/s", "sync 500 µs", "90.0%"):
        assert said in title, title
    text = "\n".join(lines)
    for said in ("commit/s", "sync ms", "Lock:relation", "shop select ?", "postgresql: statements"):
        assert said in text, text


def test_the_panel_shows_statements_when_the_breakdown_shows_waits() -> None:
    text = "\n".join(shown(interval(), 120, 40, "wait"))
    assert "statements  sessions  waits" in text
    assert text.count("Lock:relation") == 1
    assert "shop select ?" in text
    text = "\n".join(shown(interval(), 120, 40, "session"))
    assert "7 app shop active" in text


@pytest.mark.parametrize("size", [(40, 12), (76, 40), (80, 24), (240, 60)])
@pytest.mark.parametrize("is_known", [True, False])
def test_the_panel_fits_every_size(size: tuple[int, int], is_known: bool) -> None:
    width, height = size
    lines = shown(interval(HOSTILE * 50, is_known=is_known), width, height)
    assert len(lines) == height
    assert all(line.isprintable() for line in lines)
    assert not is_known or "postg" in "\n".join(lines)
