"""The contract of a layer, its attach points, and the registry that finds every layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Unavailable

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Maps
    from ioh.bpf.server_files import Server
    from ioh.pg.login import Login


# An event is lost where as many threads of one CPU are preempted amid a program of its kind.
# Under emulation, where a program takes 50 µs, 1 % of events met a busy one; of 4, 0.005 %.
_COPIES = 6
PLEASE_REPORT = "please report the kernel's version: ioh does not know it yet"


class AttachPoint(NamedTuple):
    """A raw tracepoint and the C function that it runs."""

    event: str
    function: str


@dataclass(frozen=True, slots=True)
class Event:
    """One thing a probe must learn of.

    Shape:
        ``tracepoints``: those that tell of it, best first, apart by spaces.  An event that
        ``gives`` something costs only that where there is none of them; without any other event
        the layer is unavailable.  ``usable`` says whether this kernel's structs and arguments
        allow it, where that the event exists is not enough.  ``hands_on`` names a program array
        of the probe: what lies in it runs next on the event.  ``function``: ``on_<name>`` if "".
    """

    name: str
    tracepoints: str
    gives: str = ""
    usable: Callable[[Btf], bool] | None = None
    hands_on: str = ""
    function: str = ""

    @property
    def points(self) -> tuple[AttachPoint, ...]:
        """The ways to learn of it, best first."""
        function = self.function or f"on_{self.name}"
        return tuple(AttachPoint(event, function) for event in self.tracepoints.split())

    @property
    def needed(self) -> bool:
        """Whether there is no layer without it."""
        return not self.gives


@dataclass(frozen=True, slots=True)
class Step:
    """A program that another one goes on in: put into program array ``array`` at index 0."""

    array: str
    event: str
    function: str


@dataclass(frozen=True, slots=True)
class Late:
    """Programs of a probe, compiled and loaded with it, that run only while ``wants_late()``.

    Shape:
        ``without`` says what holds where they cannot be attached.  ``module``: the kernel module
        that has ``points``, "" for the kernel itself.  Its types are not known when the probe is
        compiled: the array map ``late_offsets`` gets the ``offsets`` (struct, member), in order.
    """

    points: tuple[AttachPoint, ...]
    without: str
    module: str = ""
    offsets: tuple[tuple[str, str], ...] = ()


class Layer(ABC):
    """One layer of the stack: what it offers, how to attach it, how to read it.

    ``events`` are attached in their order: what ends an operation comes before what begins
    one, else operations that begin in between would be under way for ever.  A subclass in a
    module of ``ioh/layers`` registers itself.  An instance belongs to one run of ioh.
    """

    spec: ClassVar[LayerSpec]
    probe: ClassVar[str] = ""  # probes/<probe>.c; "" where the layer needs none
    events: ClassVar[tuple[Event, ...]] = ()
    steps: ClassVar[tuple[Step, ...]] = ()
    late: ClassVar[Late | None] = None
    server_program: ClassVar[str] = ""  # of its probe: runs at places of servers' files, see sites
    prefers_typed: ClassVar[bool] = False
    cast_types: ClassVar[Mapping[str, str]] = {}  # kernel structs that its probe finds by address
    joins: ClassVar[str] = ""  # a layer whose events are handed on to it, see Event
    takes_turns: ClassVar[bool] = False  # its probe distinguishes its copies (probes/ioh.h)
    modules: ClassVar[tuple[str, ...]] = ()  # kernel modules whose BTF the probe needs
    welcome_modules: ClassVar[tuple[str, ...]] = ()  # the same, and it can do without
    needs_login: ClassVar[bool] = False  # there is nothing of it, not even why, without --pg
    is_rare: ClassVar[bool] = False  # most hosts have nothing for it, and need not hear of it
    idle: ClassVar[str] = ""  # why there is nothing to measure where is_wanted() says no

    registry: ClassVar[dict[str, type[Layer]]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        Layer.registry[cls.spec.name] = cls

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        self.filters = filters
        self.root = root

    @classmethod
    def trusts(cls, host: HostFacts) -> bool:
        """Whether its probe shall be loaded BTF-typed, with ``-DTRUSTED``; costs less a run."""
        return cls.prefers_typed and host.trusted_loads

    @classmethod
    def copies(cls, host: HostFacts) -> int:
        """How many times each of its programs is attached, for when one of them is busy."""
        return _COPIES if cls.takes_turns and host.preempted else 1

    @classmethod
    def is_wanted(cls, root: Path = Path("/")) -> bool:
        """Whether this host has something for the layer to measure now; asked once a tick.

        A probe on a module's tracepoints keeps the module from being unloaded, so it is
        attached only while this holds.
        """
        del root
        return True

    def wants_late(self) -> bool:
        """Whether its late programs shall run now; asked once a tick."""
        return False

    @classmethod
    def servers(cls) -> tuple[Server, ...]:
        """Whose functions and probe points its ``server_program`` is attached to."""
        return ()

    def server_pids(self) -> frozenset[int]:
        """Processes that run one of them now; 0: see ServerRequest.  Asked once a tick."""
        return frozenset()

    def learn_server(self, answer: Mapping[str, Any]) -> None:
        """What the loader has said of one of them; see attach_server()."""
        del answer

    def too_dear(self) -> tuple[str, str]:
        """An op to let go of for a while, since its events come too fast, and why; "" for none."""
        return "", ""

    @classmethod
    def defines(cls, host: HostFacts, filters: Filters) -> Mapping[str, int | str] | Unavailable:
        """The ``-D`` constants its probe needs on this kernel; a str is a C string literal."""
        del host, filters
        return {}

    def log_in(self, login: Login) -> None:
        """Begin what needs the login; called once, after root was given away."""
        del login

    def close(self) -> None:  # noqa: B027 (most have nothing to end)
        """End what it has begun."""

    @abstractmethod
    def read(self, maps: Maps) -> LayerSample:
        """Read the attached probe's maps, and what else the layer needs."""

    @abstractmethod
    def read_proc(self) -> LayerSample | Unavailable:
        """Read what the kernel reports without BPF; what is not known that way stays None."""


def offset_defines(btf: Btf, *structs: str) -> dict[str, int] | Unavailable:
    """``OFF_<struct>_<member>`` constants of ``"task_struct pid tgid"`` …; a dot becomes ``_``.

    Returns:
        Unavailable, naming the first member that this kernel does not have.
    """
    defines: dict[str, int] = {}
    for owner, *paths in map(str.split, structs):
        for path in paths:
            offset = btf.offset(owner, path)
            if offset is None:
                return Unavailable(f"this kernel's struct {owner} has no {path}", PLEASE_REPORT)
            defines[f"OFF_{owner}_{path.replace('.', '_')}"] = offset
    return defines


def known_offsets(btf: Btf, *structs: str) -> dict[str, int]:
    """The same of what a probe can do without; nothing where this kernel lacks a member."""
    found = offset_defines(btf, *structs)
    return {} if isinstance(found, Unavailable) else found
