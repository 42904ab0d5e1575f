"""The made-up machine: advances tick by tick, and can be read as a Sample at any of them."""

from __future__ import annotations

from ioh.layers import all_layers
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Sample, Unavailable
from ioh.sources.demo.block import DemoBlock
from ioh.sources.demo.counts import Dice
from ioh.sources.demo.host import DemoHost
from ioh.sources.demo.names import HOSTNAME, KERNEL
from ioh.sources.demo.nfs import DemoNfsClient, DemoNfsServer
from ioh.sources.demo.story import load_at
from ioh.sources.demo.syscall import DemoSyscall
from ioh.sources.demo.tcp import DemoTcp
from ioh.sources.demo.traffic import make_traffic

_SELF_CPU_RATIO, _PROBES_CPU_RATIO = 0.008, 0.021  # made up, as all the rest


class DemoMachine:
    """One made-up machine, from tick 0 on, when all of its counters are 0.

    Args:
        seed: Of all chance; the story is the same for every seed.
        interval_s: What one tick lasts.
    """

    def __init__(self, seed: int, interval_s: float) -> None:
        self._seed = seed
        self._interval_s = interval_s
        self._interval_ns = round(interval_s * 1e9)
        self.tick = 0
        self.specs: dict[str, LayerSpec] = {
            name: layer.spec for name, layer in all_layers().items()
        }
        self._syscall = DemoSyscall(self.specs["syscall"])
        self._client = DemoNfsClient(self.specs["nfs_client"])
        self._tcp = DemoTcp(self.specs["tcp"])
        self._server = DemoNfsServer(self.specs["nfs_server"])
        self._block = DemoBlock(self.specs["block"])
        self._host = DemoHost()

    def advance(self) -> Dice:
        """Let one tick go by; returns the rest of its chance, for read()."""
        self.tick += 1
        dice, interval_s = Dice(self._seed, self.tick), self._interval_s
        load = load_at(self.tick * interval_s)
        traffic = make_traffic(load, dice, interval_s)
        self._syscall.take(traffic)
        self._client.take(traffic, dice, interval_s, load.wire_us)
        self._tcp.take(traffic, dice, interval_s, load)
        self._server.take(traffic, dice, interval_s)
        self._block.take(traffic)
        self._host.take(traffic, load, dice, interval_s)
        return dice

    def read(self, dice: Dice, start_unix_s: float, start_mono_ns: int) -> Sample:
        """Everything as it is now; once a tick, since maxima are those since the last reading."""
        interval_ns = self._interval_ns
        known: dict[str, LayerSample] = {
            "syscall": self._syscall.sample(interval_ns, dice),
            "nfs_client": self._client.sample(interval_ns, dice),
            "tcp": self._tcp.sample(dice),
            "nfs_server": self._server.sample(interval_ns, dice),
            "block": self._block.sample(interval_ns, dice),
        }
        elapsed_ns = self.tick * interval_ns
        missing = Unavailable("the demo has no such load", is_idle=True)
        return Sample(
            time_unix_s=start_unix_s + elapsed_ns / 1e9,
            mono_ns=start_mono_ns + elapsed_ns,
            hostname=HOSTNAME,
            kernel=KERNEL,
            host=self._host.sample(),
            layers={name: known.get(name, missing) for name in self.specs},
            specs=self.specs,
            self_cpu_ns_total=int(elapsed_ns * _SELF_CPU_RATIO),
            bpf_ns_total=int(elapsed_ns * _PROBES_CPU_RATIO),
        )
