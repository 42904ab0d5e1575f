"""Runs a live source into a sink until the time is over, a signal comes or the reader leaves."""

from __future__ import annotations

import argparse
import contextlib

# msgspec does not notice when its own import of this fails, as when a signal interrupts it, and
# then ends in a segmentation fault (seen once).  So it is there before ioh listens to signals.
import datetime as dt  # noqa: F401
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from ioh.commands.databases import databases_from
from ioh.commands.garbage import few_collections
from ioh.commands.options import engine_from, filters_from, layers_from
from ioh.commands.output import write_stdout
from ioh.commands.sample import SampleWantedError, tell_nothing, why_nothing
from ioh.model.errors import ExitCode, refuse_if

if TYPE_CHECKING:
    from ioh.live.first_interval import TellFirst
    from ioh.live.source import LiveSource
    from ioh.model.snapshot import Snapshot
    from ioh.pipeline import SnapshotSink

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WRITE_GRACE_S = 0.1


class Signalled(BaseException):
    """A signal came while nothing could be finished in an orderly way."""


class Ending:
    """Turns SIGINT, SIGTERM and SIGHUP, or others, into an orderly end within 0.2 s.

    ``stop`` is called from the handler once there is something to stop.  Before that, and when a
    write does not finish within _WRITE_GRACE_S of the signal (a full pipe that nobody reads),
    Signalled leaves the block.
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
            # nohup and background jobs ignore some of these on purpose.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._previous[number] = signal.signal(number, handler)
        return self

    def __exit__(self, kind: object, *_: object) -> bool:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        return kind is Signalled

    @property
    def code(self) -> ExitCode:
        """The exit status that the signal received, if any, stands for."""
        return ExitCode.INTERRUPTED if self.received == signal.SIGINT else ExitCode.OK

    def write(self, data: str | bytes) -> None:
        """Write to stdout, but not for long after a signal; raises as write_stdout() does."""
        with self.writing():
            write_stdout(data)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A write that may block for ever: Signalled leaves it soon after a signal."""
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


def refuse_span(args: argparse.Namespace) -> None:
    """Refuse, by IohError, a part of a recording: this machine has no past."""
    for name in ("begin", "end"):
        is_given = getattr(args, name, None) is not None
        refuse_if(is_given, "--from and --to are for recordings", "Give the file too")


def live_source(
    args: argparse.Namespace, preload: Callable[[], None], tell_first: TellFirst | None = None
) -> LiveSource:
    """What measures this machine as ``args`` ask.  IohError: something asked for does not exist."""
    filters, layers, login = filters_from(args), layers_from(args), databases_from(args)
    from ioh.live.source import LiveSource

    return LiveSource(
        layers,
        filters,
        args.cycle_s or 1.0,
        use_bpf=not args.proc,
        preload=preload,
        tell_first=tell_first,
        login=login,
    )


def run_live(
    args: argparse.Namespace, make_sink: Callable[[], SnapshotSink], *, asks: bool = False
) -> int:
    """Measure this machine as ``args`` ask and print every interval; returns the exit status.

    ``make_sink`` is called after the privileged loader has been started, which must come before
    anything large is imported.  Where the first interval shows nothing, a terminal is asked, with
    ``asks``, whether to show the bundled recording instead: then SampleWantedError.
    IohError: something asked for cannot be measured.  ReaderGoneError: nobody reads stdout.
    """
    refuse_span(args)
    made: list[tuple[SnapshotSink, Iterator[Snapshot]]] = []

    def prepare() -> None:
        """While ioh may still read all of itself, but after the loader was forked."""
        from ioh.pipeline import judged, snapshots, until

        engine = engine_from(args)
        made.append((make_sink(), until(judged(snapshots(source), engine), args.run_s)))

    source = live_source(args, prepare)
    with Ending() as ending, source, few_collections(is_live=True):
        ending.stop = source.stop
        sink, shown = made[0]
        source.attach()  # the first interval has every layer
        for number, snapshot in enumerate(shown):
            if not number and (why := why_nothing(snapshot)):
                ending.stop = None  # a signal shall not wait for an answer
                if tell_nothing(why, asks=asks):
                    raise SampleWantedError
                ending.stop = source.stop
            ending.write(sink.render(snapshot))
            if ending.received is not None:
                break
    return ending.code
