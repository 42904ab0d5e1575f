"""Reads the IP and TCP counters of this network namespace: /proc/net/snmp, netstat, snmp6."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ioh.procfs.files import ROOT, path_under, read_text

ProtocolCounters = dict[str, dict[str, int]]


def read_counters(name: str, root: Path = ROOT) -> ProtocolCounters:
    """Parse pairs of lines, names and then values, each behind the same ``Proto:``.

    Args:
        name: ``snmp``, the MIB counters of IPv4 and TCP over either, or ``netstat``, Linux' own.
        root: Where /proc is.

    Returns:
        ``counters["Tcp"]["RetransSegs"]``: running totals of the caller's network namespace;
        segments, not skbs and not bytes.  Empty when the file cannot be read.
    """
    counters: ProtocolCounters = {}
    lines = (read_text(path_under(root, f"proc/net/{name}")) or "").split("\n")
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        protocol, _, words = names.partition(":")
        same, _, numbers = values.partition(":")
        if protocol == same:
            with suppress(ValueError):
                counters[protocol] = dict(
                    zip(words.split(), map(int, numbers.split()), strict=False)
                )
    return counters
