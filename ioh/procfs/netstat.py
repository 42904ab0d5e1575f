"""Reads the IP and TCP counters of this network namespace: /proc/net/snmp, netstat, snmp6."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ioh.procfs.files import ROOT, int_or_none, ints_or_none, path_under, read_text

ProtocolCounters = dict[str, dict[str, int]]


def parse_netstat(text: str) -> ProtocolCounters:
    """Parse pairs of lines, names and then values, each behind the same ``Proto:``.

    Returns:
        ``counters["Tcp"]["RetransSegs"]``.  A name without a value, a value that is no number
        and a line without its partner are left out.  ``Tcp.MaxConn`` may be -1 (no limit).
    """
    counters: ProtocolCounters = {}
    names_of = ""
    names: list[str] = []
    for line in text.split("\n"):
        protocol, colon, rest = line.partition(":")
        if not colon:
            continue
        words = rest.split()
        if protocol != names_of:
            names_of, names = protocol, words
            continue
        names_of = ""
        values = counters.setdefault(protocol, {})
        numbers = ints_or_none(words)
        if numbers is not None and not _has_number(tuple(names)):
            values.update(zip(names, numbers, strict=False))
            continue
        for name, word in zip(names, words, strict=False):
            value = int_or_none(word)
            if value is not None and int_or_none(name) is None:
                values[name] = value
    return counters


@lru_cache(maxsize=32)
def _has_number(names: tuple[str, ...]) -> bool:
    return any(int_or_none(name) is not None for name in names)


def parse_snmp6(text: str, wanted: tuple[str, ...] = ("",)) -> dict[str, int]:
    """Parse one ``name value`` pair a line; other lines are left out.

    Args:
        text: Of the file.
        wanted: How the names begin that are asked for: there are a hundred.
    """
    counters: dict[str, int] = {}
    for line in text.split("\n"):
        if not line.startswith(wanted):
            continue
        match line.split():
            case [name, word, *_]:
                value = int_or_none(word)
                if value is not None:
                    counters[name] = value
    return counters


def read_snmp(root: Path = ROOT) -> ProtocolCounters | None:
    """The MIB counters, such as ``Ip.InDiscards``, ``Tcp.OutSegs`` and ``Tcp.RetransSegs``.

    Returns:
        Running totals of the caller's network namespace since it was made; segments, not
        skbs and not bytes.  None when the file cannot be read.
    """
    text = read_text(path_under(root, "proc/net/snmp"))
    return None if text is None else parse_netstat(text)


def read_netstat(root: Path = ROOT) -> ProtocolCounters | None:
    """Linux' own counters: ``TcpExt.TCPLossProbes``, ``IpExt.InOctets`` …; else as read_snmp."""
    text = read_text(path_under(root, "proc/net/netstat"))
    return None if text is None else parse_netstat(text)


def read_snmp6(root: Path = ROOT, wanted: tuple[str, ...] = ("",)) -> dict[str, int] | None:
    """The IPv6 counters, ``Ip6InDiscards`` …; TCP over IPv6 is counted in read_snmp's Tcp.

    Args:
        root: Where /proc is.
        wanted: As parse_snmp6() takes it.

    Returns:
        None when IPv6 is off.
    """
    text = read_text(path_under(root, "proc/net/snmp6"))
    return None if text is None else parse_snmp6(text, wanted)
