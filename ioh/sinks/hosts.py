"""Several hosts as one stack: the heading of each host, and the pairs of hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioh.model.pairs import HostState, Round
from ioh.model.snapshot import Pair, PairOp, Snapshot
from ioh.sinks.cells import UNKNOWN, fixed_ms, format_fixed, pad_right, safe_name
from ioh.sinks.json import Json, JsonSink, fine_latencies_to_json, number_to_json, to_line
from ioh.sinks.text import TextOptions, TextSink

_LETTERS = {"read": "R", "write": "W", "commit": "C"}
_COLUMNS = (
    ("calls", 8),
    ("served", 8),
    ("rtt_ms", 8),
    ("srv_ms", 8),
    ("dsk_ms", 8),
    ("net_ms", 8),
    ("net%", 4),
)


class TextHosts:
    """Text: each host's block below its name, then the pairs."""

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._sinks: dict[str, TextSink] = {}

    def render(self, each: Round) -> str:
        """Every host's part of a round; then each pair of hosts by kind of call, if any."""
        if not each.states:
            return self._sink("").render(each.snapshot)
        parts = [self._host(state, snapshot) for state, snapshot in _by_state(each)]
        if each.pairs:
            parts += [f"{line}\n" for line in (*pair_lines(each.pairs), "")]
        return "".join(parts)

    def _host(self, state: HostState, snapshot: Snapshot | None) -> str:
        if snapshot is None:
            return "" if state.is_here else _heading(state)
        return _heading(state) + self._sink(state.name).render(snapshot)

    def _sink(self, name: str) -> TextSink:
        sink = TextSink(self._options, with_legend=not self._sinks)
        return self._sinks.setdefault(name, sink)


class JsonHosts:
    """JSON: one line per host with its name in ``host``; one for all together, ``host`` null."""

    def __init__(self, top: int | None) -> None:
        self._sink = JsonSink(top)

    def render(self, each: Round) -> str:
        """Every host's line; then the states of all hosts, and the pairs."""
        if not each.states:
            return self._sink.render(each.snapshot)
        lines = [self._host(state, snapshot) for state, snapshot in _by_state(each)]
        line: dict[str, Json] = {"time_unix_s": round(each.time_unix_s, 6), "host": None}
        line["hosts"] = [_host_to_json(state) for state in each.states]
        line["pairs"] = [_pair_to_json(pair) for pair in each.pairs]
        return "".join((*lines, to_line(line)))

    def _host(self, state: HostState, snapshot: Snapshot | None) -> str:
        """The interval as for one machine, and the state of the host."""
        if snapshot is None:
            return ""
        line = self._sink.to_json(snapshot)
        host = line["host"]
        line["host"] = _host_to_json(state) | (host if isinstance(host, dict) else {})
        return to_line(line)


def _by_state(each: Round) -> Iterator[tuple[HostState, Snapshot | None]]:
    """Every host with its interval; None if it sent none."""
    snapshots = {interval.name: interval.snapshot for interval in each.intervals}
    return ((state, snapshots.get(state.name)) for state in each.states)


def _heading(state: HostState) -> str:
    """The line above a host's part, or why the part is missing."""
    name = f"==== {safe_name(state.name)} ===="
    if state.is_recorded:
        return f"{name}\n" if state.is_here else f"{name}  nothing recorded in this interval\n\n"
    if state.is_here:
        return f"{name}  {_clock(state)}\n"
    since = "not connected" if state.lost_s is None else f"lost for {state.lost_s:.0f} s"
    return f"{name}  {since}: {safe_name(state.why)}; ioh tries again\n\n"


def _clock(state: HostState) -> str:
    if state.offset_s is None or state.error_s is None:
        return "clock not known: times are those of arrival here"
    side = "ahead" if state.offset_s >= 0 else "behind"
    text = f"clock {abs(state.offset_s) * 1e3:.1f} ms {side}, +/- {state.error_s * 1e3:.1f} ms"
    return text if state.clock_is_good else f"{text}: not accurate to 50 ms"


def pair_lines(pairs: Sequence[Pair]) -> Iterator[str]:
    """The table's lines: two headings; for each pair, its kinds of call and TCP."""
    yield "==== nfs between hosts ====  (calls in the interval, means; net: network and RPC)"
    names = [f"{safe_name(pair.client)} from {safe_name(pair.server)}" for pair in pairs]
    width = max(map(len, names))
    yield " " * (width + 4) + "".join(f"|{title:>{size}}" for title, size in _COLUMNS)
    for pair, name in zip(pairs, names, strict=True):
        label = pad_right(name, width)
        for op, stats in pair.ops.items():
            yield f"{_LETTERS[op]} |{label}:{_cells(stats)}"
            if stats.network is not None:
                yield f"  |{label}: {_matched(stats)}"
        yield f"  |{label}: {_wire(pair)}"


def _cells(stats: PairOp) -> str:
    cells = (
        format_fixed(stats.client_calls, 8, 0),
        format_fixed(stats.server_calls, 8, 0),
        *(fixed_ms(us) for us in (stats.rtt_us, stats.server_us, stats.disk_us, stats.network_us)),
        UNKNOWN if stats.network_pct is None else f"{stats.network_pct:.0f}",
    )
    pairs = zip(cells, _COLUMNS, strict=True)
    return "".join(f"|{text:>{size}}" for text, (_, size) in pairs)


def _matched(stats: PairOp) -> str:
    """The network time of single calls: a mean may hide a few slow ones."""
    p50_us, p99_us = stats.network_p50_p99_us
    if not stats.matched_calls:
        return "net of single calls: none was sampled at both ends"
    return (
        f"net of {stats.matched_calls:,} single calls: "
        f"p50 {fixed_ms(p50_us).strip()}, p99 {fixed_ms(p99_us).strip()} ms"
    )


def _wire(pair: Pair) -> str:
    return (
        f"retransmits {_rate(pair.retransmits_per_s)}  "
        f"tcp retransmits {_rate(pair.tcp_retrans_segs_per_s)}  "
        f"tcp rtt {fixed_ms(pair.tcp_rtt_us)} ms"
    )


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}/s"


def _host_to_json(state: HostState) -> dict[str, Json]:
    return {
        "name": safe_name(state.name),
        "is_here": state.is_here,
        "lost_s": number_to_json(state.lost_s),
        "why": safe_name(state.why),
        "clock_offset_s": number_to_json(state.offset_s),
        "clock_error_s": number_to_json(state.error_s),
    }


def _pair_to_json(pair: Pair) -> dict[str, Json]:
    ends: dict[str, Json] = {"client": safe_name(pair.client), "server": safe_name(pair.server)}
    rates = ("retransmits_per_s", "tcp_retrans_segs_per_s", "tcp_rtt_us")
    numbers: dict[str, Json] = {name: number_to_json(getattr(pair, name)) for name in rates}
    return ends | numbers | {"ops": {op: _op_to_json(stats) for op, stats in pair.ops.items()}}


_NUMBERS = (
    *("client_calls", "server_calls", "rtt_us", "server_us", "block_queue_us", "device_us"),
    *("network_us", "network_pct", "matched_calls"),
)


def _op_to_json(stats: PairOp) -> dict[str, Json]:
    """Numbers of one kind of call; the network time is the difference of two means.

    For ``matched_calls``, which both ends sampled, it is measured and has percentiles.
    """
    numbers: dict[str, Json] = {name: number_to_json(getattr(stats, name)) for name in _NUMBERS}
    p50_us, p99_us = stats.network_p50_p99_us
    return numbers | {
        "network_p50_us": number_to_json(p50_us),
        "network_p99_us": number_to_json(p99_us),
        "network_hist": fine_latencies_to_json(stats.network),
    }
