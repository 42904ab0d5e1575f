"""Network namespaces of one's own, with ioh's tcp layer and known traffic in them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TIMEOUT_S = 60
Reading = dict[str, Any]


def run(*command: str) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S
    ).stdout


class Namespace:
    """A network namespace with loopback up."""

    def __init__(self, name: str) -> None:
        self.name = f"ioh-{os.getpid()}-{name}"
        self.processes: list[subprocess.Popen[str]] = []
        # A process holds it: `ip netns` needs / to be a mount point, which it is not in a chroot.
        self.holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec sleep 600"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "ready\n"
        self.run("ip", "link", "set", "lo", "up")

    def command(self, *command: str) -> tuple[str, ...]:
        return ("nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *command)

    def run(self, *command: str) -> str:
        return run(*self.command(*command))

    def snmp(self, name: str) -> int:
        names, values = [
            line.split()
            for line in self.run("cat", "/proc/net/snmp").splitlines()
            if line.startswith("Tcp:")
        ]
        return int(values[names.index(name)])

    def start(self, *command: str) -> subprocess.Popen[str]:
        """A process that talks by lines and ends with the namespace at the latest."""
        process = subprocess.Popen(
            self.command(sys.executable, *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        self.holder.kill()
        self.holder.communicate()


class Script:
    """A Python script of this directory that runs in a namespace and talks by lines."""

    def __init__(self, namespace: Namespace, name: str, **options: object) -> None:
        self.process = namespace.start(str(HERE / name), json.dumps(options))

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.communicate(timeout=TIMEOUT_S)


class Agent(Script):
    """ioh's layer; the first reading is the baseline."""

    def __init__(self, namespace: Namespace, **options: object) -> None:
        super().__init__(namespace, "tcp_agent.py", **options)
        self.baseline = self.read()

    def read(self) -> Reading:
        self.ask()
        reading: Reading = json.loads(self.line())
        return reading

    def read_until_quiet(self) -> Reading:
        """Read until the last connection has ended: a lost FIN is sent again for a while."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            reading = self.read()
            if reading["metrics"]["connections"] == 0:
                return self.read()
            assert time.monotonic() < deadline, reading
            time.sleep(0.05)


class Load(Script):
    """Known traffic."""

    def __init__(self, namespace: Namespace, **options: object) -> None:
        super().__init__(namespace, "tcp_load.py", **options)
        assert self.line() == "ready\n"

    def finish(self) -> dict[str, int]:
        sums: dict[str, int] = json.loads(self.line())
        self.close()
        return sums


@contextmanager
def closing(*things: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for thing in things:
            thing.close()


def namespace_is_busy(load: Load, wait_s: float = 0.0) -> bool:
    """Whether the load has not yet printed its result, nor does so within that time."""
    assert load.process.stdout is not None
    return not select.select([load.process.stdout], [], [], wait_s)[0]


def drop_two_percent(namespace: Namespace) -> None:
    """Every fiftieth packet: at random, none of 3 MB in packets of 64 KB may be hit."""
    namespace.run(
        "nft",
        "add table inet ioh; add chain inet ioh in { type filter hook input priority 0; };"
        "add rule inet ioh in meta l4proto tcp numgen inc mod 50 0 drop",
    )
