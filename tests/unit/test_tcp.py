"""TCP: every byte counts once, whenever connections end; tables, metrics and notes."""

from __future__ import annotations

import errno
import random
import struct
from dataclasses import dataclass, field
from unittest.mock import Mock

import psutil
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ioh.layers import tcp_tables
from ioh.layers.tcp import SPEC, Tcp
from ioh.layers.tcp_ledger import ConnectionEnd, Ledger, Totals, Traffic, decode_endings
from ioh.layers.tcp_tables import (
    ConnectionTable,
    InterfaceTable,
    PortTable,
    round_trips,
    service_name,
    service_port,
)
from ioh.model.derive_table import derive_table
from ioh.model.filters import Filters
from ioh.model.hist import LATENCY_BUCKETS, latency_index
from ioh.model.sample import LayerSample
from ioh.procfs.network import Link, LinkTable
from ioh.procfs.sock_diag import Change, Counters, Dump, SockDiag
from tests.unit.test_layer_read import check_shape

# The most connections; without it some seeds make them faster than a dump can list them.
MANY = 50


def message_of(pair: bytes) -> bytes:
    """The part of an inet_diag message that the ledger looks at."""
    return bytes(16) + bytes([2]) + bytes(3) + pair


def pair_of(number: int) -> bytes:
    return struct.pack("!HH16s16s", 2049, number, b"here", b"there")


def dump_of(known: dict[int, Counters], now: dict[int, Counters]) -> Dump:
    changed = [
        Change(cookie, counters, 100, 50, message_of(pair_of(cookie)))
        for cookie, counters in now.items()
        if known.get(cookie) != counters
    ]
    return Dump(dict(now), changed, set())


def tick(ledger: Ledger, now: dict[int, Counters], *endings: ConnectionEnd) -> Totals:
    ledger.apply(dump_of(ledger.counters, now), list(endings))
    return ledger.totals


def ending(cookie: int, counters: Counters, number: int | None = None) -> ConnectionEnd:
    return ConnectionEnd(cookie, counters, 100, 2, pair_of(cookie if number is None else number))


def began(now: dict[int, Counters]) -> Ledger:
    ledger = Ledger()
    ledger.begin([dump_of({}, now)], [])
    return ledger


@pytest.mark.parametrize("cookie", [0, 99])
def test_a_connection_that_no_dump_saw_counts_in_full(cookie: int) -> None:
    """Even if another program has asked for its cookie."""
    ledger = began({})
    end = ending(cookie, Counters(5, 6, 1, 1))
    assert tick(ledger, {}, end) == Totals(5, 5, 1, 1)
    assert tick(ledger, {7: Counters(7, 9, 2, 1, 3, 4)}) == Totals(12, 12, 3, 2, 3, 4)


def test_a_connection_that_ended_before_the_baseline_does_not_count() -> None:
    ledger = Ledger()
    ledger.begin(
        [dump_of({}, {1: Counters(5, 5)})], [ending(0, Counters(9, 9)), ending(1, Counters(6, 6))]
    )
    assert tick(ledger, {}) == Totals()
    assert ledger.no_close_total == 0


def test_an_end_that_never_comes_is_a_loss() -> None:
    ledger = began({1: Counters(1, 1)})
    for _ in range(5):
        tick(ledger, {})
    assert ledger.no_close_total == 1
    assert ledger.counters == {}


@pytest.mark.parametrize(
    "after", [Counters(1, 1), Counters(10, 20), Counters(500, 3), Counters(500, 500)]
)
def test_a_socket_that_reconnects_keeps_its_cookie(after: Counters) -> None:
    ledger = began({1: Counters(10, 20)})
    tick(ledger, {1: after}, ending(1, Counters(12, 25)))
    tick(ledger, {1: Counters(600, 600)})
    assert tick(ledger, {}, ending(1, Counters(601, 602))) == Totals(2 + 601, 5 + 602)


def test_a_connection_that_ends_during_a_dump_counts_once() -> None:
    ledger = began({})
    # The answer gave it cookie 5; the probe had read 0 a moment before.
    tick(ledger, {5: Counters(30, 40)}, ending(0, Counters(30, 40), 5))
    assert tick(ledger, {}) == Totals(60, 80)  # a total never goes back ...
    assert tick(ledger, {7: Counters(30, 40)}) == Totals(60, 80)  # ... so it waits
    assert tick(ledger, {7: Counters(31, 42)}) == Totals(61, 82)
    assert ledger.no_close_total == 0


def test_a_fin_that_arrives_during_an_answer_is_taken_back() -> None:
    ledger = began({})
    assert tick(ledger, {1: Counters(11, 0)}) == Totals(11)  # 10 bytes and a FIN not yet reported
    assert tick(ledger, {1: Counters(10, 0)}) == Totals(11)
    assert tick(ledger, {}, ending(1, Counters(10, 0))) == Totals(11)
    assert tick(ledger, {}, ending(0, Counters(10, 0))) == Totals(20)


def test_segments_wrap_at_32_bits() -> None:
    ledger = began({1: Counters(0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFE, 5)})
    assert tick(ledger, {1: Counters(1, 1, 0, 1, 1, 6)}) == Totals(1, 1, 0, 2, 3, 1)


def test_endings_are_decoded_in_the_order_in_which_they_happened() -> None:
    def item(ns: int, received: int) -> tuple[bytes, bytes]:
        key = struct.pack("=QQ", 0xFFFF888000000000 - ns, ns)
        value = struct.pack("=QQQQIIIII", 3, received, 8, 2, 1, 4, 5, 250, 2) + pair_of(9)
        return key, value

    first, second = decode_endings([item(2000, 20), item(1000, 10)])
    assert first == ConnectionEnd(3, Counters(10, 8, 2, 1, 4, 5), 250, 2, pair_of(9))
    assert second.counters.bytes_received == 20


@dataclass
class Kernel:
    """A fake kernel: connections move bytes, end and begin at any moment of a tick."""

    rng: random.Random
    sockets: dict[int, list[int]] = field(default_factory=dict)
    cookies: dict[int, int] = field(default_factory=dict)
    endings: list[ConnectionEnd] = field(default_factory=list)
    moved: list[int] = field(default_factory=lambda: [0, 0])
    number: int = 0

    def step(self) -> None:
        match self.rng.randrange(4):
            case 0 if len(self.sockets) < MANY:
                self.number += 1
                self.sockets[self.number] = [0, 0]
            case 1 if self.sockets:
                sock = self.rng.choice(list(self.sockets))
                final = self.sockets.pop(sock)
                cookie = self.cookies.get(sock, 0)
                self.endings.append(ending(cookie, Counters(*final), sock))
            case _ if self.sockets:
                sock = self.rng.choice(list(self.sockets))
                for i in range(2):
                    size = self.rng.randrange(100)
                    self.sockets[sock][i] += size
                    self.moved[i] += size

    def dump(self, known: dict[int, Counters]) -> Dump:
        """One socket after the other, while the others go on."""
        now: dict[int, Counters] = {}
        for sock in list(self.sockets):
            if sock not in self.sockets or self.rng.random() < 0.02:
                continue  # ended meanwhile, or skipped
            cookie = self.cookies.setdefault(sock, 1000 + sock)
            now[cookie] = Counters(*self.sockets[sock])
            self.step()
        return dump_of(known, now)

    def drain(self) -> list[ConnectionEnd]:
        """Entries made while the kernel's map is read may stay for the next time."""
        keep = self.rng.randrange(3)
        taken, self.endings = (self.endings, []) if keep else (self.endings[:-1], self.endings[-1:])
        return taken


@settings(max_examples=30)
@given(st.integers(0, 1 << 32))
@example(2665)
def test_nothing_is_lost_and_nothing_counts_twice(seed: int) -> None:
    kernel = Kernel(random.Random(seed))
    ledger = Ledger()
    for _ in range(kernel.rng.randrange(20)):
        kernel.step()
    kernel.endings.clear()
    ledger.begin([kernel.dump({})], [])
    while any(c not in ledger.counters for c in map(kernel.cookies.get, kernel.sockets)):
        ledger.begin([kernel.dump({})], [])
    kernel.endings.clear()
    ledger.counters = {kernel.cookies[s]: Counters(*c) for s, c in kernel.sockets.items()}
    kernel.moved = [0, 0]
    before = Totals()
    for _ in range(20):
        for _ in range(kernel.rng.randrange(30)):
            kernel.step()
        ledger.apply(kernel.dump(ledger.counters), kernel.drain())
        after = ledger.totals
        assert all(new >= old for old, new in zip(before, after, strict=True))
        before = after
    cookies = {s: kernel.cookies.setdefault(s, 1000 + s) for s in kernel.sockets}
    still = {cookies[s]: Counters(*c) for s, c in kernel.sockets.items()}
    for _ in range(2):  # nothing moves any more: what was late arrives
        tick(ledger, still, *kernel.endings)
        kernel.endings = []
    assert [ledger.totals.in_bytes, ledger.totals.out_bytes] == kernel.moved
    assert ledger.no_close_total == 0


TABLES = {table.name: table for table in SPEC.tables}


def info(busy_us: int = 0, rwnd_us: int = 0) -> bytes:
    return struct.pack("=80xI84xQQQ40x", 10, busy_us, rwnd_us, 0)


def moved(
    number: int,
    in_bytes: int,
    tcp_info: bytes = bytes(232),
    *,
    ended: bool = False,
    srtt_us: int = 200,
    min_rtt_us: int = 100,
    retrans_segs: int = 0,
    remote_port: int = 5432,
    unread: int = 0,
) -> Traffic:
    """A connection from local port 40000 + number to 10.0.0.5."""
    hosts = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 5])
    pair = struct.pack("!HH16s16s", 40000 + number, remote_port, *hosts)
    head = bytes(16) + bytes([2, 1, 0, 0]) + pair + struct.pack("=IQ", 0, number)
    head += struct.pack("=II12x", 0, unread)
    attribute = struct.pack("=HH", 4 + len(tcp_info), 2) + tcp_info
    ends = pair, b"" if ended else head + attribute
    return Traffic(
        number, in_bytes, 0, 0, retrans_segs, 1, 1, in_bytes, srtt_us, min_rtt_us, 2, *ends
    )


def key(number: int) -> tuple[str, str]:
    return f"10.0.0.1:{40000 + number}", "10.0.0.5:5432"


def test_shares_of_the_busy_time_are_unknown_until_two_readings_are_known() -> None:
    table = ConnectionTable()
    samples = [
        table.update([moved(1, 1, info(busy, rwnd))])
        for busy, rwnd in ((9_000_000, 9_000_000), (9_100_000, 9_000_000), (9_500_000, 9_100_000))
    ]
    shares = [
        derive_table(TABLES["connection"], older, newer, 1.0)[0].values
        for older, newer in zip([{}, *samples], samples, strict=False)
    ]
    assert [s["rwnd_limited_pct"] for s in shares] == [None, None, 25.0]
    assert [s["busy_pct"] for s in shares] == [None, None, 40.0]
    ended = table.update([moved(1, 1, ended=True)])
    assert ended[key(1)][10:] == (None,) * 6


def test_connections_to_nfs_servers_are_always_listed() -> None:
    crowd = [moved(n, n) for n in range(1, 1001)]
    rows = ConnectionTable().update([*crowd, moved(7000, 0, remote_port=2049)])
    assert ("10.0.0.1:47000", "10.0.0.5:2049") in rows
    assert len(rows) == 41


def losses(needless: int, reordered: int) -> bytes:
    """tcp_info of 5.4; both are running totals."""
    return struct.pack("=216xI4xI4x", needless, reordered)


def test_segments_sent_again_without_need_are_no_loss() -> None:
    now_s = [0.0]
    table = ConnectionTable(lambda: now_s[0])
    ticks: list[tuple[int, tuple[int, int], tuple[object, ...]]] = [
        (0, (5, 7), (None, None, None)),  # of earlier: not known when
        (1, (6, 7), (1, 0, None)),  # the peer had it
        (1, (6, 7), (1, 0, 0.0)),
        (0, (6, 7), (1, 0, 1.0)),
        (0, (6, 9), (1, 2, 0.0)),
        (0, (6, 9), (1, 2, 1.0)),
    ]
    for again, counts, seen in ticks:
        rows = table.update([moved(1, 1, losses(*counts), retrans_segs=again)])
        assert rows[key(1)][-3:] == seen
        now_s[0] += 1.0


def test_an_ended_connection_is_shown_once() -> None:
    table = ConnectionTable()
    table.update([moved(1, 100)])
    assert table.update([moved(1, 7, ended=True)])[key(1)][0] == 107
    assert table.update([]) == {}


def test_only_the_busiest_are_listed_and_those_stay_for_a_while() -> None:
    table = ConnectionTable()
    crowd = [moved(n, n) for n in range(1, 1001)]
    rows = table.update(crowd)
    assert set(rows) == {key(n) for n in range(961, 1001)}
    rows = table.update([moved(n, 2000 - n) for n in range(1, 1001)])
    assert rows[key(1000)][0] == 2000, "listed before, counted on although no longer busiest"
    assert len(rows) == 80
    for _ in range(9):
        rows = table.update([])
    assert len(rows) == 80
    assert table.update([]) == {}


@pytest.mark.parametrize(
    ("local", "remote", "listening", "port"),
    [
        (2049, 700, {2049}, 2049),
        (40000, 2049, set(), 2049),
        (40000, 50000, {50000}, 50000),
        (50000, 40000, {50000}, 50000),
        (60000, 50000, set(), 50000),
        (831, 2049, set(), 2049),  # an NFS client's reserved port
        (860, 2049, set(), 2049),  # the same; iSCSI has it, too
        (2049, 860, set(), 2049),
        (860, 50000, set(), 860),
        (831, 50000, set(), 831),
    ],
)
def test_the_service_is_the_side_that_listens(
    local: int, remote: int, listening: set[int], port: int
) -> None:
    assert service_port(local, remote, listening) == port


def test_ports_are_bounded_and_the_latest_stay() -> None:
    table = PortTable()
    for port in range(1024, 1024 + tcp_tables.MAX_ROWS + 20):
        item = moved(1, 5)
        pair = struct.pack("!HH", 65000, port) + item.pair[4:]
        rows = table.update([item._replace(pair=pair)], set())
    assert len(rows) == tcp_tables.MAX_ROWS + 1, "and one of the others"
    assert (str(port), service_name(port)) in rows


def _to(port: int, pair: bytes) -> bytes:
    return pair[:2] + struct.pack("!H", port) + pair[4:]


def test_a_ports_row_is_the_sum_over_its_connections() -> None:
    table = PortTable()
    items = [moved(1, 10), moved(2, 30, srtt_us=400, ended=True)]
    rows = table.update([each._replace(pair=_to(2049, each.pair)) for each in items], {2049})
    assert rows["2049", "nfs"][:5] == (40, 0, 0, 0, 2)
    assert rows["2049", "nfs"][5] == pytest.approx(350)
    for _ in range(50):
        rows = table.update([], set())
    assert rows["2049", "nfs"] == (40, 0, 0, 0, 0, None, None), "a total does not begin anew"


def test_unread_bytes_are_those_of_the_service_here() -> None:
    table = PortTable()
    items = [moved(n, 10, unread=n) for n in (1, 2, 3)]
    ours = [each._replace(pair=each.pair[2:4] + each.pair[:2] + each.pair[4:]) for each in items]
    assert table.update(items, set())["5432", "postgresql"][6] is None, "it is elsewhere"
    assert table.update(ours, {5432})["5432", "postgresql"][6] == 6


def test_round_trips_are_weighted_with_bytes_and_counted_by_connection() -> None:
    found = round_trips(
        [moved(1, 100, srtt_us=100), moved(2, 300, srtt_us=500, min_rtt_us=0), moved(3, 0)]
    )
    assert found.active == 2
    assert found.srtt_us == pytest.approx(400)
    assert found.min_rtt_us == 100
    assert len(found.counts) == LATENCY_BUCKETS
    assert sum(found.counts) == 2
    assert found.counts[latency_index(100)] == found.counts[latency_index(500)] == 1
    nothing = round_trips([])
    assert (nothing.srtt_us, nothing.min_rtt_us, nothing.active) == (None, None, 0)


NIC = type(psutil.net_io_counters(nowrap=False))(*(0,) * 8)


@pytest.mark.parametrize(
    ("speed", "shaped", "into", "out"),
    [
        (1_000_000_000, None, 10, 20),
        (1_000_000_000, 400_000_000, 10, 50),  # a shaper limits what goes out
        (None, 400_000_000, None, 50),
        (None, None, None, None),
    ],
)
def test_share_of_an_interfaces_speed(
    monkeypatch: pytest.MonkeyPatch,
    speed: int | None,
    shaped: int | None,
    into: float | None,
    out: float | None,
) -> None:
    links = LinkTable()
    monkeypatch.setattr(links, "get", lambda _: Link(speed, shaped))
    table = InterfaceTable(links)
    older = table.update({"eth0": NIC}, 1_000_000_000)
    later = NIC._replace(bytes_recv=12_500_000, bytes_sent=25_000_000)
    newer = table.update({"eth0": later}, 2_000_000_000)
    (row,) = derive_table(TABLES["interface"], older, newer, 1.0)
    used = row.values["in_used_pct"], row.values["out_used_pct"]
    assert used == pytest.approx((into, out))


def test_without_sock_diag_the_rest_is_shown_and_notes_say_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = OSError(errno.ENOENT, "No such file or directory")
    monkeypatch.setattr(SockDiag, "dump", Mock(side_effect=refusal))
    sample = Tcp(Filters(pid=1, comm="fio", port=2049)).read_proc()
    assert isinstance(sample, LayerSample)
    assert sample.ops["in"].bytes_total is None
    assert sample.metrics["retrans_segs_total"] is not None
    assert "connection" not in sample.tables
    for said in ("modprobe tcp_diag", "--pid, --comm not applied", "whole host"):
        assert any(said in note for note in sample.notes), said


def test_a_reading_of_this_machine_fits_the_spec() -> None:
    layer = Tcp(Filters())
    sample = layer.read_proc()
    assert isinstance(sample, LayerSample)
    assert set(sample.gauge_hists) == {m.name for m in SPEC.gauge_hists}
    assert sample.tables.keys() == {table.name for table in SPEC.tables}
    check_shape(layer, sample)
