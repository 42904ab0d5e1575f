"""Plays rounds as they come: of this machine, of several hosts, or of a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from queue import SimpleQueue

from ioh.history.memory import MemoryHistory
from ioh.model.finding import Finding, worst_first
from ioh.model.pairs import HostInterval, HostState, Round
from ioh.model.player import Mode, News, Player, RecordingState, RoundSource, TimelineEvent
from ioh.model.printable import printable
from ioh.model.snapshot import Pair, Snapshot
from ioh.pipeline import MakeJudge, no_judge, rounds
from ioh.player.recorder import ScreenRecorder

HISTORY_BYTES = 16_000_000
_STAYS = 1.5  # how many intervals a pair and another host's findings are shown


class LivePlayer(Player):
    """Plays a source of rounds, the last ``history_bytes`` of which are kept in memory.

    Closing it also ends a recording that the user started.

    Args:
        source: The rounds, iterated in run()'s thread only.
        hosts: Names of the machines, "" for a single one.
        mode: Shown in the header.
        cycle_s: The requested interval.
        title: Of what is played, printable; "" if it is live.
        make_judge: Makes the judge of a machine's intervals.
        run_s: End the screen after this time; None for never.
    """

    histories: Sequence[MemoryHistory]

    def __init__(  # noqa: PLR0913 (of what is played, and of how)
        self,
        source: RoundSource,
        *,
        hosts: Sequence[str] = ("",),
        mode: Mode = "live",
        cycle_s: float = 1.0,
        title: str = "",
        make_judge: MakeJudge = no_judge,
        run_s: float | None = None,
        history_bytes: int = HISTORY_BYTES,
    ) -> None:
        each_bytes = history_bytes // len(hosts)
        super().__init__([MemoryHistory(name, title, cycle_s, each_bytes) for name in hosts])
        self.mode = mode
        self._source, self._hosts = source, tuple(hosts)
        self._make_judge, self._run_s = make_judge, run_s
        self.recorder = ScreenRecorder(self._hosts, cycle_s, self.mark, source.sample_soon)
        # Each with the time of its round.
        self._pairs: dict[tuple[str, str], tuple[float, Pair]] = {}
        self._findings: dict[int, tuple[float, tuple[Finding, ...]]] = {}
        # Filled by stop().  An Event would deadlock in a signal handler that interrupts its set().
        self._stops = SimpleQueue[None]()

    @property
    def states(self) -> tuple[HostState, ...]:
        """Each host's present state."""
        return self._source.states

    @property
    def recording(self) -> RecordingState:
        """The state of the recording by key R."""
        return self.recorder.state

    def _report(self, report: Callable[[News], None]) -> None:
        """Read; if the rounds end by themselves, wait for stop()."""
        for host, name in enumerate(self._hosts):
            if status := "no data from this host yet" if name else self._status():
                report(News(status=status, host=host))
        try:
            for each in rounds(self._source, self._make_judge, self._run_s):
                self._take(each, report)
                if self._is_stopped:
                    break
        finally:
            self.recorder.close()
            for history in self.histories:
                history.end()
        if self._is_stopped:
            return
        if self._run_s is not None:
            self.end()
            return
        for host in range(len(self._hosts)):
            report(News(status="the end", is_over=True, host=host))
        self._stops.get()

    def _status(self) -> str:
        """The present status line, or ""."""
        return self.recorder.failure_line() or self._source.status()

    def _take(self, each: Round, report: Callable[[News], None]) -> None:
        """Keep a round, and report its intervals with what is known of all hosts."""
        news = []
        for interval in each.intervals:
            self.recorder.write(interval)
            host = self._hosts.index(interval.name)
            tick, snapshot = self.histories[host].add(interval), self._with_host(interval)
            self.histories[host].note_findings(snapshot)
            self._findings[host] = (each.time_unix_s, snapshot.findings)
            news.append((host, tick, snapshot))
        # Kept for later rounds: a late host's interval comes in the next one.
        oldest_s = each.time_unix_s - _STAYS * self.histories[0].cycle_s
        pairs = self._known_pairs(each, oldest_s)
        for host, tick, snapshot in news:
            findings = (*snapshot.findings, *self._elsewhere(host, oldest_s))
            in_order = tuple(sorted(findings, key=worst_first))
            complete = replace(snapshot, pairs=pairs, findings=in_order)
            self.histories[host].judged(tick, complete)
            status = self._status() or self._source.remark(complete)
            report(News(tick, complete, status, host=host))

    def _with_host(self, interval: HostInterval) -> Snapshot:
        """An interval whose findings name the host, if there are several."""
        if len(self._hosts) == 1:
            return interval.snapshot
        findings = (replace(finding, host=interval.name) for finding in interval.snapshot.findings)
        return replace(interval.snapshot, findings=tuple(findings))

    def _known_pairs(self, each: Round, oldest_s: float) -> tuple[Pair, ...]:
        for pair in each.pairs:
            own_pair = replace(pair, there=None)
            self._pairs[pair.client, pair.server] = (each.time_unix_s, own_pair)
        self._pairs = {key: entry for key, entry in self._pairs.items() if entry[0] >= oldest_s}
        return tuple(self._pairs[key][1] for key in sorted(self._pairs))

    def _elsewhere(self, host: int, oldest_s: float) -> Iterable[Finding]:
        """The present findings of the other hosts."""
        others = (entry for number, entry in sorted(self._findings.items()) if number != host)
        return (one for time_s, findings in others if time_s >= oldest_s for one in findings)

    def stop(self) -> None:
        """End run() soon."""
        super().stop()
        self._source.stop()
        self._stops.put(None)

    def _release(self) -> None:
        self.recorder.close()
        super()._release()

    def note(self, moment: TimelineEvent) -> None:
        """Add a mark or a gap to every machine's time line; thread-safe."""
        for history in self.histories:
            history.note(moment)

    def mark(self, text: str) -> None:
        """Add a mark now, for ``ioh mark``."""
        self.note(TimelineEvent(time.time(), printable(text)))

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Add a mark to the time line; one of now also to a running recording."""
        self.note(TimelineEvent(time_unix_s or time.time(), printable(text)))
        return self.recorder.mark(text) if time_unix_s is None else "marked"

    def toggle_recording(self) -> str:
        """Start or end a recording; return a printable line about it."""
        return self.recorder.toggle()

    def set_speed(self, speed: float) -> None:
        """Set the speed, if the source has one."""
        self._source.set_speed(speed)

    def set_cycle(self, cycle_s: float) -> bool:
        """Change the interval, if the source can; return whether it did."""
        if not self._source.set_cycle(cycle_s):
            return False
        self.learn_cycle(cycle_s)
        return True

    def learn_cycle(self, cycle_s: float) -> None:
        """Note the source's interval."""
        self.recorder.cycle_s = cycle_s
        for history in self.histories:
            history.cycle_s = cycle_s
