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
from collections.abc import Callable
from dataclasses import dataclass

_PREFIX = "ioh-record-"
_NAME = re.compile(rf"@({_PREFIX}(\d{{1,10}})-[0-9a-f]{{16}})$")
_MAX_MESSAGE_BYTES = 8192
_TIMEOUT_S = 2.0
_CREDENTIALS = struct.Struct("3i")


def _peer_uid(connection: socket.socket) -> int:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return int(uid)


def trusted_uids() -> frozenset[int]:
    """Root, this process's user, and the one who called sudo."""
    caller = os.environ.get("SUDO_UID", "")
    return frozenset({0, os.geteuid(), *([int(caller)] if caller.isdigit() else [])})


class MarkServer:
    """Takes marks for a recording in a thread of its own.

    Args:
        name: The recording, as told to those who ask.
        on_mark: Called with the text, from that thread.
        has_begun: Whether there is anything to mark yet.
    """

    def __init__(
        self,
        name: Callable[[], str],
        on_mark: Callable[[str], object],
        has_begun: Callable[[], bool] = lambda: True,
    ) -> None:
        self._name, self._on_mark, self._has_begun = name, on_mark, has_begun
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
        if isinstance(text, str):
            try:
                answer["waits"] = not self._on_mark(text)
            except OSError as error:
                answer.update(ok=False, why=error.strerror or "it cannot be written")
        connection.send(json.dumps(answer).encode())


@dataclass(frozen=True, slots=True)
class RunningRecording:
    """A recording under way on this machine that this user may mark.

    Shape:
        ``has_begun``: its first sample is taken; until then there is nothing to mark.
    """

    address: str
    pid: int
    file: str
    has_begun: bool


def _connect(connection: socket.socket, address: str) -> None:
    """Connect, waiting where others stand in line.

    Raises:
        OSError: Nobody listens, or the line does not move.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            connection.connect("\0" + address)
        except BlockingIOError:  # noqa: PERF203 (it is the loop's purpose)
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _ask(address: str, request: dict[str, str]) -> dict[str, object] | None:
    """Send a request; None where nobody, or a stranger, is there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            _connect(connection, address)
            if _peer_uid(connection) not in trusted_uids():
                return None
            connection.send(json.dumps(request).encode())
            answer = json.loads(connection.recv(_MAX_MESSAGE_BYTES))
        except (OSError, ValueError, RecursionError):
            return None
    return answer if isinstance(answer, dict) else None


def running_recordings() -> list[RunningRecording]:
    """Every recording that this user may mark."""
    found = []
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        names = {match[1]: int(match[2]) for line in file if (match := _NAME.search(line.strip()))}
    for address, pid in sorted(names.items()):
        answer = _ask(address, {})
        if answer is not None:
            name, has_begun = str(answer.get("file", "")), answer.get("begun") is True
            found.append(RunningRecording(address, pid, name, has_begun))
    return found


def send_mark(recording: RunningRecording, text: str) -> str:
    """Mark a recording.

    Returns:
        "" when it is done; else why not.
    """
    answer = _ask(recording.address, {"mark": text})
    if answer is None:
        return "the recording has ended"
    return "" if answer.get("ok") is True else str(answer.get("why", "it was refused"))
