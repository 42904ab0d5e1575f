"""Records what a live view shows, from the moment asked for until the moment it is not."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from ioh.model.errors import IohError
from ioh.model.sample import Sample
from ioh.session.rotation import Recorder
from ioh.session.writer import SessionWriter


class SampleTee:
    """Samples of a source, passed on unchanged; while recording, a sink gets each of them too.

    A sink that fails is closed and dropped, and the view goes on: ``failure`` says why.  start()
    and stop() may be called from another thread, such as a screen's.

    Args:
        samples: The source.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples
        self._sink: Recorder | SessionWriter | None = None
        self._lock = threading.Lock()
        self._last: Sample | None = None
        self.failure = ""

    @property
    def is_recording(self) -> bool:
        """Whether a sink is being fed."""
        return self._sink is not None

    def start(self, sink: Recorder | SessionWriter) -> None:
        """Feed a sink from now on; the last sample goes first, as the baseline of the next."""
        with self._lock:
            self._close()
            self.failure = ""
            self._sink = sink
            if self._last is not None:
                self._feed(self._last)

    def stop(self) -> None:
        """End the recording in order; nothing happens where none is under way."""
        with self._lock:
            self._close()

    def __iter__(self) -> Iterator[Sample]:
        """Yield every sample of the source; the recording ends with it."""
        try:
            for sample in self._samples:
                with self._lock:
                    self._last = sample
                    self._feed(sample)
                yield sample
        finally:
            self.stop()

    def _feed(self, sample: Sample) -> None:
        if self._sink is None:
            return
        try:
            self._sink.write(sample)
        except (OSError, ValueError, IohError) as error:
            self._fail(error)

    def _close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is None:
            return
        try:
            sink.close()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError | ValueError | IohError) -> None:
        reason = error.strerror if isinstance(error, OSError) else getattr(error, "cause", None)
        self.failure = self.failure or reason or str(error)  # not what follows from the first
        self._close()
