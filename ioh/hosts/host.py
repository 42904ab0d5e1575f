"""Read one host's intervals, and reconnect when the host is lost."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from ioh.hosts.clock import FarClock
from ioh.hosts.link import SILENCE_S, Link
from ioh.hosts.ssh import ssh_command, why_ended
from ioh.model.errors import ExitCode, IohError
from ioh.model.intervals import ChooseLayers, Intervals
from ioh.model.pairs import HostInterval, HostState
from ioh.model.printable import printable
from ioh.model.rounds import MOST_READY
from ioh.model.sample import Sample
from ioh.session.records import Header, to_text
from ioh.session.stream import Tick

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
_LATE_S = 3.0
_SAMPLE_CALLS = "--sample-calls"


@dataclass(frozen=True, slots=True)
class HostQuery:
    """What to run on every host.

    ``arguments`` are those of the far ioh, to which ``--sample-calls`` is added; ``command`` as for
    ssh_command(); ``choose`` and ``cycle_s`` as for Intervals.
    """

    arguments: tuple[str, ...]
    command: str | None
    choose: ChooseLayers
    cycle_s: float


class Host:
    """Reads one host in its own thread, and reconnects after a loss.

    ``now`` is our clock.  ``condition`` guards ``ready``, and is notified when that or the state
    changes.
    """

    def __init__(
        self, name: str, query: HostQuery, now: Callable[[], float], condition: threading.Condition
    ) -> None:
        self.name = name
        self.ready: deque[HostInterval] = deque()
        self.error: IohError | None = None  # why it is not connected
        self.keeps = False  # whether ready intervals wait for the other hosts
        self._query, self._now, self._condition = query, now, condition
        self._clock = FarClock(now)
        self._link: Link | None = None
        self._stopping = threading.Event()
        self._is_here = False
        self._samples_calls = True  # until its ioh turns out to be too old for that
        self._lack = ""  # what its ioh is too old for
        self._newest_s: float | None = None  # when the last interval came
        self._thread = threading.Thread(target=self._run, name=f"host {name}", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; safe to call from a signal handler."""
        self._stopping.set()
        if (link := self._link) is not None:
            link.stop()

    def join(self) -> None:
        """Wait until the connection is closed."""
        self._thread.join()

    @property
    def state(self) -> HostState:
        """The present state."""
        clock, newest_s = self._clock, self._newest_s
        quiet_s = None if newest_s is None else self._now() - newest_s
        late = quiet_s is not None and quiet_s > self._query.cycle_s + _LATE_S
        is_here = self._is_here and not late
        why = "connecting" if self.error is None else self.error.cause
        if self._is_here:
            why = f"{self.name}: no data" if late else self._lack
        return HostState(
            self.name, is_here, None if is_here else quiet_s, why, clock.offset_s, clock.error_s
        )

    def _run(self) -> None:
        wait_s = FIRST_WAIT_S
        while not self._stopping.is_set():
            error = self._read()
            if self._is_here:
                wait_s = FIRST_WAIT_S
            with self._condition:
                self._is_here, self.error = False, error
                self._condition.notify_all()
            self._stopping.wait(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _read(self) -> IohError:
        """Connect and read; return why it ended."""
        query = self._query
        words = [*query.arguments, *([_SAMPLE_CALLS] if self._samples_calls else ())]
        command = ssh_command(self.name, query.command, words)
        self._clock = FarClock(self._now)
        try:
            with Link(command, self._clock, SILENCE_S + query.cycle_s) as link:
                self._link = link
                if not self._stopping.is_set():
                    self._take(link)
                status = None if self._stopping.is_set() else link.status()
                why = why_ended(self.name, query.command, status, link.last_line)
                is_refused = status == ExitCode.USAGE and _SAMPLE_CALLS in link.last_line
        except IohError as error:
            return IohError(f"{self.name}: {error.cause}", error.hint, error.code)
        except OSError as error:  # out of descriptors
            return IohError(f"{self.name}: {error.strerror}", "See: ulimit -n")
        finally:
            self._link = None
        if not (is_refused and self._samples_calls):
            return why
        self._samples_calls = False
        return self._read()

    def _take(self, link: Link) -> None:
        intervals = Intervals(self._query.choose, self._query.cycle_s)
        addresses: tuple[str, ...] = ()
        ours: Sample | None = None
        for item in link.items():
            if isinstance(item, Header):
                addresses = tuple(map(to_text, item.addresses))
                version = f"{self.name} has ioh {printable(item.ioh_version, 40)}"
                lack = f"{version}, which does not report its addresses: no pairs with it"
                self._lack = "" if addresses else lack
            elif isinstance(item, Tick):
                sample = item.sample
                time_unix_s = self._clock.ours(sample.time_unix_s, sample.mono_ns)
                snapshot = intervals.take(sample)
                if not intervals.has_taken(sample):
                    continue
                older, ours = ours, replace(intervals.newest, time_unix_s=time_unix_s)
                if snapshot is not None and older is not None:
                    dated = replace(snapshot, time_unix_s=time_unix_s)
                    self._put(HostInterval(self.name, addresses, dated, (older, ours)))

    def _put(self, interval: HostInterval) -> None:
        """Make an interval ready; wait while too many are."""
        with self._condition:
            if not self.keeps:
                self.ready.clear()
            while len(self.ready) >= MOST_READY and not self._stopping.is_set():
                self._condition.wait(0.2)
            self.ready.append(interval)
            self._is_here, self.error, self._newest_s = True, None, self._now()
            self._condition.notify_all()
