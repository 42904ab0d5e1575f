"""A disk that has become slower under the same load: somebody else uses it, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioh.findings.devices import devices
from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.sums import OpSum
from ioh.findings.window import Recall, Window, duration_s, row_of, rows_of, seconds_of
from ioh.findings.words import duration, per_s, percent, times
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

RECENT_S = 4.0
BEFORE_S = 10.0
SPAN_S = 35.0


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Each device's reads and writes now, beside the calm before."""
    recent = window.recent(RECENT_S)
    slow = [
        (op, device)
        for op in ("read", "write")
        for device in devices(recent, op)
        # It can be slower than before by so much only where it takes so long.
        if device.sum.ops_per_s >= limits["ops_min_per_s"]
        and (device.sum.latency_us or 0.0) >= limits["added_min_ms"] * 1e3
    ]
    if not slow:
        return
    # Between the two lies what is neither: a rival may have begun in the middle of it.
    everything = window.recent(SPAN_S - 5)
    before = everything[: len(everything) - len(window.recent(2 * RECENT_S))]
    if duration_s(before) < BEFORE_S * 0.95:
        return
    for op, device in slow:
        old, worst_us = _before(before, op, device.name)
        new = device.sum
        # One interval of the time before nearly as slow: then it is nothing new.
        is_new = worst_us * limits["worst_min"] <= (new.latency_us or 0.0)
        if not is_new or not _is_slower(old, new, limits):
            continue
        names = _rivals(before, recent, limits)
        is_remote = not names and _is_same_load(old, new, limits)
        if names or is_remote:
            yield _verdict(op, device.name, old, new, names)


def _is_slower(old: OpSum, new: OpSum, limits: Limits) -> bool:
    if min(old.ops_per_s, new.ops_per_s) < limits["ops_min_per_s"]:
        return False
    if old.latency_us is None or new.latency_us is None:
        return False
    added = new.latency_us - old.latency_us
    return (
        added >= limits["added_min_ms"] * 1e3
        and new.latency_us >= limits["ratio_min"] * old.latency_us
    )


def _before(snapshots: Sequence[Snapshot], op: str, device: str) -> tuple[OpSum, float]:
    """One device before, from its rows, which a window keeps longest; and its slowest interval."""
    count = size = time_us = worst_us = 0.0
    for snapshot in snapshots:
        row = row_of(snapshot, "block", "device", device)
        await_us = row.values.get(f"{op}_await_us") if row is not None else None
        if row is None or await_us is None:
            continue
        seconds = seconds_of(snapshot, "block")
        ops = (row.values.get(f"{op}s_per_s") or 0.0) * seconds
        count += ops
        size += (row.values.get(f"{op}_bytes_per_s") or 0.0) * seconds
        time_us += ops * await_us
        worst_us = max(worst_us, await_us)
    mean_us = time_us / count if count else None
    return OpSum(duration_s(snapshots), round(count), round(size), mean_us), worst_us


def _is_same_load(old: OpSum, new: OpSum, limits: Limits) -> bool:
    """The same sizes, no more in flight than the longer times make of it, and much slower."""
    if (new.latency_us or 0.0) < limits["remote_ratio_min"] * (old.latency_us or 0.0):
        return False
    same_size = 0.8 <= new.avg_bytes / old.avg_bytes <= 1.25 if old.avg_bytes else False
    old_depth = old.ops_per_s * (old.latency_us or 0)
    new_depth = new.ops_per_s * (new.latency_us or 0)
    same_depth = 0.7 * old_depth <= new_depth <= 1.3 * old_depth
    same_rate = 0.8 <= new.ops_per_s / old.ops_per_s <= 1.2
    return same_size and (same_depth or same_rate)


def _moved(snapshots: Sequence[Snapshot]) -> dict[tuple[str, ...], float]:
    """Requests that each process submitted, a second."""
    sums: dict[tuple[str, ...], float] = {}
    for snapshot in snapshots:
        seconds = seconds_of(snapshot, "block")
        for row in rows_of(snapshot, "block", "process"):
            ops = sum(row.values.get(f"{op}s_per_s") or 0.0 for op in ("read", "write"))
            sums[row.key] = sums.get(row.key, 0.0) + ops * seconds
    all_s = duration_s(snapshots)
    return {key: value / all_s for key, value in sums.items()}


def _rivals(
    before: Sequence[Snapshot], recent: Sequence[Snapshot], limits: Limits
) -> list[tuple[str, float]]:
    """Who is new and takes a share, while those who were there get less."""
    old, new = _moved(before), _moved(recent)
    total = sum(new.values())
    if not total or not old:
        return []
    main = max(old, key=lambda key: old[key])
    if new.get(main, 0.0) > (1 - limits["drop_min_pct"] / 100) * old[main]:
        return []
    return [
        (f"{comm}[{pid}]", ops / total)
        for (pid, comm), ops in sorted(new.items(), key=lambda item: -item[1])
        if ops / total * 100 >= limits["rival_min_pct"] and old.get((pid, comm), 0.0) < ops / 10
    ][:3]


def _verdict(
    op: str, device: str, old: OpSum, new: OpSum, names: list[tuple[str, float]]
) -> Verdict:
    old_us, new_us = old.latency_us or 1.0, new.latency_us or 0.0
    who = ", ".join(f"{name} ({percent(share)})" for name, share in names)
    blame = (
        f"since {who} uses it, too"
        if names
        else "under the same load: somebody beyond this machine uses it, too"
    )
    return Verdict(
        subject=f"{op}s {device}",
        severity="warning",
        confidence="high" if names else "low",
        cause=f"A {op} of {device} takes {duration(new_us)} instead of {duration(old_us)}, "
        f"{times(new_us / old_us)} times as long, {blame}.",
        evidence=(
            Evidence(
                f"before {duration(old_us)} at {per_s(old.ops_per_s)} a second, now "
                f"{duration(new_us)} at {per_s(new.ops_per_s)}",
                "latency_us",
                new_us,
                old_us,
                "probe of the block layer",
            ),
            *(
                Evidence(
                    f"{name} makes {percent(share)} of the requests and made almost none before",
                    "reads_per_s",
                    share * 100,
                )
                for name, share in names
            ),
        ),
        advice="Measure again without the other one, or at representative load."
        if names
        else "Nobody here does more: ask who else is on the same array, disk or hypervisor.",
        command="ioh text -d top",
    )


RULE = Rule(
    name="shared_drive",
    title="Shared disk",
    layer="block",
    judge=judge,
    watches="Latency of each device in the last 4 s beside the half minute before, the load, and "
    "who submits it.",
    sources="The block probe: latency by device, submitters by process.",
    blind="A rival that was there from the beginning; on an array only its effect is seen.",
    false_alarm="A cache that is full, collecting garbage, heat, a cloud volume that has spent its "
    "credits (see device_limit): the disk has its own reasons to slow down under the same load "
    "(then confidence is low).",
    thresholds=(
        Threshold("ratio_min", 2.0, "from day to day a disk varies by less"),
        Threshold("remote_ratio_min", 3.5, "with nobody to name; busy CPUs make it two or three"),
        Threshold("worst_min", 1.5, "times the slowest second of the half minute before"),
        Threshold("added_min_ms", 0.5, "less is what a busy CPU adds"),
        Threshold("ops_min_per_s", 50, "a mean over fewer says little"),
        Threshold("rival_min_pct", 20.0, "a smaller share slows nobody by half"),
        Threshold("drop_min_pct", 30.0, "who was there gets less than before"),
    ),
    needs=("block",),
    probed=("block",),
    span_s=SPAN_S,
    recalls=(Recall("block", "device"), Recall("block", "process")),
)
