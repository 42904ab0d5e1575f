"""A fake ``ssh`` that connects to no host: it plays a made-up one, chosen by name.

``db01`` mounts an NFS file system from ``nfs01``: 10 READs a tick, 5 ms each, of which the server
takes 1 ms.  Both sample 8 of these; the first of the 8 spends 40 ms in the network.
``ahead`` has a clock 3 s ahead, ``timeless`` does not report its clock.  ``flaky`` ends after five
samples, every time; ``old`` sends no addresses.  The others end as ssh or the remote shell does, or
send what no ioh sends.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ioh.layers import all_layers
from ioh.model.calls import Calls, packed_calls
from ioh.model.sample import HostSample, LayerSample, OpTotals, Sample
from ioh.session.output import Output
from ioh.session.writer import SessionWriter

AHEAD_S = 3.0
READS = 10  # a tick
ADDRESSES = {"db01": "10.0.0.7", "nfs01": "10.0.0.9"}
_HOSTS = {"db01", "nfs01", "old", "ahead", "timeless", "flaky"}


def install(folder: Path) -> None:
    """Make ``folder/ssh`` this program."""
    path = folder / "ssh"
    root = Path(__file__).parents[2]
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} {Path(__file__).resolve()} "$@"\n'
    )
    path.chmod(0o755)


def reads(count: int, us: int, queue_us: int | None = None) -> OpTotals:
    queue_ns = None if queue_us is None else count * queue_us * 1000
    return OpTotals(
        count_total=count,
        bytes_total=count * 4096,
        latency_ns_total=count * us * 1000,
        queue_ns_total=queue_ns,
        queued_total=count if queue_us is not None else None,
    )


def calls(tick: int, peer: str, ns: int, first_ns: int) -> Calls:
    """8 READs of each of the last 8 ticks; the first READ of a tick has another latency."""
    return tuple(
        packed_calls(
            at, [(at * 8 + n, 0, ADDRESSES[peer], ns if n else first_ns) for n in range(8)]
        )
        for at in range(max(1, tick - 7), tick + 1)
    )


def layers(host: str, count: int) -> dict[str, LayerSample]:
    tick = count // READS
    if host == "db01":
        mount = "nfs01:/srv on /mnt"
        counted = (count, count * 4096, count * 5_300_000, 0, 0, 0, 0, 0, 0, count // 10, 0)
        return {
            "nfs_client": LayerSample(
                "bpf",
                {"read": reads(count, 5300, 300)},
                tables={"server": {("nfs01", ADDRESSES["nfs01"]): counted}},
                parts={mount: {"read": reads(count, 5300, 300)}},
                calls=calls(tick, "nfs01", 5_000_000, 41_000_000),
            )
        }
    row = (count, count * 4096, count * 1_000_000, 0, 0, 0, 0, 0, 0, 0)
    return {
        "nfs_server": LayerSample(
            "bpf",
            {"read_disk": reads(count, 1000)},
            tables={"client": {(f"{ADDRESSES['db01']}:713",): row}},
            calls=calls(tick, "db01", 1_000_000, 1_000_000),
        )
    }


def _tell_clock(read: Callable[[], str], ahead_s: float) -> None:
    """Answer with the time as the remote shell does, until stdin ends."""
    while line := read():
        os.write(2, f"ioh-clock {line.strip()} {time.time() + ahead_s:.9f}\n".encode())
    os._exit(0)


def _play(host: str, cycle_s: float) -> None:
    ahead_s = AHEAD_S if host == "ahead" else 0.0
    if host == "timeless":
        os.write(2, b"a banner\x1b[2J\n")
    else:
        read = sys.stdin.readline
        threading.Thread(target=_tell_clock, args=(read, ahead_s), daemon=True).start()
    addresses = [] if host == "old" else [ADDRESSES.get(host, "10.0.1.1")]
    writer = SessionWriter(Output(1), cycle_s=cycle_s, addresses=addresses)
    tick = 0
    while True:
        made = layers("db01" if host == "db01" else "nfs01", tick * READS)
        writer.write(
            Sample(
                time_unix_s=time.time() + ahead_s,
                mono_ns=time.monotonic_ns(),
                hostname=f"{host}.example",
                kernel="6.1.0",
                host=HostSample(),
                layers=made,
                specs={name: all_layers()[name].spec for name in made},
            )
        )
        tick += 1
        if host == "flaky" and tick == 5:
            sys.stderr.write("client_loop: send disconnect: Broken pipe\n")
            sys.stderr.flush()
            os._exit(255)
        time.sleep(cycle_s)


def _fail(why: str) -> NoReturn:
    """As ssh does."""
    sys.stderr.write(f"{why}\n")
    sys.exit(255)


def main() -> None:
    """Play the host that the arguments name."""
    at = sys.argv.index("--")
    host, there = sys.argv[at + 1 :]
    host = host.removeprefix("ssh://").rpartition("@")[2].partition(":")[0]
    if host in _HOSTS:
        words = shlex.split(there)
        _play(host, float(words[words.index("-c", 3) + 1]))
    elif host == "refused":
        _fail("root@refused: Permission denied (publickey).")
    elif host == "hostile":
        while True:
            os.write(2, b"\x1b]0;owned\x07" * 1000)
            os.write(1, os.urandom(1 << 16))
    elif host == "bare":  # a machine without ioh and without sudo
        sys.exit(subprocess.call(["/bin/sh", "-c", there], env={"PATH": "/usr/bin:/bin"}))
    _fail(f"ssh: Could not resolve hostname {host}: Name or service not known")


if __name__ == "__main__":
    main()
