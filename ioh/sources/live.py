"""Samples of this machine, live: attach the layers, then read them all once a tick.

In two stages, so that a screen can paint before the probes are compiled: entering the source
asks the loader for them and gives root away, attach() or the iteration waits for them.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ioh.bpf import privileges
from ioh.bpf.loader import Loader, start_loader
from ioh.layers import all_layers, find_layer
from ioh.model.closing import Closing
from ioh.model.errors import ExitCode, IohError
from ioh.model.filters import Filters
from ioh.model.printable import printable
from ioh.sources.early import FIRST_INTERVAL_S, JOIN_SPACING_S, EarlyLook, TellFirst
from ioh.sources.run_time import RunTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ioh.model.sample import Sample
    from ioh.sources.attached import AttachedLayer

ATTACH_TIMEOUT_S = 20.0
STATS_TIMEOUT_S = 1.0
COST_PERIOD_S = 10.0
COST_WINDOW_S = 0.1


class LiveSource(Closing):
    """The layers of this machine, read each ``interval_s``; a context manager and an iterator.

    Args:
        layers: Which layers, by name; None for all.
        filters: Narrowing that the probes apply.
        interval_s: Time between two samples.  The first interval is at most FIRST_INTERVAL_S, so
            that the first numbers come soon; every interval is measured, never assumed.
        use_bpf: False to read /proc and sysfs only.
        preload: Imports what the caller will need; called before root is given up, after which
            a checkout below /root can be unreadable.
        tell_first: Told the first interval while preload() is still busy, in a thread of its
            own; the iteration begins with the same two samples.

    Raises:
        IohError: An unknown layer was asked for.
    """

    def __init__(  # noqa: PLR0913
        self,
        layers: tuple[str, ...] | None,
        filters: Filters,
        interval_s: float,
        use_bpf: bool = True,  # noqa: FBT001, FBT002
        preload: Callable[[], None] | None = None,
        *,
        tell_first: TellFirst | None = None,
    ) -> None:
        self._names = layers
        self._filters = filters
        self._interval_s = interval_s
        self._use_bpf = use_bpf
        self._preload, self._tell_first = preload, tell_first
        self._early: EarlyLook | None = None
        self._due: list[str] = []  # layers whose probes are still to be asked for
        self._deadline = 0.0
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._stopped = self._is_asked = False
        self._loader: Loader | None = None
        self._uname = os.uname()
        self._run_time = RunTime()
        self._why_proc = ""
        self.attached: dict[str, AttachedLayer] = {}
        self.kept = privileges.Kept.NOTHING

    def __enter__(self) -> LiveSource:  # noqa: PYI034 (Self came with Python 3.11)
        """Ask for the probes and give root away; waits for none of them.

        Threads get the privileges of the one that starts them, and no thread can take them from
        another: give them away before the first thread is made.
        """
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        self._why_proc = self._why_no_bpf()
        if not self._why_proc:
            # Before anything large is imported: the child keeps what is loaded now for good.
            self._loader = start_loader(find_layer)
        known = all_layers()
        names = tuple(known) if self._names is None else self._names
        unknown = [name for name in names if name not in known]
        if unknown:
            cause = f"unknown layer {printable(unknown[0])!r}"
            raise IohError(cause, f"Known layers: {', '.join(known)}.", ExitCode.USAGE)
        # Asked once: the loader compiles those only that have something to measure.
        wanted = {name for name in names if known[name].is_wanted()}
        # From the disk up, since its numbers tell most; one CPU is left to our own imports.
        self._due = [name for name in reversed(names) if known[name].probe and name in wanted]
        self._request_due(max(1, len(os.sched_getaffinity(0)) - 1))
        self._deadline = time.monotonic() + ATTACH_TIMEOUT_S
        from ioh.sources.attached import COMPILING, AttachedLayer

        for name in known:  # in the order of the path
            if name in names:
                made = self.attached[name] = AttachedLayer(known[name](self._filters))
                made.why_proc = self._why_proc or COMPILING
                made.is_wanted = name in wanted
                made.is_awaited = made.is_wanted and bool(made.layer.probe and self._loader)
        self._import_all()
        self._request_due(len(self._due))
        self._drop()

    @property
    def awaited(self) -> tuple[str, ...]:
        """Names of the layers whose probes are still being compiled."""
        return tuple(name for name, layer in self.attached.items() if layer.is_awaited)

    def attach(self) -> None:
        """Wait until every probe is attached or refused, the time is over, or stop() is called.

        Without this the iteration begins with the first layer that is attached; the others
        join it one by one, unavailable before.
        """
        while self.awaited and not self._stopped:
            self._wait(self._deadline)

    def _request(self, name: str) -> None:
        if self._loader is not None:
            request = {"verb": "attach", "layer": name, "filters": asdict(self._filters)}
            self._loader.request(request)

    def _request_due(self, count: int) -> None:
        due, self._due = self._due[:count], self._due[count:]
        for name in due:
            self._request(name)

    def _why_no_bpf(self) -> str:
        if not self._use_bpf:
            return "asked for with --proc"
        if not privileges.is_privileged():
            return "BPF needs root: start with sudo"
        return ""

    def _import_all(self) -> None:
        """Import now, while the loader compiles, what may be unreadable after the drop."""
        import ioh.bpf.skips
        import ioh.model.derive
        import ioh.procfs.host  # noqa: F401

        if self._loader is not None:
            from ioh.bpf.maps import preload

            try:
                preload()
            except ImportError as error:
                cause = f"a library is missing: {error}"
                raise IohError(cause, "Start ioh with ./ioh.sh, or: pip install numpy") from error
        if self._preload is None:
            return
        if self._tell_first is None:
            self._preload()
            return
        with EarlyLook(self, self._interval_s, self._tell_first) as self._early:
            self._preload()
        self._forget_waking()

    def wait(self, due: float) -> bool:
        """As the iteration does: until a time, wake(), stop() or an awaited layer's answer."""
        has_come = self._wait(due)
        if has_come:
            self._request_due(1)
        return has_come

    def wake(self) -> None:
        """End wait(); safe to call from a signal handler and from any thread."""
        try:
            os.write(self._wake_write, b"x")
        except OSError:  # full: it is awake already
            return

    def _forget_waking(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_read, 1 << 16)
        if self._stopped:
            self.wake()

    def _wait(self, due: float) -> bool:
        """Sleep until a time, stop() or the answer of an awaited layer; whether one has come."""
        before = self.awaited
        watched: list[Any] = [self._wake_read]
        if before and self._loader is not None:
            watched.append(self._loader.socket)
        timeout_s = max(0.0, min(due, self._deadline if before else due) - time.monotonic())
        timeout = None if timeout_s == float("inf") else timeout_s
        if self._wake_read in select.select(watched, [], [], timeout)[0]:
            self._forget_waking()
        self._take_answers()
        return len(self.awaited) < len(before)

    def _take_answers(self) -> None:
        """Take what the loader has sent; layers that it owes for too long are awaited no more."""
        try:
            while self._loader is not None and (got := self._loader.answer(0.0)) is not None:
                self._take_answer(*got)
        except (ConnectionError, OSError) as error:  # what is attached goes on without it
            for name in self.awaited:
                self.attached[name].why_proc = f"the loader failed: {error}"
                self.attached[name].is_awaited = False
        if time.monotonic() >= self._deadline:
            for name in self.awaited:
                self.attached[name].is_awaited = False

    def _take_answer(self, answer: dict[str, Any], fds: list[int]) -> None:
        """Give a layer what the loader sent for it, unless it is not wanted any more."""
        attached = self.attached.get(answer.get("layer", ""))
        if attached is not None and answer["verb"] == "attach_late":
            attached.late.take(fds, answer["reason"])
            return
        if attached is not None and attached.is_wanted and not attached.maps:
            attached.adopt(answer, fds)
            return
        for fd in fds:
            os.close(fd)

    def _follow_modules(self) -> None:
        """Attach what has come (a first mount), detach what has gone, so its module can go."""
        from ioh.sources.attached import COMPILING

        for name, attached in self.attached.items():
            was_wanted = attached.is_wanted
            attached.is_wanted = attached.layer.is_wanted()
            if was_wanted and not attached.is_wanted:
                attached.restart(self._why_proc or COMPILING)
            elif attached.is_wanted and not was_wanted and attached.layer.probe:
                attached.why_proc = self._why_proc or COMPILING
                try:
                    self._request(name)
                except OSError as error:
                    attached.why_proc = f"the loader failed: {error}"
        self._take_answers()
        self._follow_late_parts()

    def _follow_late_parts(self) -> None:
        for name, attached in self.attached.items():
            if self._loader is None or not attached.late_fds or not attached.late.is_due():
                continue
            try:
                self._loader.request({"verb": "attach_late", "layer": name}, attached.late_fds)
            except OSError as error:
                attached.late.refuse(f"the loader failed: {error}")

    def _drop(self) -> None:
        if not privileges.is_privileged() or not self._use_bpf:
            return
        try:
            with open("/proc/sys/kernel/unprivileged_bpf_disabled", encoding="ascii") as file:
                disabled = file.read().strip()
        except OSError:
            disabled = None
        self.kept = privileges.map_reading_needs(self._uname.release, disabled)
        privileges.drop_privileges(self.kept)

    def close(self) -> None:
        """Detach every probe and end the loader."""
        for layer in self.attached.values():
            layer.close()
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    def sample_soon(self) -> None:
        """Let the iteration take one more sample, at once; safe to call from any thread."""
        self._is_asked = True
        self.wake()

    def stop(self) -> None:
        """End the iteration at once; safe to call from a signal handler."""
        self._stopped = True
        self.wake()

    def __iter__(self) -> Iterator[Sample]:
        """Yield a baseline at once, then one sample a tick; a late tick is not made up for.

        While layers are awaited, each that comes gets a baseline of its own, and FIRST_INTERVAL_S
        later its first numbers.  A sample that was asked for shifts none of the others.
        """
        samples, due = self._first_samples()
        next_cost = time.monotonic() + FIRST_INTERVAL_S
        yield from samples
        while True:
            has_joined = self._sleep_until(due)
            if self._stopped:
                return
            due = time.monotonic() if has_joined else due
            is_extra, self._is_asked = time.monotonic() < due, False
            yield self.read()
            if is_extra:
                continue
            now = time.monotonic()
            if now >= next_cost and not self.awaited:
                self._measure_cost()
                next_cost = now + COST_PERIOD_S
            due += min(FIRST_INTERVAL_S, self._interval_s) if has_joined else self._interval_s
            if due < now:
                due = now + self._interval_s

    def _first_samples(self) -> tuple[list[Sample], float]:
        """Those that were taken early, or a baseline; and when the next one is due."""
        if self._early is not None and self._early.has_begun:
            return self._early.samples_so_far()
        asked = len(self.awaited)
        while asked and len(self.awaited) == asked and not self._stopped:
            self._wait(self._deadline)
        began = time.monotonic()
        return [self.read()], began + min(FIRST_INTERVAL_S, self._interval_s)

    def _sleep_until(self, due: float) -> bool:
        """Sleep until a time or stop(), less when an awaited layer comes; whether one has come."""
        earliest = time.monotonic() + JOIN_SPACING_S
        has_joined = False
        while not (self._stopped or self._is_asked) and time.monotonic() < due:
            if self._wait(due):
                has_joined = True
                due = min(due, earliest)
        return has_joined

    def read(self) -> Sample:
        """Read every layer now."""
        from ioh.model.sample import Sample
        from ioh.procfs.host import read_host

        self._follow_modules()
        for attached in self.attached.values():
            attached.warm_up()
        time_unix_s, now_ns = time.time(), time.monotonic_ns()
        return Sample(
            time_unix_s=time_unix_s,
            mono_ns=now_ns,
            hostname=printable(self._uname.nodename),
            kernel=printable(self._uname.release),
            host=read_host(),
            self_cpu_ns_total=time.process_time_ns(),
            bpf_ns_total=self._run_time.total_ns(),
            layers={name: attached.read(now_ns) for name, attached in self.attached.items()},
            specs={name: attached.layer.spec for name, attached in self.attached.items()},
        )

    @contextmanager
    def counting_run_time(self) -> Iterator[Callable[[], int | None]]:
        """Let the kernel count BPF run time meanwhile: counting for good would cost too much.

        Yields:
            A function that returns the probes' run time so far in ns; None where the kernel
            does not count it (before 5.8, or without BPF).
        """
        fd = self._stats_descriptor()

        def run_time_ns() -> int | None:
            if fd is None:
                return None
            return sum(attached.run_time_ns() for attached in self.attached.values())

        try:
            yield run_time_ns
        finally:
            if fd is not None:
                os.close(fd)

    def _stats_descriptor(self) -> int | None:
        if self._loader is None:
            return None
        try:
            got = self._loader.ask({"verb": "stats"}, STATS_TIMEOUT_S, self._take_answer)
        except (ConnectionError, OSError):
            return None
        return got[1][0] if got is not None and got[1] else None

    def _measure_cost(self) -> None:
        """Learn the probes' share of a core from a short window."""
        with self.counting_run_time() as run_time_ns:
            before, started = run_time_ns(), time.monotonic_ns()
            if before is None:
                return
            self._sleep_until(time.monotonic() + COST_WINDOW_S)
            after, now = run_time_ns(), time.monotonic_ns()
        if not self._is_asked:  # else it was too short
            self._run_time.learn(((after or before) - before) / (now - started))
