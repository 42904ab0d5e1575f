"""How ``ioh mark`` reaches a running recording: a socket that only its own user may use.

The address is in Linux's abstract name space: nothing is left behind by a crash, and no directory
must exist.  Such names have no permissions, so both sides look at who is at the other end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ioh.model.errors import IohError
from ioh.rights.user import caller, is_service, service_user
from ioh.session.records import MAX_TEXT_BYTES, to_bytes

_PREFIX = "ioh-record-"
_NAME = re.compile(rf"@({_PREFIX}(\d{{1,10}})-[0-9a-f]{{16}})$")
_MAX_MESSAGE_BYTES = 8192
_TIMEOUT_S = 2.0
_CREDENTIALS = struct.Struct("3i")
_TIMEVAL = struct.Struct("@ll")


def _peer_uid(connection: socket.socket) -> int:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return int(uid)


def trusted_uids() -> frozenset[int]:
    """Root, and this process's user unless it is only the one that root became."""
    return frozenset({0} if is_service() else {0, os.geteuid()})


def recording_uids() -> frozenset[int]:
    """Who may be recording for this user; for root that is whoever ioh becomes, too."""
    uid = os.geteuid()
    if uid:
        return frozenset({0, uid})
    user = caller()
    return frozenset({0, service_user().uid, *([user.uid] if user else [])})


class MarkServer:
    """Takes marks for a recording in a thread of its own.

    ``on_mark`` gets the text in that thread, and says whether it is written already; ``has_begun``
    whether there is anything to mark yet; ``paused_why`` why nothing is written at present.
    """

    def __init__(
        self,
        name: Callable[[], str],
        on_mark: Callable[[str], bool],
        has_begun: Callable[[], bool] = lambda: True,
        paused_why: Callable[[], str] = str,
    ) -> None:
        self._name, self._on_mark = name, on_mark
        self._has_begun, self._paused_why = has_begun, paused_why
        self._trusted = trusted_uids()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Not to be guessed: nobody can take the address before us.
        self._socket.bind(f"\0{_PREFIX}{os.getpid()}-{os.urandom(8).hex()}")
        self._socket.listen(64)
        self._thread = threading.Thread(target=self._serve, name="ioh marks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more marks."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_TIMEOUT_S)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError, ValueError, RecursionError):
                if _peer_uid(connection) in self._trusted:
                    connection.settimeout(_TIMEOUT_S)
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        request = json.loads(connection.recv(_MAX_MESSAGE_BYTES))
        answer = {"file": self._name(), "ok": True, "begun": self._has_begun()}
        text = request.get("mark") if isinstance(request, dict) else None
        if isinstance(text, str) and (why := why_not(text) or _too_late(request)):
            answer.update(ok=False, why=why)
        elif isinstance(text, str):
            try:
                answer["waits"] = "" if self._on_mark(text) else self._paused_why()
            except (OSError, IohError) as error:
                cause = error.cause if isinstance(error, IohError) else error.strerror
                answer.update(ok=False, why=cause or "it cannot be written")
        connection.send(json.dumps(answer).encode())


def _too_late(request: dict[str, object]) -> str:
    """Why a mark would stand at the wrong time: its sender has given up and reported that."""
    until_mono_s = request.get("until_mono_s")
    is_late = isinstance(until_mono_s, float) and time.monotonic() > until_mono_s
    return "it comes too late" if is_late else ""


def why_not(text: str) -> str:
    """Why a text cannot be a mark; "" where it can."""
    size_bytes = len(to_bytes(text))
    if size_bytes > MAX_TEXT_BYTES:
        return f"its text has {size_bytes:,} bytes, and {MAX_TEXT_BYTES:,} is the most"
    return "" if text.strip() else "it has no text"


@dataclass(frozen=True, slots=True)
class RunningRecording:
    """A recording under way on this machine that this user may mark.

    ``has_begun``: its first sample is taken; until then there is nothing to mark.  One that is
    stopped does not answer, and ``file`` is "".
    """

    address: str
    pid: int
    file: str
    has_begun: bool
    answers: bool = True


def _ask(
    addresses: Iterable[str], request: dict[str, object], deadline: float
) -> dict[str, dict[str, object] | None]:
    """What those who listen answer to a request, all asked at once, until ``deadline``.

    None for one that does not answer in time; one that has ended is left out.
    """
    answers: dict[str, dict[str, object] | None] = {}
    asked: dict[str, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        for address in addresses:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(connection)
            # How long connect() stands in line behind others, which no timeout of Python's tells.
            wait_us = max(1, int((deadline - time.monotonic()) * 1e6))
            wait = _TIMEVAL.pack(*divmod(wait_us, 1_000_000))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
            with contextlib.suppress(OSError):
                connection.connect("\0" + address)
                if _peer_uid(connection) in recording_uids():
                    connection.send(json.dumps(request).encode())
                    asked[address] = connection
        for address, connection in asked.items():
            connection.settimeout(max(0.0, deadline - time.monotonic()))
            try:
                answer = json.loads(connection.recv(_MAX_MESSAGE_BYTES))
            except (TimeoutError, BlockingIOError):
                answers[address] = None
            except (OSError, ValueError, RecursionError):
                continue
            else:
                if isinstance(answer, dict):
                    answers[address] = answer
    return answers


def running_recordings(deadline: float | None = None) -> list[RunningRecording]:
    """Every recording that this user may mark; ``deadline`` on the monotonic clock, for answers."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        pids = {match[1]: int(match[2]) for line in file if (match := _NAME.search(line.strip()))}
    found = []
    for address, answer in _ask(sorted(pids), {}, deadline or _soon()).items():
        name = "" if answer is None else str(answer.get("file", ""))
        has_begun = answer is not None and answer.get("begun") is True
        found.append(RunningRecording(address, pids[address], name, has_begun, answer is not None))
    return found


def send_mark(
    recording: RunningRecording, text: str, deadline: float | None = None
) -> tuple[str, str]:
    """Mark a recording; ``deadline`` on the monotonic clock, for its answer.

    Returns why it is not done, "" where it is; and why it is not written yet, "" where it is.
    """
    deadline = deadline or _soon()
    request = {"mark": text, "until_mono_s": deadline}
    answers = _ask([recording.address], request, deadline)
    if recording.address not in answers:
        return "the recording has ended", ""
    answer = answers[recording.address]
    if answer is None:
        return "it does not answer", ""
    why = "" if answer.get("ok") is True else str(answer.get("why", "it was refused"))
    return why, str(answer.get("waits", ""))


def _soon() -> float:
    return time.monotonic() + _TIMEOUT_S
