"""Finds the other end of a disk on the network in sysfs: NVMe over fabrics, iSCSI."""

from __future__ import annotations

import os
import re

from ioh.model.printable import printable
from ioh.procfs.files import read_line

_SESSION = re.compile(r"(.*/session\d+)/.*")


def remote_end(folder: str) -> str:
    """``nvme/tcp 10.0.0.9:4420``, ``iscsi 10.0.0.9:3260``; "" for any other disk.

    ``folder``: the disk's own in sysfs.
    """
    controller = folder.rpartition("/")[0]
    transport = read_line(f"{controller}/transport")  # of an NVMe controller
    if transport is not None and transport != "pcie":
        pairs = (
            word.partition("=") for word in (read_line(f"{controller}/address") or "").split(",")
        )
        given = {name: value for name, _, value in pairs}
        end = _endpoint(given.get("traddr"), given.get("trsvcid"))
        return f"nvme/{printable(transport)} {end}".rstrip()
    session = _SESSION.match(folder)
    if session is None:
        return ""
    for name in _folders(session[1], "connection"):
        at = f"{session[1]}/{name}/iscsi_connection/{name}"
        if end := _endpoint(read_line(f"{at}/address"), read_line(f"{at}/port")):
            return f"iscsi {end}"
    return "iscsi"


def _endpoint(address: str | None, port: str | None) -> str:
    """``10.0.0.9:4420``, ``[2001:db8::9]:4420``; without a port as it is."""
    if not address or not port:
        return printable(address or "")
    return printable(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")


def _folders(path: str, begin: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(path) if name.startswith(begin))
    except OSError:
        return []
