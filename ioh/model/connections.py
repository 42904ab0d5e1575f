"""TCP connections in Snapshots: their ends made comparable, their round-trip time."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from ioh.model.rates import sum_known, weighted_mean
from ioh.model.snapshot import TableRow


@lru_cache(4096)  # a busy host's connections, in each interval
def address_of(text: str) -> str:
    """A normalized address without zone; "" if the text is not an address."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def host_of(endpoint: str) -> str:
    """The address of ``10.0.0.7:713`` or ``[2001:db8::7]:713``."""
    return address_of(endpoint.rpartition(":")[0].strip("[]"))


def end_of(endpoint: str) -> tuple[str, str]:
    """The address as in host_of(), and the port."""
    return host_of(endpoint), endpoint.rpartition(":")[2]


def round_trip_us(connections: Iterable[TableRow]) -> float | None:
    """The smoothed round-trip time of some rows, weighted by bytes; None if not known."""
    return weighted_mean(
        (
            sum_known(row.values.get(f"{way}_bytes_per_s") for way in ("in", "out")),
            row.values.get("srtt_us"),
        )
        for row in connections
    )
