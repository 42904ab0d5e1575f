"""Read several hosts, and collect the intervals that belong together."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence

from ioh.hosts.clock import steady_clock
from ioh.hosts.host import Host, HostQuery
from ioh.model.closing import Closing
from ioh.model.pairs import HostState, Round
from ioh.model.player import RoundSource
from ioh.model.rounds import round_edge, take_round

_BEGIN_S = 30.0  # how long to wait for all hosts at the start
_SLACK_S = 1.0
_NOTHING_S = 4.0  # without data, beyond an interval: then all hosts are lost


class HostStack(Closing, RoundSource):
    """Reads several hosts at the same time; a context manager and an iterator of Rounds."""

    def __init__(self, names: Sequence[str], query: HostQuery) -> None:
        self._cycle_s = query.cycle_s
        self._condition = threading.Condition()
        self._stopped = False
        self._clock = steady_clock()
        self._edge_s = math.nan
        self._hosts = [Host(name, query, self._clock, self._condition) for name in names]
        for host in self._hosts:
            host.start()

    @property
    def states(self) -> tuple[HostState, ...]:  # type: ignore[override]
        """Each host's present state."""
        return tuple(host.state for host in self._hosts)

    def stop(self) -> None:
        """End the iteration; safe to call from a signal handler."""
        if self._stopped:
            return
        self._stopped = True
        for host in self._hosts:
            host.stop()

    def close(self) -> None:
        """End all connections."""
        self.stop()
        for host in self._hosts:
            host.join()

    def __iter__(self) -> Iterator[Round]:
        """Yield rounds, after every host has sent its first interval or failed.

        IohError: no host could be read.
        """
        self._begin()
        while not self._stopped:
            with self._condition:
                self._wait()
                ready = {host.name: host.ready for host in self._hosts}
                ends_s = [each[0].snapshot.time_unix_s for each in ready.values() if each]
                if ends_s:
                    self._edge_s = round_edge(ends_s, self._cycle_s, self._edge_s)
                intervals = take_round(ready, self._cycle_s, self._edge_s)
                self._condition.notify_all()
            if not self._stopped:
                first_s = min((x.snapshot.time_unix_s for x in intervals), default=self._clock())
                yield Round(first_s, tuple(intervals), self.states)

    def _begin(self) -> None:
        until = time.monotonic() + _BEGIN_S + self._cycle_s
        hosts = self._hosts
        with self._condition:
            while not self._stopped and time.monotonic() < until:
                if all(host.ready or host.error is not None for host in hosts):
                    break
                self._condition.wait(0.1)
            errors = [host.error for host in hosts if host.error is not None]
            if len(errors) == len(hosts):
                raise errors[0]
            for host in hosts:
                host.keeps = True

    def _wait(self) -> None:
        """Wait until every connected host has sent its interval, or is too late."""
        late_s = time.monotonic() + self._cycle_s + _NOTHING_S
        is_begun = False
        while not self._stopped and time.monotonic() < late_s:
            if any(host.ready for host in self._hosts):
                if all(host.ready for host in self._hosts if host.state.is_here):
                    return
                if not is_begun:
                    is_begun, late_s = True, time.monotonic() + self._cycle_s / 2 + _SLACK_S
            self._condition.wait(0.1)
