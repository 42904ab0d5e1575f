"""Run a live source until the time is over, a signal arrives or the reader exits."""

from __future__ import annotations

import contextlib

# Import this before ioh handles signals: msgspec does not check whether its own import of it fails,
# as when a signal interrupts it, and then crashes (seen once).
import datetime as dt  # noqa: F401
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from ioh.commands.databases import databases_from
from ioh.commands.garbage import few_collections
from ioh.commands.output import write_stdout
from ioh.commands.sample import report_nothing, why_nothing
from ioh.model.errors import ExitCode

if TYPE_CHECKING:
    from ioh.commands.arguments import IntervalOptions
    from ioh.live.first_interval import ReportFirst
    from ioh.live.source import LiveSource
    from ioh.model.pairs import Round

# Turns a round into text, or into bytes of a file.
Render = Callable[["Round"], "str | bytes"]
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WRITE_GRACE_S = 0.1


class Signalled(BaseException):
    """A signal arrived while no orderly end was possible."""


class Ending:
    """Turns SIGINT, SIGTERM and SIGHUP, or ``signals``, into an orderly end within 0.2 s.

    The handler calls ``stop`` if set.  Signalled leaves the block if it is not set, or if a write
    does not finish within _WRITE_GRACE_S of the signal (a full pipe that nobody reads).
    """

    def __init__(self, signals: tuple[signal.Signals, ...] = _ENDING) -> None:
        self._signals = signals
        self.received: int | None = None
        self.stop: Callable[[], None] | None = None
        self._is_writing = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Ending:  # noqa: PYI034 (Self came with Python 3.11)
        handlers = dict.fromkeys(self._signals, self._on_signal)
        for number, handler in {**handlers, signal.SIGALRM: self._on_alarm}.items():
            # nohup and background jobs ignore some signals on purpose.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._previous[number] = signal.signal(number, handler)
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        # Until Python 3.12 a RuntimeError hides what is raised while a class is made.
        return isinstance(error, Signalled) or isinstance(
            getattr(error, "__cause__", None), Signalled
        )

    @property
    def code(self) -> ExitCode:
        """The exit status for the signal received, if any."""
        return ExitCode.INTERRUPTED if self.received == signal.SIGINT else ExitCode.OK

    def write(self, data: str | bytes) -> None:
        """Write to stdout, but not for long after a signal; errors as for write_stdout()."""
        with self.writing():
            write_stdout(data)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Mark a write that may block forever; after a signal, Signalled leaves it soon."""
        self._is_writing = True
        try:
            yield
        finally:
            self._is_writing = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.received = number
        if self.stop is None:
            raise Signalled
        self.stop()
        signal.setitimer(signal.ITIMER_REAL, _WRITE_GRACE_S, _WRITE_GRACE_S)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._is_writing:
            raise Signalled


def live_source(
    options: IntervalOptions, preload: Callable[[], None], report_first: ReportFirst | None = None
) -> LiveSource:
    """Create the source for this machine.  IohError: something requested does not exist."""
    measure = options.measure
    filters, layers, login = measure.filters(), options.layers_here(), databases_from(measure)
    from ioh.live.source import LiveSource

    return LiveSource(
        layers,
        filters,
        options.cycle_s or 1.0,
        use_bpf=not measure.proc,
        preload=preload,
        report_first=report_first,
        login=login,
    )


def run_live(options: IntervalOptions, render: Render) -> int:
    """Measure this machine and print each interval; return the exit status.

    IohError: something requested cannot be measured.  ReaderGoneError: nobody reads stdout.
    """
    made: list[Iterator[Round]] = []

    def prepare() -> None:
        """Import the rest: after the loader is forked, before root is dropped."""
        from ioh.pipeline import alone, rounds

        engine = options.engine()
        made.append(rounds(alone(source), lambda: engine, options.run_s))

    source = live_source(options, prepare)
    with Ending() as ending, source, few_collections(is_live=True):
        ending.stop = source.stop
        source.attach()  # the first interval has every layer
        for number, each in enumerate(made[0]):
            if not number and (why := why_nothing(each.snapshot)):
                report_nothing(why)
            ending.write(render(each))
            if ending.received is not None:
                break
    return ending.code
