"""A disk that has become slower under the same load, because others use it too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ioh.findings.devices import devices
from ioh.findings.format_sentence import duration, per_s, percent, program, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.sums import OpSum
from ioh.findings.window import (
    Recall,
    RecentIntervals,
    duration_s,
    number,
    seconds_of,
)
from ioh.model.finding import Evidence
from ioh.model.snapshot import OpStats, Snapshot

RECENT_S = 4.0
BEFORE_S = 10.0
REMOTE_S = 30.0
SPAN_S = 150.0
_Key = tuple[str, ...]


class _Rivals(NamedTuple):
    """New programs with their share of the requests; the intervals with and without them."""

    shares: list[tuple[str, float]]
    recent: RecentIntervals
    calm: list[Snapshot]
    victim: _Key  # the process with most requests before


@Rule(
    title="Shared disk",
    layer="block",
    watches="Latency of each device in the last 4 s compared with the half minute before, or with "
    "the seconds before a new program started its I/O; the load, and who submits it.",
    sources="The block probe: latency by device, submitters by process.",
    blind="A competitor that was active from the start, or for more than two minutes: it counts "
    "as normal load. On an array, only its effect is visible.",
    false_alarm="A disk that slows down by itself under the same load: a full cache, garbage "
    "collection, heat, a cloud volume out of credits (see device_limit). Confidence is then low.",
    wrong_if="the disk is as slow while the other program is stopped",
    check="iostat -x 1 10",
    thresholds={
        "ratio_min": (2.0, "normal variation of a disk is less"),
        "remote_ratio_min": (
            3.5,
            "if no process is known; busy CPUs cause a factor of two or three",
        ),
        "worst_min": (1.5, "times the slowest second of the half minute before"),
        "added_min_ms": (0.5, "a busy CPU can add less than this"),
        "ops_min_per_s": (50, "a mean over fewer means little"),
        "rival_min_pct": (20.0, "a smaller share does not halve anyone's speed"),
        "drop_min_pct": (30.0, "the earlier user gets less than before"),
    },
    probed=("block",),
    span_s=SPAN_S,
    recalls=(Recall("block", "device"), Recall("block", "process"), Recall("syscall", "process")),
    recent_s=RECENT_S,
)
def shared_drive(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare each device's reads and writes now with the calm time before."""
    slow = [
        (op, device)
        for op in ("read", "write")
        for device in devices(recent, op)
        # A shorter latency cannot have grown by added_min_ms.
        if device.sum.ops_per_s >= limits["ops_min_per_s"]
        and (device.sum.latency_us or 0.0) >= limits["added_min_ms"] * 1e3
    ]
    if not slow:
        return
    window = recent.window
    rivals = _rivals(recent, limits)
    # Leave out the seconds between before and now: a rival may have started in them.
    everything = window.recent(REMOTE_S)
    before = everything[: len(everything) - len(window.recent(2 * RECENT_S))]
    calm = rivals.calm if rivals is not None else before
    if duration_s(calm) < BEFORE_S * 0.95:
        return
    for op, device in slow:
        old, worst_us = _before(calm, op, device.name)
        new = device.sum
        # Not new if one earlier interval was nearly as slow.
        is_new = worst_us * limits["worst_min"] <= (new.latency_us or 0.0)
        if not is_new or not _is_slower(old, new, limits):
            continue
        if rivals is not None or _is_same_load(old, new, limits):
            yield _verdict(op, device.name, old, new, rivals)


def _is_slower(old: OpSum, new: OpSum, limits: Limits) -> bool:
    if min(old.ops_per_s, new.ops_per_s) < limits["ops_min_per_s"]:
        return False
    if old.latency_us is None or new.latency_us is None:
        return False
    is_long = new.latency_us - old.latency_us >= limits["added_min_ms"] * 1e3
    return is_long and new.latency_us >= limits["ratio_min"] * old.latency_us


def _before(snapshots: Sequence[Snapshot], op: str, device: str) -> tuple[OpSum, float]:
    """A device's sum and slowest interval (us), from its rows, which the window keeps longest."""
    count = size = time_us = worst_us = 0.0
    for snapshot in snapshots:
        rows = (row for row in snapshot.rows("block", "device") if row.key[0] == device)
        row = next(rows, None)
        if row is None or row.values.get(f"{op}_await_us") is None:
            continue
        seconds, await_us = seconds_of(snapshot, "block"), number(row, f"{op}_await_us")
        ops = number(row, f"{op}s_per_s") * seconds
        count += ops
        size += number(row, f"{op}_bytes_per_s") * seconds
        time_us += ops * await_us
        worst_us = max(worst_us, await_us)
    mean_us = time_us / count if count else None
    stats = OpStats(count=round(count), bytes=round(size), latency_us=mean_us)
    return OpSum(duration_s(snapshots), ((0.0, stats),)), worst_us


def _is_same_load(old: OpSum, new: OpSum, limits: Limits) -> bool:
    """Whether size and depth or rate are the same, and the latency is much longer."""
    if (new.latency_us or 0.0) < limits["remote_ratio_min"] * (old.latency_us or 0.0):
        return False
    same_size = 0.8 <= new.avg_bytes / old.avg_bytes <= 1.25 if old.avg_bytes else False
    same_depth = 0.7 * old.depth <= new.depth <= 1.3 * old.depth
    same_rate = 0.8 <= new.ops_per_s / old.ops_per_s <= 1.2
    return same_size and (same_depth or same_rate)


def _requests(snapshot: Snapshot) -> dict[_Key, float]:
    """Requests per second, by process."""
    return {
        row.key: number(row, "reads_per_s") + number(row, "writes_per_s")
        for row in snapshot.rows("block", "process")
    }


def _rivals(recent: RecentIntervals, limits: Limits) -> _Rivals | None:
    """Programs that are new and have a large share, if the earlier user now gets less."""
    everything = recent.window.recent(SPAN_S - 5)
    rates = everything.each(_requests)
    now = _means(recent, rates[-len(recent) :])
    total = sum(now.values())
    if not total:
        return None
    calm = list(zip(everything, rates, strict=True))[: -len(recent)]
    shares: list[tuple[str, float]] = []
    for key, ops in sorted(now.items(), key=lambda item: -item[1]):
        without = [pair for pair in calm if pair[1].get(key, 0.0) < ops / 10]
        is_new = sum(s.interval_s for s, _ in without) >= BEFORE_S * 0.95
        if ops / total * 100 >= limits["rival_min_pct"] and is_new and len(shares) < 3:
            shares.append((program(key, "another"), ops / total))
            calm = without
    old = _means([s for s, _ in calm], [ops for _, ops in calm])
    if not shares or not old:
        return None
    victim = max(old, key=lambda key: old[key])
    # A program that has ended does not share.
    if not 0 < now.get(victim, 0.0) <= (1 - limits["drop_min_pct"] / 100) * old[victim]:
        return None
    return _Rivals(shares, recent, [s for s, _ in calm], victim)


def _means(snapshots: Sequence[Snapshot], rates: Sequence[dict[_Key, float]]) -> dict[_Key, float]:
    sums: dict[_Key, float] = {}
    for snapshot, by_key in zip(snapshots, rates, strict=True):
        for key, ops in by_key.items():
            sums[key] = sums.get(key, 0.0) + ops * snapshot.interval_s
    seconds = duration_s(snapshots)
    return {key: value / seconds for key, value in sums.items()}


def _calls(snapshots: Sequence[Snapshot], key: _Key) -> tuple[str, str]:
    """A process' reads and writes per second, and their mean time; "" if it had none."""
    count = time_us = 0.0
    for snapshot in snapshots:
        for row in snapshot.rows("syscall", "process"):
            if row.key == key:
                for op in ("read", "write"):
                    calls = number(row, f"{op}s_per_s") * snapshot.interval_s
                    count += calls
                    time_us += calls * number(row, f"{op}_latency_us")
    if not count:
        return "", ""
    return per_s(count / duration_s(snapshots)), duration(time_us / count)


def _verdict(op: str, device: str, old: OpSum, new: OpSum, rivals: _Rivals | None) -> Verdict:
    old_us, new_us = old.latency_us or 1.0, new.latency_us or 0.0
    was, now = duration(old_us), duration(new_us)
    longer = f"A {op} of {device} takes {now} instead of {was}, {times(new_us / old_us)} times as "
    text = f"{op}s of {device} by all programs: {was} before at {per_s(old.ops_per_s)} a second, "
    text += f"now {now} at {per_s(new.ops_per_s)}"
    evidence = [Evidence(text, "latency_us", new_us, old_us, "probe of the block layer")]
    if rivals is None:
        cause = f"{longer}long, under the same load: someone outside this machine uses it too."
        advice = "No program here does more: ask who else uses the same array, disk or hypervisor."
    else:
        who = ", ".join(f"{name} ({percent(share)})" for name, share in rivals.shares)
        cause = f"{longer}long, because {who} now uses it too."
        before, before_us = _calls(rivals.calm, rivals.victim)
        calls, calls_us = _calls(rivals.recent, rivals.victim)
        if before and calls:
            name = program(rivals.victim, "another program")
            cause = f"{name} makes {calls} calls a second ({calls_us} each) instead of {before} "
            cause += f"({before_us} each), because {who} now uses {device} too."
        for name, share in rivals.shares:
            text = f"{name} makes {percent(share)} of the requests, and made almost none before"
            evidence.append(Evidence(text, "reads_per_s", share * 100))
        advice = "Measure again without the other program, or with a representative load."
    return Verdict(
        subject=f"{op}s {device}",
        ways=ways_of(op),
        confidence="high" if rivals is not None else "low",
        cause=cause,
        evidence=tuple(evidence),
        advice=advice,
        command="ioh text -d top",
    )
