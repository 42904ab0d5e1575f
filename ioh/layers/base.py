"""What every layer provides, and the registry of layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Unavailable

if TYPE_CHECKING:
    from ioh.bpf.maps import Maps
    from ioh.bpf.probe import Probe
    from ioh.pg.login import Login


class Layer(ABC):
    """One layer of the stack: what it offers, its probe, how to read it.

    A subclass registers itself.  One run of ioh uses one instance.
    """

    spec: ClassVar[LayerSpec]
    probe: ClassVar[Probe | None] = None
    needs_login: ClassVar[bool] = False  # without --pg the layer does not appear at all
    is_rare: ClassVar[bool] = False  # hidden until there is something to measure
    idle: ClassVar[str] = ""  # the reason to show while is_wanted() is False

    registry: ClassVar[dict[str, type[Layer]]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        Layer.registry[cls.spec.name] = cls

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        self.filters = filters
        self.root = root

    @classmethod
    def is_wanted(cls, root: Path = Path("/")) -> bool:
        """Whether this host has something for the layer to measure now; called once a tick.

        A probe on a module's tracepoints keeps the module from being unloaded.  So it is attached
        only while this is True.
        """
        del root
        return True

    def attaches_on_demand(self) -> bool:
        """Whether its on-demand programs are needed now; called once a tick."""
        return False

    def server_pids(self) -> frozenset[int]:
        """Processes that run its probe's servers; 0: see ServerRequest.  Called once a tick."""
        return frozenset()

    def observe_server(self, answer: Mapping[str, Any]) -> None:
        """Take the loader's answer about one of them; see attach_server()."""
        del answer

    def own_session(self) -> int:
        """The thread of a server of this machine that serves ioh's own login; 0 if none."""
        return 0

    def leave_out(self, session: int) -> None:
        """Do not count what own_session() of another layer does."""
        del session

    def overload(self, maps: Maps) -> dict[str, str]:
        """Ops to stop counting for a while, because their traps cost too much, and why."""
        del maps
        return {}

    def trap_ns(self, maps: Maps) -> int:
        """CPU time of its traps in servers so far; its programs' time is counted by the kernel."""
        del maps
        return 0

    def log_in(self, login: Login) -> None:
        """Start whatever needs the login; called once, after privileges were dropped."""
        del login

    def close(self) -> None:  # noqa: B027 (most have nothing to end)
        """Stop what the layer has started."""

    @abstractmethod
    def read(self, maps: Maps) -> LayerSample:
        """Read the attached probe's maps and whatever else the layer needs."""

    @abstractmethod
    def read_proc(self) -> LayerSample | Unavailable:
        """Read what the kernel reports without BPF; everything else stays None."""
