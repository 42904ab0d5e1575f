"""Network namespaces for tests, with ioh's tcp layer and known traffic in them."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kernel.rig import run
from tests.kernel.talker import Talker, wait_until

HERE = Path(__file__).parent
Reading = dict[str, Any]


class Namespace:
    """A network namespace with loopback up."""

    def __init__(self, name: str) -> None:
        self.name = f"ioh-{os.getpid()}-{name}"
        self.scripts: list[Script] = []
        # A process holds it: `ip netns` needs / to be a mount point, which it is not in a chroot.
        self.holder = Talker("unshare", "--net", "sh", "-c", "echo ready; exec cat")
        assert self.holder.line() == "ready"
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

    def close(self) -> None:
        """End what still runs inside, then the namespace."""
        for script in self.scripts:
            script.process.kill()
            script.close()
        self.holder.close()


class Script(Talker):
    """A Python program in a namespace; it ends with the namespace at the latest."""

    def __init__(self, namespace: Namespace, *words: str) -> None:
        super().__init__(*namespace.command(sys.executable, *words))
        namespace.scripts.append(self)


def script_of(name: str, options: Mapping[str, object]) -> tuple[str, str]:
    """Command line of a script in this directory, with its options as JSON."""
    return str(HERE / name), json.dumps(options)


class Agent(Script):
    """Runs ioh's tcp layer; the first reading is the baseline."""

    def __init__(self, namespace: Namespace, **options: object) -> None:
        super().__init__(namespace, *script_of("tcp_agent.py", options))
        self.baseline = self.read()

    def read(self) -> Reading:
        reading: Reading = json.loads(self.ask())
        return reading

    def read_until_quiet(self) -> Reading:
        """Read until the last connection has ended: a lost FIN is sent again for a while."""
        wait_until(lambda: self.read()["metrics"]["connections"] == 0, pause_s=0.05)
        return self.read()


class Load(Script):
    """Runs known traffic: tcp_load.py."""

    def __init__(self, namespace: Namespace, **options: object) -> None:
        super().__init__(namespace, *script_of("tcp_load.py", options))
        assert self.line() == "ready"

    def finish(self) -> dict[str, int]:
        """Wait for its end; return how many bytes its own calls moved."""
        sums: dict[str, int] = json.loads(self.line())
        self.close()
        return sums

    def is_busy(self, wait_s: float = 0.0) -> bool:
        """Whether it has still not printed its result at the end of that time."""
        assert self.process.stdout is not None
        return not select.select([self.process.stdout], [], [], wait_s)[0]


def drop_two_percent(namespace: Namespace) -> None:
    """Drop every fiftieth packet: at random, 3 MB in packets of 64 KB may lose none."""
    namespace.run(
        "nft",
        "add table inet ioh; add chain inet ioh in { type filter hook input priority 0; };"
        "add rule inet ioh in meta l4proto tcp numgen inc mod 50 0 drop",
    )
