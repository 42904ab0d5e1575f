"""Live samples of this machine: attach the layers, then read them all once a tick.

This has two stages, so that the screen can paint before the probes are compiled.  Entering the
source requests them from the loader and drops root; attach() or the iteration waits for them.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ioh.bpf import privileges
from ioh.layers import all_layers
from ioh.layers.trap_budget import CHECK_S
from ioh.live.attaching import Attaching
from ioh.live.first_interval import JOIN_SPACING_S, FirstInterval, ReportFirst
from ioh.live.memory import give_back, give_back_large
from ioh.live.probe_cost import COST_PERIOD_S, COST_WINDOW_S, BusiestProgram
from ioh.model.closing import Closing
from ioh.model.errors import ExitCode, IohError
from ioh.model.filters import Filters
from ioh.model.limits import lack_behind
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.procfs.processes import are_pids_the_kernels
from ioh.rights.process import hide_process
from ioh.rights.user import own_rights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ioh.live.attached import AttachedLayer
    from ioh.pg.login import Login

OLDEST_KERNEL = (5, 10)
FIRST_INTERVAL_S = 0.2


class LiveSource(Closing):
    """The layers of this machine, read each ``interval_s``; a context manager and an iterator.

    Args:
        layers: Names of the layers; None for all.
        filters: Filters that the probes apply.
        interval_s: Time between two samples.  The first interval is at most FIRST_INTERVAL_S.
        use_bpf: False to read only /proc and sysfs.
        preload: Imports what the caller needs; called before root is dropped, because then a
            checkout below /root can be unreadable.
        report_first: Called with the first interval from a separate thread, while preload() is
            still running; the iteration starts with the same two samples.
        login: To a database server; without it, layers that need a login do not appear.

    Raises:
        IohError: A requested layer is unknown.
    """

    def __init__(  # noqa: PLR0913
        self,
        layers: tuple[str, ...] | None,
        filters: Filters,
        interval_s: float,
        *,
        use_bpf: bool = True,
        preload: Callable[[], None] | None = None,
        report_first: ReportFirst | None = None,
        login: Login | None = None,
    ) -> None:
        self._names = layers
        self._filters = filters
        self._interval_s = interval_s
        self._use_bpf = use_bpf
        self._preload, self._report_first, self._login = preload, report_first, login
        self._early: FirstInterval | None = None
        self._stopped = self._is_asked = self._is_rescheduled = False
        self._attaching = Attaching(filters)
        self._busiest = BusiestProgram()
        self.attached: Mapping[str, AttachedLayer] = self._attaching.attached
        self._uname = os.uname()
        self.kept = privileges.Kept.NOTHING

    def __enter__(self) -> LiveSource:  # noqa: PYI034 (Self came with Python 3.11)
        """Request the probes and drop root; does not wait for the probes.

        A thread inherits the privileges of its creator, and no other thread can drop them.  So drop
        them before creating the first thread.
        """
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def fork_loader(self) -> None:
        """Fork the loader, once, before anything large is imported: it would keep that memory."""
        with own_rights():
            self._attaching.start(self._why_no_bpf())

    def _begin(self) -> None:
        self.fork_loader()
        give_back_large()
        has_login = self._login is not None
        available = {
            n: layer for n, layer in all_layers().items() if has_login or not layer.needs_login
        }
        names = tuple(available) if self._names is None else self._names
        unknown = [name for name in names if name not in available]
        if unknown:
            cause = f'unknown layer "{unknown[0]}"'
            raise IohError(cause, f"Known layers: {', '.join(available)}.", ExitCode.USAGE)
        try:
            # In path order.
            self._attaching.begin(
                {name: layer for name, layer in available.items() if name in names}
            )
            self._import_all()
        except ImportError as error:
            if lack := lack_behind(error):
                raise lack.as_error() from error
            cause = f"a library is missing: {error}"
            raise IohError(cause, "Start ioh with ./ioh.sh, which installs it") from error
        self._attaching.request_due()
        self._drop()
        if self._attaching.has_loader:
            hide_process()  # it holds the loader's channel, and will hold maps
        if self._login is not None:
            for each in self.attached.values():
                each.layer.log_in(self._login)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Names of the layers whose probes are still being attached."""
        return self._attaching.awaited

    def attach(self) -> None:
        """Wait until every probe is attached or refused, the time limit, or stop().

        Without this, the iteration starts with the first layer; the others join one by one.
        """
        while self.awaited and not self._stopped:
            self._attaching.wait(float("inf"))

    def _why_no_bpf(self) -> str:
        if not self._use_bpf:
            return "requested with --proc"
        if not privileges.is_privileged():
            return "BPF needs root: start with sudo"
        if privileges.version(self._uname.release) < OLDEST_KERNEL:
            return "BPF needs Linux 5.10"
        return ""

    def _import_all(self) -> None:
        """While the loader compiles, import modules that can be unreadable after dropping root."""
        import ioh.bpf.totals
        import ioh.model.derive
        import ioh.procfs.host  # noqa: F401
        from ioh.procfs.mountstats import open_own

        open_own()
        if self._login is not None:
            from ioh.pg.connection import require_driver

            require_driver(self._login)
        if self._attaching.has_loader:
            from ioh.bpf.maps import preload

            preload()
        if self._preload is None:
            return
        if self._report_first is None:
            self._preload()
            return
        first = FirstInterval(self._attaching, self.read, self._interval_s, self._report_first)
        with first as self._early:
            self._preload()

    def _drop(self) -> None:
        if privileges.has_rights():
            # In a PID namespace the probes cannot filter by process id: --pid uses /proc.
            by_bpf = self._filters.pid is None or are_pids_the_kernels()
            use_bpf = by_bpf and not self._why_no_bpf()
            self.kept = privileges.needed(self._uname.release, use_bpf=use_bpf)
            privileges.drop_privileges(self.kept, network=self._login is not None)

    def close(self) -> None:
        """Detach every probe and end the loader."""
        self._attaching.close()

    def sample_soon(self) -> None:
        """Make the iteration take an extra sample now; safe to call from any thread."""
        self._is_asked = True
        self._attaching.wake()

    def set_interval(self, interval_s: float) -> None:
        """Take a sample now, then continue with another interval; safe to call from any thread."""
        self._interval_s = interval_s
        self._is_rescheduled = True
        self._attaching.wake()

    def stop(self) -> None:
        """End the iteration immediately; safe to call from a signal handler."""
        self._stopped = True
        self._attaching.wake()

    def __iter__(self) -> Iterator[Sample]:
        """Yield a baseline immediately, then one sample per tick; does not catch up late ticks.

        Each awaited layer gets its own baseline when it is attached, and its first numbers
        FIRST_INTERVAL_S later.  An extra sample does not shift the others.
        """
        samples, due = self._first_samples()
        next_cost = time.monotonic() + FIRST_INTERVAL_S
        yield from samples
        while True:
            has_joined = self._sleep_until(due)
            if self._stopped:
                return
            due = time.monotonic() if has_joined or self._is_rescheduled else due
            self._is_rescheduled = False
            is_extra, self._is_asked = time.monotonic() < due, False
            yield self.read()
            if is_extra:
                continue
            now = time.monotonic()
            if now >= next_cost and not self.awaited:
                self._measure_cost()
                for attached in self.attached.values():
                    attached.give_back()
                give_back()
                next_cost = now + COST_PERIOD_S
            due += min(FIRST_INTERVAL_S, self._interval_s) if has_joined else self._interval_s
            if due < now:
                due = now + self._interval_s

    def _first_samples(self) -> tuple[list[Sample], float]:
        """The samples that were taken early, or a baseline; and when the next one is due."""
        if self._early is not None and self._early.has_begun:
            return self._early.samples_so_far()
        count = len(self.awaited)
        while count and len(self.awaited) == count and not self._stopped:
            self._attaching.wait(float("inf"))
        began = time.monotonic()
        return [self.read()], began + min(FIRST_INTERVAL_S, self._interval_s)

    def _sleep_until(self, due: float) -> bool:
        """Sleep until a time or stop(), or less if a layer joins; return whether one has joined."""
        earliest = time.monotonic() + JOIN_SPACING_S
        has_joined = False
        while not (self._stopped or self._is_asked or self._is_rescheduled):
            if time.monotonic() >= due:
                break
            # Also within a long interval: a dear function slows down all programs that call it.
            checks = [attached.drop_overload() for attached in self.attached.values()]
            if self._attaching.wait(min(due, time.monotonic() + CHECK_S) if any(checks) else due):
                has_joined = True
                due = min(due, earliest)
        return has_joined

    def read(self) -> Sample:
        """Read every layer now."""
        from ioh.procfs.host import read_host

        self._attaching.follow_modules()
        own = sum(each.layer.own_session() for each in self.attached.values())
        for attached in self.attached.values():
            attached.layer.leave_out(own)
            attached.warm_up()
        by_name = {name: layer for name, layer in self.attached.items() if layer.is_shown()}
        time_unix_s, now_ns = time.time(), time.monotonic_ns()
        return Sample(
            time_unix_s=time_unix_s,
            mono_ns=now_ns,
            hostname=printable(self._uname.nodename),
            kernel=printable(self._uname.release),
            host=read_host(),
            self_cpu_ns_total=time.process_time_ns(),
            bpf_ns_total=self._bpf_ns_total(),
            layers={name: attached.read(now_ns) for name, attached in by_name.items()},
            specs={name: attached.spec for name, attached in by_name.items()},
        )

    @contextmanager
    def counting_run_time(self) -> Iterator[Callable[[], Mapping[str, int]]]:
        """Let the kernel count BPF run time in this block; counting always would cost too much.

        Yields a function that returns each probe's run time so far in ns; {} if it is not counted.
        """
        fd = self._attaching.stats_descriptor()

        def run_times_ns() -> Mapping[str, int]:
            if fd is None:
                return {}
            return {name: each.run_time_ns() for name, each in self.attached.items()}

        try:
            yield run_times_ns
        finally:
            if fd is not None:
                os.close(fd)

    def _measure_cost(self) -> None:
        """Measure each probe's share of a core, and of the busiest program, in a short window."""
        with self.counting_run_time() as run_times_ns:
            before, started = run_times_ns(), time.monotonic_ns()
            if not before:
                return
            self._sleep_until(time.monotonic() + COST_WINDOW_S)
            after, now = run_times_ns(), time.monotonic_ns()
        if self._is_asked:  # the window was too short
            return
        both = before.keys() & after.keys()
        # A probe may have been attached anew.
        shares = {n: max(0, after[n] - before[n]) / (now - started) for n in both}
        busiest = self._busiest.cores(sum(shares.values()), now)
        for name, share in shares.items():
            self.attached[name].cost.note(share, now, busiest)

    def _bpf_ns_total(self) -> int | None:
        """The probes' run time since the first measurement; None before."""
        now_ns = time.monotonic_ns()
        totals = [attached.cost.total_ns(now_ns) for attached in self.attached.values()]
        known = [total for total in totals if total is not None]
        return sum(known) if known else None
