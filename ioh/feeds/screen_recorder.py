"""The recording that a key of the screen starts and ends, beside whatever is shown."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

from ioh.feeds.sample_tee import SampleTee
from ioh.model.errors import IohError
from ioh.model.feed import RecordingState
from ioh.model.printable import printable
from ioh.rights.files import can_create_here
from ioh.session.marks import MarkServer
from ioh.session.output import FileOutput, first_free
from ioh.session.rotated_files import default_names, part_name
from ioh.session.rotation import Recorder


class ScreenRecorder:
    """Records what a tee passes on into ``ioh-HOST-DATE.ioh``; toggle() from any one thread.

    ``ioh mark`` finds it as it finds any other recording.  Nothing that fails here ends the view.

    Args:
        tee: Where the samples go by.
        on_mark: Called with each mark, from another thread.
        sample_soon: Asks for a sample to be marked; None where none comes for the asking.
    """

    def __init__(
        self,
        tee: SampleTee,
        on_mark: Callable[[str], None],
        sample_soon: Callable[[], None] | None,
    ) -> None:
        self._tee, self._on_mark, self._sample_soon = tee, on_mark, sample_soon
        self._recorder: Recorder | None = None
        self._marks: MarkServer | None = None
        self._told_path = ""
        self._since_unix_s = 0.0
        self._told = ""

    @property
    def state(self) -> RecordingState:
        """How it stands."""
        recorder = self._recorder
        if recorder is None or not self._tee.is_recording:
            return RecordingState(failure=printable(self._tee.failure))
        failure = printable(recorder.paused_why)
        path = printable(recorder.name)
        return RecordingState(path, self._since_unix_s, recorder.size_bytes, failure)

    def toggle(self, hostname: str, cycle_s: float) -> str:
        """Start a recording, or end the one under way in order.

        Args:
            hostname: For the name of the file; as it comes.
            cycle_s: The period asked for.

        Returns:
            One printable line saying what happened.
        """
        if self._tee.is_recording:
            return self._stop()
        self.close()  # of one that failed, what is left
        try:
            return self._start(_new_output(hostname), cycle_s)
        except IohError as error:
            return f"not recording: {error.cause}"
        except OSError as error:
            return f"not recording: {printable(error.strerror or str(error))}"

    def mark(self, text: str) -> str:
        """Mark this moment of the recording under way; returns what was done, printable."""
        recorder = self._recorder
        if recorder is None or not self._tee.is_recording:
            return "marked"
        try:
            recorder.mark(text)
        except (OSError, IohError) as error:
            return f"marked on the screen alone: {printable(str(error))}"
        return f"marked, also in {printable(recorder.name)}"

    def failure_line(self) -> str:
        """One line when a recording failed, stands still or goes on; "" once the user read it."""
        recorder, failure = self._recorder, self.state.failure
        if recorder is not None and recorder.name != self._told_path and not failure:
            self._told_path, self._told = recorder.name, ""
            return f"{recorder.left_why}; recording into {printable(recorder.name)}"
        if failure == self._told:
            return ""
        self._told = failure
        if not failure:
            return "recording again; see the gap" if self._tee.is_recording else ""
        if self._tee.is_recording:
            return f"recording is paused: {failure}; it resumes as soon as there is space"
        return f"recording ended: {failure}"

    def close(self) -> None:
        """End it in order, if one is under way."""
        self._tee.stop()
        if self._marks is not None:
            self._marks.close()
        self._marks = self._recorder = None

    def _start(self, made: tuple[FileOutput, str], cycle_s: float) -> str:
        output, remark = made
        path = self._told_path = output.name
        recorder = Recorder(
            lambda part: output if part == 1 else FileOutput(part_name(path, part)),
            cycle_s=cycle_s,
        )
        self._since_unix_s, self._recorder = time.time(), recorder
        self._told = ""

        def mark(text: str) -> bool:
            self._on_mark(text)
            if self._sample_soon is None:
                return recorder.mark(text)
            return recorder.mark_at_sample(text, self._sample_soon)

        self._marks = MarkServer(
            lambda: recorder.name, mark, paused_why=lambda: recorder.paused_why
        )
        self._tee.start(recorder)
        return f"recording into {printable(path)}{remark}"

    def _stop(self) -> str:
        recorder = self._recorder
        self.close()
        if self._tee.failure or recorder is None:
            return f"recording ended: {printable(self._tee.failure)}"
        return f"recorded {recorder.size_bytes:,} bytes into {printable(recorder.name)}"


def recording_folder() -> tuple[str, str]:
    """The current directory, else the temporary one; and what to say about that.

    Raises:
        OSError: There is none.
    """
    # A name that does not change with the working directory, for `ioh mark` and for people.
    if can_create_here():
        return os.getcwd(), ""  # noqa: PTH109
    return tempfile.gettempdir(), ", since the current directory cannot be written"


def _new_output(hostname: str) -> tuple[FileOutput, str]:
    """A new file, and what to say about its place.

    Raises:
        IohError: None can be made.
        OSError: There is no place.
    """
    folder, remark = recording_folder()
    names = (os.path.join(folder, name) for name in default_names(hostname, time.time()))  # noqa: PTH118
    return first_free(names, FileOutput), remark
