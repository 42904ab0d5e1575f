"""The recording that a key of the screen starts and ends, beside whatever is shown."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

from ioh.model.errors import IohError
from ioh.model.feed import RecordingState
from ioh.model.printable import printable
from ioh.session.filename import default_name, part_name
from ioh.session.marks import MarkServer
from ioh.session.output import FileOutput
from ioh.session.rotation import Recorder
from ioh.sources.tap import Tap

_TRIES = 9  # names of one second


class SideRecording:
    """Records what a tap passes on into ``ioh-HOST-DATE.ioh``; toggle() from any one thread.

    ``ioh mark`` finds it as it finds any other recording.  Nothing that fails here ends the view.

    Args:
        tap: Where the samples go by.
        on_mark: Told of each mark, from another thread.
        sample_soon: Asks for a sample to be marked; None where none comes for the asking.
    """

    def __init__(
        self,
        tap: Tap,
        on_mark: Callable[[str], None],
        sample_soon: Callable[[], None] | None,
    ) -> None:
        self._tap, self._on_mark, self._sample_soon = tap, on_mark, sample_soon
        self._recorder: Recorder | None = None
        self._marks: MarkServer | None = None
        self._path = ""
        self._since_unix_s = 0.0
        self._told = ""

    @property
    def state(self) -> RecordingState:
        """How it stands."""
        recorder = self._recorder
        if recorder is None or not self._tap.is_recording:
            return RecordingState(failure=printable(self._tap.failure))
        failure = printable(recorder.paused_why)
        path = printable(self._path)
        return RecordingState(path, self._since_unix_s, recorder.size_bytes, failure)

    def toggle(self, hostname: str, cycle_s: float) -> str:
        """Start a recording, or end the one under way in order.

        Args:
            hostname: For the name of the file; as it comes.
            cycle_s: The period asked for.

        Returns:
            One printable line saying what happened.
        """
        if self._tap.is_recording:
            return self._stop()
        self.close()  # of one that failed, what is left
        try:
            return self._start(_new_output(hostname), cycle_s)
        except IohError as error:
            return f"not recording: {error.cause}"
        except OSError as error:
            return f"not recording: {printable(error.strerror or str(error))}"

    def failure_line(self) -> str:
        """One line when a recording has failed, stands still or goes on; "" where that is told."""
        failure = self.state.failure
        if failure == self._told:
            return ""
        self._told = failure
        if not failure:
            return "recording again; see the gap" if self._tap.is_recording else ""
        if self._tap.is_recording:
            return f"recording stands still: {failure}; goes on as soon as there is room"
        return f"recording ended: {failure}; what was written before is whole"

    def close(self) -> None:
        """End it in order, if one is under way."""
        self._tap.stop()
        if self._marks is not None:
            self._marks.close()
        self._marks = self._recorder = None

    def _start(self, made: tuple[FileOutput, str], cycle_s: float) -> str:
        output, remark = made
        # A name that does not change with the working directory, for `ioh mark` and for people.
        path = self._path = os.path.abspath(output.name)  # noqa: PTH100
        recorder = Recorder(lambda _: output, cycle_s=cycle_s)
        self._since_unix_s, self._recorder = time.time(), recorder
        self._told = ""

        def mark(text: str) -> bool:
            self._on_mark(text)
            if self._sample_soon is None:
                return recorder.mark(text)
            return recorder.mark_at_sample(text, self._sample_soon)

        self._marks = MarkServer(lambda: path, mark)
        self._tap.start(recorder)
        return f"recording into {printable(path)}{remark}"

    def _stop(self) -> str:
        recorder = self._recorder
        self.close()
        size_bytes = recorder.size_bytes if recorder is not None else 0
        if self._tap.failure:
            return f"recording ended: {printable(self._tap.failure)}"
        return f"recorded {size_bytes:,} bytes into {printable(self._path)}"


def _new_output(hostname: str) -> tuple[FileOutput, str]:
    """A new file here, else in the temporary directory; and what to say about that.

    Raises:
        IohError: Neither is possible.
    """
    name, remark = default_name(hostname, time.time()), ""
    if not os.access(".", os.W_OK | os.X_OK):
        name = os.path.join(tempfile.gettempdir(), name)  # noqa: PTH118
        remark = ", since the current directory cannot be written"
    # Two within a second, or somebody else's.
    names = [name, *(part_name(name, number) for number in range(2, _TRIES))]
    return FileOutput(next((n for n in names if not os.path.lexists(n)), name)), remark
