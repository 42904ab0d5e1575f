"""Totals by owner add up to what the devices did, however many have one owner and change it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.layers.per_owner_totals import OwnedTotals
from ioh.model.hist import LatencyHist, SizeLatencyHist
from ioh.model.sample import OpTotals

DEVICES = 12
# What a device did in a tick: its number, op, how many of which bucket, its owner from then on.
DONE = st.lists(
    st.tuples(
        st.integers(0, DEVICES - 1),
        st.sampled_from(["read", "write"]),
        st.integers(1, 9),
        st.integers(0, 2),
        st.sampled_from(["all", "all", "all", "other", None]),
    ),
    max_size=6,
)


@settings(max_examples=25)
@given(ticks=st.lists(DONE, max_size=12))
def test_what_each_owner_got_is_what_its_devices_did(
    ticks: list[list[tuple[int, str, int, int, str | None]]],
) -> None:
    totals, owners = OwnedTotals(), dict[int, str | None]()
    done: dict[tuple[int, str], list[int]] = {
        (dev, op): [0, 0, 0] for dev in range(DEVICES) for op in ("read", "write")
    }
    wanted: Counter[tuple[str | None, str, int]] = Counter()
    for tick in [[], *ticks]:
        grown: Counter[tuple[int, str, int]] = Counter()
        for dev, op, count, bucket, owner in tick:
            done[dev, op][bucket] += count
            grown[dev, op, bucket] += count
            owners[dev] = owner
        for (dev, op, bucket), count in grown.items():
            wanted[owners[dev], op, bucket] += count
        readings = {
            dev: {op: op_totals(done[dev, op]) for op in ("read", "write")}
            for dev in range(DEVICES)
        }
        found = totals.update(readings, lambda dev: owners.get(dev, "all"))
    for owner in ("all", "other"):
        for op in ("read", "write"):
            counts = [wanted[owner, op, bucket] for bucket in range(3)]
            got = found.get(owner, {}).get(op, op_totals([0, 0, 0]))
            assert (got.count_total, got.bytes_total) == (sum(counts), 10 * sum(counts))
            assert got.latency is not None
            assert got.size_lat is not None
            assert list(got.latency.counts or (0, 0, 0)) == counts
            assert list(got.size_lat.counts or (0, 0, 0)) == counts


def op_totals(counts: list[int]) -> OpTotals:
    total = sum(counts)
    latency, size_lat = LatencyHist(tuple(counts)), SizeLatencyHist(tuple(counts))
    return OpTotals(total, 10 * total, 0, 100 * total, latency=latency, size_lat=size_lat)
