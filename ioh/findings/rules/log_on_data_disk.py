"""A database's log on the disk that its data are written to."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.findings.format_sentence import duration, percent, rate, times
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.waits import waits_by_server
from ioh.findings.window import Recall, Stretch, duration_s, rows_of, seconds_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

RECENT_S = 4.0
CALM_S = 8.0
SPAN_S = 90.0


@Rule(
    title="Log and data share a disk",
    layer="db",
    watches="The time of log syncs while much is written to the disk, and while little is.",
    sources="The database's own probe points; the block layer's devices.",
    blind="Hosts where more than one device is written to: which of them has the log is not known.",
    false_alarm="A device that is slow for another reason just then, such as its own garbage "
    "collection.",
    wrong_if="the log is on another device (df of pg_wal)",
    check="ioh text --layers db,block -d top",
    thresholds=(
        Threshold("syncs_min", 40, "in each of the two spans; fewer say little"),
        Threshold("ratio_min", 2.0, "times as long; syncs differ by less on a calm disk"),
        Threshold("added_min_ms", 1.0, "nobody feels less"),
        Threshold("write_min_mb_per_s", 5.0, "written to the device; a log alone writes less"),
        Threshold("writes_ratio_min", 3.0, "times as much as in the calm intervals"),
        Threshold("same_min", 0.95, "of all writes go to one device: so do log and data"),
    ),
    needs=("db", "block"),
    probed=("db",),
    hold_s=2.0,
    span_s=SPAN_S,
    recalls=(Recall("db", "wait"), Recall("block", "device")),
    recent_s=4.0,
)
def log_on_data_disk(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server's log syncs while much is written, beside those while little is."""
    window = recent.window
    device, share = _device(recent)
    if not device or share < limits["same_min"]:
        return
    busy = _bytes_per_s(recent, device)
    calm = [s for s in window if _bytes_per_s([s], device) * limits["writes_ratio_min"] <= busy]
    if busy < limits["write_min_mb_per_s"] * 1e6 or duration_s(calm) < CALM_S * 0.95:
        return
    before = waits_by_server(calm, "commit")
    for server, commits in waits_by_server(recent, "commit").items():
        sync = commits.by_wait.get("log_sync")
        usual = before[server].by_wait.get("log_sync") if server in before else None
        if (
            sync is None
            or usual is None
            or min(sync.count, usual.count) < limits["syncs_min"]
            or sync.mean_us < limits["ratio_min"] * usual.mean_us
            or sync.mean_us - usual.mean_us < limits["added_min_ms"] * 1e3
        ):
            continue
        ratio = sync.mean_us / usual.mean_us
        yield Verdict(
            subject=server,
            cause=f"{server}: a sync of the log takes {duration(sync.mean_us)} while "
            f"{rate(busy)} are written to {device}, {duration(usual.mean_us)} while little is: "
            "its log and its data share that device.",
            evidence=(
                Evidence(
                    f"{times(ratio)} times as long as while little is written",
                    "ratio",
                    ratio,
                    limits["ratio_min"],
                    "probe of the database",
                ),
                Evidence(
                    f"{percent(share)} of all writes go to {device}",
                    "share_pct",
                    share * 100,
                    limits["same_min"] * 100,
                    "block layer",
                ),
            ),
            advice="Put the log (pg_wal) on a device of its own, or let less be written at a time "
            "(spread checkpoints, limit the backup's or the copy's writes).",
            command="ioh text --layers db,block -d top",
        )


def _device(recent: Sequence[Snapshot]) -> tuple[str, float]:
    """The one that takes most of what is written, and its share.

    Stacks are left out, whose parts count, but where --device leaves nothing else.
    """
    rows = [(s, row) for s in recent for row in rows_of(s, "block", "device")]
    moved: dict[str, float] = {}
    for snapshot, row in [pair for pair in rows if not pair[1].values.get("stacked")] or rows:
        found = (row.values.get("write_bytes_per_s") or 0.0) * seconds_of(snapshot, "block")
        moved[row.key[0]] = moved.get(row.key[0], 0.0) + found
    if not any(moved.values()):
        return "", 0.0
    device = max(moved, key=lambda name: moved[name])
    return device, moved[device] / sum(moved.values())


def _bytes_per_s(snapshots: Sequence[Snapshot], device: str) -> float:
    seconds = sum(seconds_of(snapshot, "block") for snapshot in snapshots)
    moved = sum(
        (row.values.get("write_bytes_per_s") or 0.0) * seconds_of(snapshot, "block")
        for snapshot in snapshots
        for row in rows_of(snapshot, "block", "device")
        if row.key[0] == device
    )
    return moved / seconds if seconds else 0.0
