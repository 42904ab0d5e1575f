"""Several hosts as one: what stands above each host's part, and the pairs of hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioh.model.pairs import HostState
from ioh.model.snapshot import Pair, PairOp
from ioh.sinks.cells import UNKNOWN, format_fixed, pad_right, safe_name
from ioh.sinks.json import Json, fine_latencies_to_json, number_to_json

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


def render_heading(state: HostState) -> str:
    """The line above a host's part; without one, why there is none."""
    name = f"==== {safe_name(state.name)} ===="
    if state.is_recorded:
        return f"{name}\n" if state.is_here else f"{name}  nothing recorded of this interval\n\n"
    if state.is_here:
        return f"{name}  {_clock(state)}\n"
    since = "not here" if state.lost_s is None else f"lost for {state.lost_s:.0f} s"
    return f"{name}  {since}: {safe_name(state.why)}; tried again\n\n"


def _clock(state: HostState) -> str:
    if state.offset_s is None or state.error_s is None:
        return "clock not known: its times are those of arrival here"
    side = "ahead" if state.offset_s >= 0 else "behind"
    said = f"clock {abs(state.offset_s) * 1e3:.1f} ms {side}, to {state.error_s * 1e3:.1f} ms"
    return said if state.clock_is_good else f"{said}: not known to 50 ms"


def render_pairs(found: Sequence[Pair]) -> str:
    """Each pair of hosts by kind of call; empty where no host serves another one."""
    return "".join(f"{line}\n" for line in [*pair_lines(found), ""]) if found else ""


def pair_lines(found: Sequence[Pair]) -> Iterator[str]:
    """The table's lines: two of heading; of each pair its kinds of call, and TCP's."""
    yield "==== nfs between hosts ====  (calls of the interval, means; net: network and RPC)"
    labels = {id(pair): f"{safe_name(pair.client)} from {safe_name(pair.server)}" for pair in found}
    width = max(len(label) for label in labels.values())
    yield " " * (width + 4) + "".join(f"|{title:>{size}}" for title, size in _COLUMNS)
    for pair in found:
        label = pad_right(labels[id(pair)], width)
        for op, stats in pair.ops.items():
            yield f"{_LETTERS[op]} |{label}:{_cells(stats)}"
            if stats.network is not None:
                yield f"  |{label}: {_matched(stats)}"
        yield f"  |{label}: {_wire(pair)}"


def _cells(stats: PairOp) -> str:
    shown = (
        format_fixed(stats.client_calls, 8, 0),
        format_fixed(stats.server_calls, 8, 0),
        *(_ms(us) for us in (stats.rtt_us, stats.server_us, stats.disk_us, stats.network_us)),
        UNKNOWN if stats.network_pct is None else f"{stats.network_pct:.0f}",
    )
    pairs = zip(shown, _COLUMNS, strict=True)
    return "".join(f"|{text:>{size}}" for text, (_, size) in pairs)


def _matched(stats: PairOp) -> str:
    """What the network took call by call; a mean can hide a few that took long."""
    p50_us, p99_us = stats.network_p50_p99_us
    if not stats.matched_calls:
        return "net of single calls: none was sampled at both ends"
    return (
        f"net of {stats.matched_calls:,} single calls: "
        f"p50 {_ms(p50_us).strip()}, p99 {_ms(p99_us).strip()} ms"
    )


def _ms(us: float | None) -> str:
    return UNKNOWN if us is None else format_fixed(us / 1e3, 8, 3)


def _wire(pair: Pair) -> str:
    return (
        f"retransmits {_rate(pair.retransmits_per_s)}  "
        f"tcp retransmits {_rate(pair.tcp_retrans_segs_per_s)}  tcp rtt {_ms(pair.tcp_rtt_us)} ms"
    )


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}/s"


def host_to_json(state: HostState) -> dict[str, Json]:
    """How a host stands."""
    return {
        "name": safe_name(state.name),
        "is_here": state.is_here,
        "lost_s": number_to_json(state.lost_s),
        "why": safe_name(state.why),
        "clock_offset_s": number_to_json(state.offset_s),
        "clock_error_s": number_to_json(state.error_s),
    }


def pair_to_json(pair: Pair) -> dict[str, Json]:
    """A pair of hosts; what network and RPC took is the difference of two means.

    Of calls that both ends sampled it is measured: ``matched_calls``, with percentiles.
    """
    return {
        "client": safe_name(pair.client),
        "server": safe_name(pair.server),
        "retransmits_per_s": number_to_json(pair.retransmits_per_s),
        "tcp_retrans_segs_per_s": number_to_json(pair.tcp_retrans_segs_per_s),
        "tcp_rtt_us": number_to_json(pair.tcp_rtt_us),
        "ops": {op: _op_to_json(stats) for op, stats in pair.ops.items()},
    }


def _op_to_json(stats: PairOp) -> dict[str, Json]:
    p50_us, p99_us = stats.network_p50_p99_us
    return {
        "client_calls": stats.client_calls,
        "server_calls": stats.server_calls,
        "rtt_us": number_to_json(stats.rtt_us),
        "server_us": number_to_json(stats.server_us),
        "block_queue_us": number_to_json(stats.block_queue_us),
        "device_us": number_to_json(stats.device_us),
        "network_us": number_to_json(stats.network_us),
        "network_pct": number_to_json(stats.network_pct),
        "matched_calls": stats.matched_calls,
        "network_p50_us": number_to_json(p50_us),
        "network_p99_us": number_to_json(p99_us),
        "network_hist": None if stats.network is None else fine_latencies_to_json(stats.network),
    }
