"""Adds up the counters of TCP connections that come and go; does no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter, sub
from typing import NamedTuple

from ioh.bpf.layout import Layout
from ioh.procfs.sock_diag import Counters, Dump, endpoints, format_endpoints

ENDING = Layout("ending", "u64 sock, ns;")
# Ports and addresses as inet_diag_sockid.
_ENDS = Layout("ends", "u16 local_port, remote_port; u8 local[16], remote[16];")
CONNECTION = Layout(
    "connection",
    """
    u64 cookie, bytes_received, bytes_sent, bytes_retrans;
    u32 total_retrans, data_segs_in, data_segs_out, srtt_us, family;
    struct ends ends;
    """,
    _ENDS,
)
LIVES = Layout("lives", "u64 opened, ended;")
_FAMILY = 16  # of an inet_diag message
_ZERO = Counters()
_U32 = 0xFFFFFFFF
# A dump that the kernel resumes in the middle of a hash chain can skip a connection, so one dump
# without it does not mean that it is gone.
_MISSING_DUMPS = 3


class ConnectionEnd(NamedTuple):
    """A connection at its end, from the probe; ``cookie`` is 0 if sock_diag never dumped it."""

    cookie: int
    counters: Counters
    srtt_us: int
    family: int
    pair: bytes


class Traffic(NamedTuple):
    """What one connection moved since the last reading.

    Shape:
        ``message`` is the kernel's for an open connection, empty for an ended one.  ``pair`` and
        ``family``: as for format_endpoints().  Round-trip times are 0 if unknown.
        Bytes can be -1, if a FIN came between the two halves of the kernel's answer.  ``all_bytes``
        is the payload in both directions, including retransmissions.
    """

    cookie: int
    in_bytes: int
    out_bytes: int
    retrans_bytes: int
    retrans_segs: int
    in_segs: int
    out_segs: int
    all_bytes: int
    srtt_us: int
    min_rtt_us: int
    family: int
    pair: bytes
    message: bytes

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends as text: local, remote."""
        return format_endpoints(self.pair, self.family)


class Totals(NamedTuple):
    """Sum over all connections since the baseline; never decreases."""

    in_bytes: int = 0
    out_bytes: int = 0
    retrans_bytes: int = 0
    retrans_segs: int = 0
    in_segs: int = 0
    out_segs: int = 0


def decode_endings(items: Iterable[tuple[bytes, bytes]]) -> list[ConnectionEnd]:
    """Decode the probe's map ``closed``, oldest first."""
    ordered = sorted(items, key=_ended_at_ns)
    ended = CONNECTION.iter_unpack(b"".join([value for _, value in ordered]))
    endings = []
    for cookie, received, sent, retrans, segs, segs_in, segs_out, srtt_us, family, pair in ended:
        counters = Counters(received, sent, retrans, segs, segs_in, segs_out)
        endings.append(ConnectionEnd(cookie, counters, srtt_us, family, pair))
    return endings


def _ended_at_ns(item: tuple[bytes, bytes]) -> int:
    ended_ns: int = ENDING.unpack(item[0])[1]
    return ended_ns


class Ledger:
    """Turns counters of single connections into running totals; counts each byte once.

    A tick first dumps all connections, then drains the probe's endings.  An ending is written
    after the kernel removed the connection from its table.  So there are two cases:

    * The ending is drained in the tick of a dump that still shows the connection: the ending has
      the final counters, which include those of the dump.
    * The ending is not yet drained: no later dump shows the connection; the next drain has it.

    So endings are compared with the counters of the previous dump, and win over this tick's dump.
    Draining first would lose nothing either, but connections that end during the dump would count
    one tick late.

    A connection's cookie is 0 until sock_diag dumps it for the first time.  This can happen while
    it ends, in the nanoseconds after the probe read the cookie and before the state is CLOSE.
    Then a dump has it with a cookie, and an ending without one.  No later dump or ending has that
    cookie, so ``_take_back`` can find it.
    """

    def __init__(self) -> None:
        self.counters: dict[int, Counters] = {}
        self.no_close_total = 0
        self.ended_total = 0
        self._sum = self._highest = Totals()
        self._missing: dict[int, tuple[Counters, int]] = {}
        self._fresh: dict[int, bytes] = {}
        self._nameless: dict[bytes, Counters] = {}

    @property
    def totals(self) -> Totals:
        """Running totals; after a correction downwards they stay until the sum passes them."""
        self._highest = Totals(*map(max, self._highest, self._sum))
        return self._highest

    def begin(self, dumps: Iterable[Dump], endings: Iterable[ConnectionEnd]) -> None:
        """Take the open connections as the baseline: their history does not count."""
        for dump in dumps:
            self.counters.update(dump.seen)
        for ending in endings:
            self.counters.pop(ending.cookie, None)

    def apply(self, dump: Dump, endings: list[ConnectionEnd]) -> list[Traffic]:
        """Add one tick; ``dump`` was read before ``endings``; ended connections leave it.

        Returns every connection that moved something, ended ones first.
        """
        traffic: list[Traffic] = []
        finals: dict[int, Counters] = {}
        for ending in endings:
            base = _ZERO
            if ending.cookie and ending.cookie not in finals:
                base = self._base(ending.cookie)
            if ending.cookie:
                finals[ending.cookie] = ending.counters
            traffic.append(
                Traffic(
                    ending.cookie,
                    *_difference(ending.counters, base),
                    ending.srtt_us,
                    0,
                    ending.family,
                    ending.pair,
                    b"",
                )
            )
        self.ended_total += len(endings)
        _remove_ended(dump.seen, finals)
        for change in dump.changed:
            if change.cookie in dump.seen:
                base = _ZERO if change.cookie in finals else self._base(change.cookie)
                traffic.append(
                    Traffic(
                        change.cookie,
                        *_difference(change.counters, base),
                        change.srtt_us,
                        change.min_rtt_us,
                        change.message[_FAMILY],
                        endpoints(change.message),
                        change.message,
                    )
                )
        traffic = [m for m in traffic if m.all_bytes or any(m[1:7])]
        self._sum = Totals(
            *(start + sum(map(itemgetter(i), traffic)) for i, start in enumerate(self._sum, 1))
        )
        self._follow_missing(dump, finals, endings)
        return traffic

    def _base(self, cookie: int) -> Counters:
        counters = self.counters.get(cookie)
        return counters if counters is not None else self._missing.pop(cookie, (_ZERO, 0))[0]

    def _follow_missing(
        self, dump: Dump, finals: dict[int, Counters], endings: list[ConnectionEnd]
    ) -> None:
        nameless = {e.pair: e.counters for e in endings if not e.cookie}
        for cookie, (counters, dumps) in list(self._missing.items()):
            if cookie in finals or dumps >= _MISSING_DUMPS:
                del self._missing[cookie]
                self.no_close_total += cookie not in finals
            else:
                self._missing[cookie] = (counters, dumps + 1)
        for cookie in self.counters.keys() - dump.seen.keys() - finals.keys():
            if not self._take_back(cookie, nameless):
                self._missing[cookie] = (self.counters[cookie], 1)
        self._fresh = {
            c.cookie: endpoints(c.message) for c in dump.changed if c.cookie not in self.counters
        }
        self._nameless = nameless
        self.counters = dump.seen

    def _take_back(self, cookie: int, nameless: dict[bytes, Counters]) -> bool:
        pair = self._fresh.get(cookie)
        if pair is None:
            return False
        final = nameless.get(pair) or self._nameless.get(pair)
        counters = self.counters[cookie]
        if final is None or not _is_later(final, counters):
            return False
        self._sum = Totals(*map(sub, self._sum, _difference(counters, _ZERO)[:6]))
        return True


def _is_later(newer: Counters, older: Counters) -> bool:
    """Whether one connection's counters can have grown from ``older`` to ``newer``.

    Compares only the 64-bit ones, which do not wrap, and allows one byte for a FIN in between.
    """
    return (
        newer.bytes_received + 1 >= older.bytes_received
        and newer.bytes_sent >= older.bytes_sent
        and newer.bytes_retrans >= older.bytes_retrans
    )


def _remove_ended(seen: dict[int, Counters], finals: dict[int, Counters]) -> None:
    """Remove ended connections, except sockets that connect() reused since, with their cookie.

    The counters of those started at 0.  While they are below the final ones, this looks like a dump
    from before the end; then the next dump finds an unknown connection.
    """
    for cookie, final in finals.items():
        counters = seen.get(cookie)
        if counters is not None and _is_later(final, counters):
            del seen[cookie]


def _difference(newer: Counters, older: Counters) -> tuple[int, int, int, int, int, int, int]:
    """In, out, retransmitted bytes; retransmitted, in, out segments; all bytes."""
    received, sent, retrans, retrans_segs, segs_in, segs_out = newer
    # If it is not later, the socket was reconnected without a probe to see it.
    if older is not _ZERO and _is_later(newer, older):
        received -= older.bytes_received
        sent -= older.bytes_sent
        retrans -= older.bytes_retrans
        retrans_segs = retrans_segs - older.retrans_segs & _U32
        segs_in = segs_in - older.data_segs_in & _U32
        segs_out = segs_out - older.data_segs_out & _U32
    return received, sent - retrans, retrans, retrans_segs, segs_in, segs_out, received + sent
