"""Finds the other end of a disk on the network in sysfs: NVMe over fabrics, iSCSI."""

from __future__ import annotations

import re
from glob import escape, glob

from ioh.model.printable import printable
from ioh.procfs.files import read_line

_FABRICS = frozenset({"tcp", "rdma", "fc"})  # others are in this machine: pcie, loop, apple-ans
_SESSION = re.compile(r"(.*/session\d+)/.*")


def remote_end(folder: str) -> str:
    """``nvme/tcp 10.0.0.9:4420``, ``iscsi 10.0.0.9:3260``; "" for any other disk.

    ``folder``: the disk's own in sysfs.
    """
    controller = folder.rpartition("/")[0]
    transport = read_line(f"{controller}/transport")  # of an NVMe controller
    if transport in _FABRICS:
        words = (read_line(f"{controller}/address") or "").split(",")
        given = {name: value for name, _, value in (word.partition("=") for word in words)}
        end = _endpoint(given.get("traddr"), given.get("trsvcid"))
        return f"nvme/{transport} {end}".rstrip()
    session = _SESSION.match(folder)
    if session is None:
        return ""
    pattern = f"{escape(session[1])}/connection*/iscsi_connection/*/address"
    for file in sorted(glob(pattern)):
        if end := _endpoint(read_line(file), read_line(f"{file.removesuffix('address')}port")):
            return f"iscsi {end}"
    return "iscsi"


def _endpoint(address: str | None, port: str | None) -> str:
    """``10.0.0.9:4420``, ``[2001:db8::9]:4420``; without a port as it is."""
    if not address or not port:
        return printable(address or "")
    return printable(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
