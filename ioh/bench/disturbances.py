"""Find what else happened on the machine during a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioh.bench.results import Disturbance, TestSpec
from ioh.bench.watch import RecordedRun
from ioh.findings.format_sentence import percent, rate, size
from ioh.model.sample import Unavailable
from ioh.model.snapshot import Snapshot

CpuState = tuple[str, float | None]  # governors, and the mean frequency in kHz

_STEAL_PCT = 1.0
_DIRTY_BYTES = 64 << 20
_SLOWER = 0.8  # of the frequency before
# The rate has turned if it falls below this share of its former value and stays there.
_TURNED, _TURN_TICKS = 0.6, 5
_MIN_TICKS = 12  # shorter runs are not judged


def disturbances_of(
    spec: TestSpec, recording: RecordedRun | None, cpu_before: CpuState, cpu_after: CpuState
) -> tuple[Disturbance, ...]:
    """Collect all disturbances; ``recording`` is None if nothing was recorded."""
    disturbances = list(_cpu(cpu_before, cpu_after))
    if recording is not None:
        disturbances += [
            *_steal(recording.whole),
            *_dirty(spec, recording),
            *_turn(spec, recording.ticks),
        ]
        disturbances += [Disturbance("gap", remark) for remark in recording.remarks]
    return tuple(disturbances)


def _cpu(before: CpuState, after: CpuState) -> Iterator[Disturbance]:
    if before[0] != after[0]:
        yield Disturbance("governor", f"the CPUs' governor changed from {before[0]} to {after[0]}")
    then, now = before[1], after[1]
    if then and now and now < _SLOWER * then:
        sentence = f"the CPUs went from {then / 1000:,.0f} to {now / 1000:,.0f} MHz"
        yield Disturbance("frequency", sentence, now / then * 100)


def _steal(whole: Snapshot) -> Iterator[Disturbance]:
    steal_pct = whole.host.steal_pct
    if steal_pct is not None and steal_pct >= _STEAL_PCT:
        sentence = f"other virtual machines took {percent(steal_pct / 100)} of this one's CPU time"
        yield Disturbance("steal", sentence, steal_pct)


def _dirty(spec: TestSpec, recording: RecordedRun) -> Iterator[Disturbance]:
    """Write-back of data written before this test."""
    if not recording.ticks:
        return
    host = recording.ticks[0].host
    waiting = (host.dirty_bytes or 0) + (host.writeback_bytes or 0)
    is_own = not spec.direct and spec.rw not in {"read", "randread"}
    if waiting >= _DIRTY_BYTES and not is_own:
        sentence = f"{size(waiting)} of earlier writes were not yet written back"
        yield Disturbance("dirty", sentence, float(waiting))


def _turn(spec: TestSpec, ticks: Sequence[Snapshot]) -> Iterator[Disturbance]:
    """The moment when the rate fell and did not recover: burst credit spent, or a cache full."""
    rates = [bytes_per_s for tick in ticks[1:-1] if (bytes_per_s := _rate(tick)) is not None]
    if len(rates) < _MIN_TICKS or spec.files:
        return
    for at in range(_TURN_TICKS, len(rates) - _TURN_TICKS):
        before = sorted(rates[:at])[at // 2]
        behind = rates[at:]
        if before and max(behind) < _TURNED * before:
            after = sorted(behind)[len(behind) // 2]
            sentence = (
                f"after {at + 1} s the rate fell from {rate(before)} to {rate(after)} and stayed "
                "there: burst credit or a cache was used up"
            )
            yield Disturbance("turn", sentence, at + 1.0)
            return


def _rate(tick: Snapshot) -> float | None:
    """Bytes a second moved by requests, or by RPCs to a server."""
    rates: list[float] = []
    for name in ("nfs_client", "block"):
        layer = tick.layers.get(name)
        if layer is None or isinstance(layer, Unavailable):
            continue
        stats = [layer.ops.get(op) for op in ("read", "write")]
        rates.append(sum(s.bytes_per_s or 0.0 for s in stats if s is not None))
    return max(rates, default=None)
