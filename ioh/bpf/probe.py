"""What a layer's probe is: its programs, where they are attached, and what it is compiled with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ioh.model.metric import LayerSpec
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf
    from ioh.bpf.host import HostFacts
    from ioh.bpf.layout import Layout
    from ioh.bpf.server_files import NamedFile, Server
    from ioh.model.filters import Filters

    Defines = Mapping[str, int] | Unavailable

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
class OnDemand:
    """Programs of a probe that are loaded with it, but attached only while its layer needs them.

    Shape:
        ``without``: the note to show if they cannot be attached.  ``module``: the kernel module
        that has ``points``, "" for the kernel itself.  Its types are not known when the probe is
        compiled, so the array map ``demand_offsets`` gets the ``offsets`` (struct, member).
    """

    points: tuple[AttachPoint, ...]
    without: str
    module: str = ""
    offsets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A probe's program for places in servers' files.

    Shape:
        ``find_servers``, called when it is attached, returns the servers whose functions and probe
        points it is attached to, and the files that they name by path.
    """

    function: str
    find_servers: Callable[[], tuple[tuple[Server, ...], tuple[NamedFile, ...]]]


def _no_defines(_: HostFacts, __: Filters) -> Defines:
    return {}


@dataclass(frozen=True, slots=True)
class Probe:
    """A layer's probe: ``probes/<name of the layer>.c``.

    Shape:
        ``events`` are attached in order: the end of an operation before its start, or operations
        that start in between would stay in flight forever.  ``defines``: its own ``-D`` constants
        on a kernel, see all_defines() for the others; filters give FilterValues.  ``structs``: of
        its maps' keys and values, as Python reads them, besides OP_TOTALS.
        ``prefers_typed``: see trusts().  ``cast_types``: kernel structs that it reads by address.
        ``joins``: the layer that passes events to it, see Event.hands_on.  ``prefers_events``: see
        records().  ``takes_turns``: it tells its copies apart (``probes/ioh.h``).  ``modules``:
        kernel modules whose BTF it requires; ``welcome_modules``: optional ones.
    """

    spec: LayerSpec
    events: tuple[Event, ...] = ()
    defines: Callable[[HostFacts, Filters], Defines] = _no_defines
    structs: tuple[Layout, ...] = ()
    steps: tuple[Step, ...] = ()
    on_demand: OnDemand | None = None
    server_program: ServerProgram | None = None
    prefers_typed: bool = False
    cast_types: Mapping[str, str] = field(default_factory=dict)
    joins: str = ""
    prefers_events: Mapping[str, Records] = field(default_factory=dict)  # by -D constant
    takes_turns: bool = False
    modules: tuple[str, ...] = ()
    welcome_modules: tuple[str, ...] = ()

    @property
    def demand_points(self) -> tuple[AttachPoint, ...]:
        """Where its on-demand programs are attached."""
        return self.on_demand.points if self.on_demand is not None else ()

    def trusts(self, host: HostFacts) -> bool:
        """Whether to load it BTF-typed, with ``-DTRUSTED``; this costs less per run."""
        return self.prefers_typed and host.trusted_loads

    def records(self, host: HostFacts) -> dict[str, Records]:
        """The tracepoints at whose trace events its programs are attached, by ``-D`` constant.

        Only where a program at a raw tracepoint can be preempted, because a trace event costs more,
        and where the trace events' records are as the probe reads them.
        """
        if not (host.trace_events and self.trusts(host)):
            return {}
        return {
            constant: records
            for constant, records in self.prefers_events.items()
            if all(
                host.btf.offset(f"trace_event_raw_{tracepoint}", member) == at
                for tracepoint, members in records.items()
                for member, at in members.items()
            )
        }

    def at_events(self, host: HostFacts) -> frozenset[str]:
        """The tracepoints of records()."""
        return frozenset(name for records in self.records(host).values() for name in records)

    def copies(self, host: HostFacts) -> int:
        """How many times to attach each of its programs, in case one copy is busy."""
        return _COPIES if self.takes_turns and host.preempted else 1

    def functions(self, points: Iterable[AttachPoint]) -> set[str]:
        """Its C functions to compile, if its events are attached at these points."""
        named = {point.function for point in (*points, *self.demand_points)}
        named |= {step.function for step in self.steps}
        return named if self.server_program is None else named | {self.server_program.function}
