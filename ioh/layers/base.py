"""What every layer provides, its attach points, and the registry of layers."""

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
    from ioh.bpf.server_files import NamedFile, Server
    from ioh.pg.login import Login


# An event is lost if this many threads of one CPU are preempted inside the same program.
# Under emulation, where a program takes 50 µs, one copy was busy for 1 % of the events, four copies
# for 0.005 %.
_COPIES = 6


Records = Mapping[str, Mapping[str, int]]  # by tracepoint: offsets in its trace event's record


class AttachPoint(NamedTuple):
    """A raw tracepoint and the C function attached to it."""

    event: str
    function: str


@dataclass(frozen=True, slots=True)
class Event:
    """One kernel event that a probe needs.

    Shape:
        ``tracepoints``: the candidates, best first, separated by spaces.  If none exists, the layer
        is unavailable; if the event ``gives`` something, only that is missing.  ``usable`` checks
        this kernel's structs and arguments, if the tracepoint alone is not enough.  ``hands_on``
        names a program array of the probe; the program in it runs next on the same event.
        ``function`` defaults to ``on_<name>``.
    """

    name: str
    tracepoints: str
    gives: str = ""
    usable: Callable[[Btf], bool] | None = None
    hands_on: str = ""
    function: str = ""

    @property
    def points(self) -> tuple[AttachPoint, ...]:
        """The places to attach to, best first."""
        function = self.function or f"on_{self.name}"
        return tuple(AttachPoint(event, function) for event in self.tracepoints.split())

    @property
    def needed(self) -> bool:
        """Whether the layer is unavailable without it."""
        return not self.gives


@dataclass(frozen=True, slots=True)
class Step:
    """A program that another one tail-calls: index 0 of program array ``array``."""

    array: str
    event: str
    function: str


@dataclass(frozen=True, slots=True)
class Late:
    """Programs of a probe that are loaded with it, but attached only while ``wants_late()``.

    Shape:
        ``without``: the note to show if they cannot be attached.  ``module``: the kernel module
        that has ``points``, "" for the kernel itself.  Its types are not known when the probe is
        compiled, so the array map ``late_offsets`` gets the ``offsets`` (struct, member), in order.
    """

    points: tuple[AttachPoint, ...]
    without: str
    module: str = ""
    offsets: tuple[tuple[str, str], ...] = ()


class Layer(ABC):
    """One layer of the stack: what it offers, how to attach it, how to read it.

    ``events`` are attached in order: the end of an operation before its start, or operations that
    start in between would stay in flight forever.  A subclass registers itself.  One run of ioh
    uses one instance.
    """

    spec: ClassVar[LayerSpec]
    probe: ClassVar[str] = ""  # probes/<probe>.c; "" where the layer needs none
    events: ClassVar[tuple[Event, ...]] = ()
    steps: ClassVar[tuple[Step, ...]] = ()
    late: ClassVar[Late | None] = None
    server_program: ClassVar[str] = ""  # of its probe, for places in servers' files
    prefers_typed: ClassVar[bool] = False
    cast_types: ClassVar[Mapping[str, str]] = {}  # kernel structs that its probe reads by address
    joins: ClassVar[str] = ""  # the layer that passes events to it, see Event.hands_on
    prefers_events: ClassVar[Mapping[str, Records]] = {}  # by -D constant, see records()
    takes_turns: ClassVar[bool] = False  # its probe tells its copies apart (probes/ioh.h)
    modules: ClassVar[tuple[str, ...]] = ()  # kernel modules whose BTF the probe requires
    welcome_modules: ClassVar[tuple[str, ...]] = ()  # the same, optional
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
    def trusts(cls, host: HostFacts) -> bool:
        """Whether to load its probe BTF-typed, with ``-DTRUSTED``; this costs less per run."""
        return cls.prefers_typed and host.trusted_loads

    @classmethod
    def records(cls, host: HostFacts) -> dict[str, Records]:
        """The tracepoints at whose trace events its programs are attached, by ``-D`` constant.

        Only where a program at a raw tracepoint can be preempted, because a trace event costs more,
        and where the trace events' records are as the probe reads them.
        """
        if not (host.trace_events and cls.trusts(host)):
            return {}
        return {
            constant: records
            for constant, records in cls.prefers_events.items()
            if all(
                host.btf.offset(f"trace_event_raw_{tracepoint}", member) == at
                for tracepoint, members in records.items()
                for member, at in members.items()
            )
        }

    @classmethod
    def at_events(cls, host: HostFacts) -> frozenset[str]:
        """The tracepoints of records()."""
        return frozenset(name for records in cls.records(host).values() for name in records)

    @classmethod
    def copies(cls, host: HostFacts) -> int:
        """How many times to attach each of its programs, in case one copy is busy."""
        return _COPIES if cls.takes_turns and host.preempted else 1

    @classmethod
    def is_wanted(cls, root: Path = Path("/")) -> bool:
        """Whether this host has something for the layer to measure now; called once a tick.

        A probe on a module's tracepoints keeps the module from being unloaded.  So it is attached
        only while this is True.
        """
        del root
        return True

    def wants_late(self) -> bool:
        """Whether its late programs should run now; called once a tick."""
        return False

    @classmethod
    def servers(cls) -> tuple[Server, ...]:
        """The servers whose functions and probe points its ``server_program`` is attached to."""
        return ()

    @classmethod
    def named_files(cls) -> tuple[NamedFile, ...]:
        """The files that those servers name by path."""
        return ()

    def server_pids(self) -> frozenset[int]:
        """Processes that run one of them now; 0: see ServerRequest.  Called once a tick."""
        return frozenset()

    def learn_server(self, answer: Mapping[str, Any]) -> None:
        """Take the loader's answer about one of them; see attach_server()."""
        del answer

    def own_session(self) -> int:
        """The thread of a server of this machine that serves ioh's own login; 0 if none."""
        return 0

    def leave_out(self, session: int) -> None:
        """Do not count what own_session() of another layer does."""
        del session

    def too_dear(self, maps: Maps) -> dict[str, str]:
        """Ops to stop counting for a while, because their traps cost too much, and why."""
        del maps
        return {}

    def trap_ns(self, maps: Maps) -> int:
        """CPU time of its traps in servers so far; its programs' time is counted by the kernel."""
        del maps
        return 0

    @classmethod
    def defines(cls, host: HostFacts, filters: Filters) -> Mapping[str, int | str] | Unavailable:
        """The ``-D`` constants of its probe on this kernel; a str is a C string literal.

        Without those that every probe has, see all_defines().
        """
        del host, filters
        return {}

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
