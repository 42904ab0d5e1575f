"""Recordings in memory, and Samples of any shape, for the tests of the session format."""

from __future__ import annotations

import fcntl
import itertools
import termios
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import IO, Any

from hypothesis import strategies as st

from ioh.model.hist import FINE_BUCKETS, LATENCY_BUCKETS, SIZE_BUCKETS, LatencyHist, SizeLatencyHist
from ioh.model.sample import READ_STEP_US, HostSample, LayerSample, OpTotals, Sample, Unavailable
from ioh.session.output import Output
from ioh.session.stream import Item, ItemReader, Tick
from ioh.session.writer import SessionWriter
from tests.support import fakes
from tests.support.fakes import SPECS

Shown = Callable[..., str]  # runs a command; returns what it printed
CELLS = SIZE_BUCKETS * LATENCY_BUCKETS


def await_full_pipe(pipe: IO[bytes]) -> None:
    """Wait until the pipe is full and its writer, which never pauses, is blocked."""
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    empty = before = queued = bytes(4)
    while queued == empty or queued != before:
        time.sleep(0.1)
        before, queued = queued, fcntl.ioctl(pipe, termios.FIONREAD, empty)


class Memory(Output):
    """An output that keeps what is written."""

    def __init__(self) -> None:
        super().__init__(-1, "memory")
        self.data = bytearray()
        self.closed = False
        self.fail: OSError | None = None

    def write(self, data: bytes) -> None:
        if self.fail is not None:
            raise self.fail
        self.data += data
        self.size_bytes = len(self.data)

    def close(self) -> None:
        self.closed = True


def recorded(
    samples: Iterable[Sample], marks: Mapping[int, str] | None = None, **options: Any
) -> bytes:
    """The bytes of a session that was closed; each mark is 0.1 s after the sample of that tick."""
    memory = Memory()
    writer = SessionWriter(memory, **options)
    for tick, sample in enumerate(samples):
        assert writer.write(sample)
        if marks and tick in marks:
            writer.mark(marks[tick], sample.time_unix_s + 0.1)
    writer.close()
    return bytes(memory.data)


def items(data: bytes, piece: int = 1 << 16, *, joins: bool = False) -> Iterator[Item]:
    """The items in a stream of these bytes."""
    reader = ItemReader(joins=joins)
    for at in range(0, len(data), piece):
        reader.feed(data[at : at + piece])
        yield from reader.items()
    yield from reader.items(at_end=True)


def samples_of(data: bytes) -> list[Sample]:
    return [item.sample for item in items(data) if isinstance(item, Tick)]


@cache
def long_one() -> tuple[list[Sample], bytes]:
    """260 samples, and a recording of them with several whole samples and indexes."""
    samples = list(itertools.islice(fakes.seeded(), 260))
    return samples, recorded(samples)


def small(count: int) -> list[Sample]:
    """Samples of few bytes each: one layer, one op that works, one table."""
    op = fakes.Op()
    made = []
    for tick in range(count):
        op.add(4096, 80_000 + tick * 977, times=3)
        layer = LayerSample(
            "bpf",
            {"read": op.totals(inflight=tick % 3)},
            {"merges_total": 7 * tick},
            {"queue": {("sda",): (64, tick % 5), (f"nvme{tick // 6}",): (1023, 1.5)}},
            {"sda": {"read": op.totals()}},
            {"no_start": tick // 4},
        )
        made.append(fakes.sample(tick, {"platter": layer}))
    return made


_text = st.text(max_size=12) | st.sampled_from(fakes.HOSTILE)
_count = st.integers(0, (1 << 64) - 1) | st.integers(0, 300)
_known = st.none() | _count
# Far from infinity: the difference of two infinite totals is NaN, which equals nothing.
_value = _known | st.floats(-1e150, 1e150)


@st.composite
def _hist_counts(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    if draw(st.booleans()):
        return ()
    counts = [0] * size
    for at in draw(st.lists(st.integers(0, size - 1), max_size=6)):
        counts[at] = draw(_count)
    return tuple(counts)


@st.composite
def _ops(draw: st.DrawFn, names: tuple[str, ...]) -> dict[str, OpTotals]:
    made = {}
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        scalars = [draw(_known) for _ in range(11)]
        fine = draw(st.none() | _hist_counts(FINE_BUCKETS))
        cells = draw(st.none() | _hist_counts(CELLS))
        made[name] = OpTotals(  # type: ignore[call-arg]
            *scalars,  # type: ignore[arg-type]
            None if fine is None else LatencyHist(fine),
            None if cells is None else SizeLatencyHist(cells),
        )
    return made


@st.composite
def _layer(draw: st.DrawFn, name: str) -> LayerSample | Unavailable:
    if draw(st.integers(0, 5)) == 0:
        return Unavailable(draw(_text), draw(_text), draw(st.booleans()))
    spec = SPECS[name]
    tables = {
        table.name: draw(
            st.dictionaries(
                st.tuples(*(_text for _ in table.keys)),
                st.tuples(*(_value for _ in table.raw_columns)),
                max_size=4,
            )
        )
        for table in spec.tables
        if draw(st.booleans())
    }
    metrics = [m.name for m in spec.metrics if m.kind != "ratio"]
    return LayerSample(
        source=draw(st.sampled_from(("bpf", "proc"))),
        ops=draw(_ops(spec.ops)),
        metrics={metric: draw(_value) for metric in metrics if draw(st.booleans())},
        tables=tables,
        parts=draw(st.dictionaries(_text, _ops(spec.ops), max_size=2)),
        lost={reason: draw(_count) for reason in spec.lost},
        gauge_hists={
            hist.name: tuple(draw(st.lists(_count, min_size=26, max_size=26)))
            for hist in spec.gauge_hists
        },
        notes=tuple(draw(st.lists(_text, max_size=2))),
        read_after_us=READ_STEP_US * draw(st.integers(0, 20_000)),
    )


@st.composite
def any_samples(draw: st.DrawFn) -> list[Sample]:
    """Samples that have nothing in common, in the order of time."""
    mono_ns = draw(st.integers(1, 1 << 60))
    made = []
    for _ in range(draw(st.integers(1, 6))):
        mono_ns += draw(st.integers(1, 1 << 40))
        names = draw(st.lists(st.sampled_from(sorted(SPECS)), unique=True))
        host = HostSample(cpu_total_ticks=draw(_known), load1=draw(st.none() | st.just(0.5)))
        made.append(
            Sample(
                time_unix_s=draw(st.floats(0, 2e9)),
                mono_ns=mono_ns,
                hostname=draw(_text),
                kernel=draw(_text),
                host=host,
                layers={name: draw(_layer(name)) for name in names},
                specs={name: SPECS[name] for name in names},
                self_cpu_ns_total=draw(_known),
                bpf_ns_total=draw(_known),
            )
        )
    return made
