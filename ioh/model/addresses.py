"""Addresses and endpoints as text, made comparable."""

from __future__ import annotations

import ipaddress


def address_of(text: str) -> str:
    """A normalized address without zone; "" if the text is not an address."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def host_of(endpoint: str) -> str:
    """The address of ``10.0.0.7:713`` or ``[2001:db8::7]:713``."""
    return address_of(endpoint.rpartition(":")[0].strip("[]"))
