"""What tests of the screen draw: intervals of the demo and harder ones, and all views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from ioh.model.finding import Evidence, Finding, NotEvaluated
from ioh.model.player import Extent, FindingBegin, RecordingState, TimelineEvent
from ioh.model.sample import Unavailable
from ioh.model.snapshot import HostStats, LayerSnapshot, OpStats, Snapshot, TableRow
from ioh.pipeline import snapshots
from ioh.terminal.line import ScreenFrame
from ioh.tui.actions import with_valid_choice
from ioh.tui.drill_down import narrowed
from ioh.tui.history import RowRates, point_of, row_rates
from ioh.tui.render.header import HeaderView
from ioh.tui.render.screen import ScreenData, draw
from ioh.tui.render.timeline import TimelineView
from ioh.tui.state import Narrow, TableState, ViewState
from tests.support import fakes
from tests.support.demo_samples import START_S, intervals, trouble_and_quiet

LAYERS = ("syscall", "nfs_client", "tcp", "nfs_server", "block")
SECONDS = 60

FINDINGS = tuple(
    Finding(
        rule=f"rule-{severity}",
        title=f"A {severity} thing",
        layer="nfs_client",
        severity=severity,  # type: ignore[arg-type]
        confidence="high",
        cause="Application reads of 1 MB become 8.0 READs of 128 KB each on 10.0.0.5:/export.",
        evidence=(
            Evidence("8.0 READs for each read", "read_lower_ops_per_op", 8.0, 1.5, "/proc/mounts"),
            Evidence("rsize is 131,072"),
        ),
        advice="Mount it with rsize=1048576.",
        command="mount -o remount,rsize=1048576 /mnt/data",
        false_alarm="the program reads at random",
        wrong_if="the READs are as large as the calls",
        check="nfsiostat 1 5",
        since_unix_s=START_S + since_s,
        recent_s=5.0,
    )
    for severity, since_s in (("warning", 20.0), ("info", 5.0), ("critical", 33.0))
)
MISSING = (NotEvaluated("tcp-loss", "Segments lost", "no layer tcp"),)
MOMENTS = (
    TimelineEvent(START_S + 10.5, "fio run 3 starts"),
    TimelineEvent(START_S + 30.0, "the disk was full", START_S + 34.0),
)


@cache
def minute() -> tuple[Snapshot, ...]:
    """The minute of the demo, second by second."""
    return tuple(intervals())


def judged() -> Snapshot:
    """The minute's last interval, with one finding of each severity."""
    return replace(minute()[-1], findings=FINDINGS, not_evaluated=MISSING)


def nothing_known() -> Snapshot:
    """Every number is None, but every layer and row is there."""
    last = minute()[-1]
    layers: dict[str, LayerSnapshot | Unavailable] = {}
    for name, layer in last.layers.items():
        assert isinstance(layer, LayerSnapshot)
        tables = {
            title: tuple(TableRow(row.key, dict.fromkeys(row.values)) for row in rows)
            for title, rows in layer.tables.items()
        }
        layers[name] = LayerSnapshot(
            layer.spec, "proc", layer.interval_s, dict.fromkeys(layer.ops, OpStats()), tables=tables
        )
    return replace(last, host=HostStats(), layers=layers, self_cpu_pct=None, bpf_cpu_pct=None)


def nothing_there() -> Snapshot:
    """No layer is available, each for a reason."""
    missing = Unavailable("no file system of this kind is mounted", "Mount one.")
    return replace(minute()[-1], layers=dict.fromkeys(LAYERS, missing))


def layer_of(snapshot: Snapshot, name: str) -> LayerSnapshot:
    """A layer that is available."""
    layer = snapshot.layers[name]
    assert isinstance(layer, LayerSnapshot)
    return layer


def with_layer(snapshot: Snapshot, name: str, **changes: object) -> Snapshot:
    """The same snapshot with some fields of a layer changed."""
    layer = replace(layer_of(snapshot, name), **changes)  # type: ignore[arg-type]
    return replace(snapshot, layers={**snapshot.layers, name: layer})


def without(snapshot: Snapshot, layer: str) -> Snapshot:
    """The same snapshot with a layer that has become unavailable."""
    gone = Unavailable("the last mount is gone", is_idle=True)
    return replace(snapshot, layers={**snapshot.layers, layer: gone})


@cache
def kinds() -> dict[str, Snapshot]:
    """One Snapshot of every kind that the screen can show."""
    nothing = replace(minute()[-1], layers={}, specs={})
    fake = list(snapshots(fakes.first(4)))[-1]
    quiet = next(iter(snapshots(fakes.quiet(2))))
    process = Narrow("process", ("4121", "dbserver"))
    trouble, quiet_night = trouble_and_quiet()
    return {
        "demo": judged(),
        "trouble": trouble,
        "quiet demo": quiet_night,
        "first": minute()[0],
        "nothing known": nothing_known(),
        "nothing there": nothing_there(),
        "no layers": nothing,
        "others": replace(fake, findings=FINDINGS[:1]),
        "idle": quiet,
        "one gone": without(judged(), "nfs_client"),
        "narrowed": narrowed(judged(), process),
        "narrowed to nobody": narrowed(judged(), Narrow("device", ("sdz",))),
    }


def states(layers: Sequence[str] = LAYERS) -> list[ViewState]:
    """Every view: screens, panels, layers, tables."""
    made = [ViewState(), ViewState(focus="top"), ViewState(screen="help")]
    made += [ViewState(screen="help", scroll=5), ViewState(screen="findings")]
    made += [ViewState(screen="findings", scroll=10_000)]
    for layer in layers:
        tables = {layer: TableState(cursor=3)}
        op = "in" if layer in {"tcp", "wire"} else "read"
        for panel in ("hist", "heat", "graph"):
            made.append(ViewState(chosen=(layer, op), panel=panel))
            made.append(ViewState(layer=layer, chosen=(layer, op), panel=panel))
        made.append(ViewState(layer=layer, chosen=(layer, op), focus="top"))
        made.append(
            ViewState(
                layer=layer,
                chosen=(layer, op),
                focus="top",
                tables=tables,
                pattern="a",
                prompt="filter",
            )
        )
    return made


@cache
def minute_rows() -> list[RowRates]:
    """The rates of rows in the minute of the demo."""
    return [row_rates(interval) for interval in minute()]


def screen_data(
    snapshot: Snapshot | None,
    *,
    is_ascii: bool = False,
    shown: str = "live",
    mode: str = "live",
    message: tuple[str, str] = ("", ""),
    status: str = "",
    recording: RecordingState | None = None,
    history: Sequence[Snapshot] | None = None,
    **header: object,
) -> ScreenData:
    """What draw() needs, with the minute of the demo as history."""
    past = minute() if history is None else history
    view = HeaderView(
        mode=mode,  # type: ignore[arg-type]
        shown=shown,
        recording=recording or RecordingState(),
        now_unix_s=START_S + SECONDS,
        utc=True,
        **header,  # type: ignore[arg-type]
    )
    timeline = None
    if snapshot is not None:
        extent = Extent(1, SECONDS, START_S, START_S + SECONDS)
        begins = [
            FindingBegin(finding.since_unix_s, finding.severity, snapshot.time_unix_s)
            for finding in snapshot.findings
        ]
        timeline = TimelineView(extent, snapshot.time_unix_s, MOMENTS, begins, utc=True)
    return ScreenData(
        snapshot=snapshot,
        header=view,
        points=[point_of(interval) for interval in past],
        rows=minute_rows() if history is None else [row_rates(interval) for interval in past],
        timeline=timeline,
        status=status,
        message=message,
        tick=len(past),
        is_ascii=is_ascii,
    )


def drawn(
    snapshot: Snapshot,
    size: tuple[int, int] = (120, 40),
    state: ViewState | None = None,
    history: Sequence[Snapshot] | None = None,
) -> ScreenFrame:
    """The screen of an interval, with something on it chosen."""
    state = with_valid_choice(state or ViewState(), snapshot)
    return draw(state, screen_data(snapshot, history=history), *size)
