"""The socket by which ``ioh mark`` reaches a running recording of the same user.

Its address is in Linux's abstract namespace: a crash leaves nothing behind, and no directory is
needed.  Such addresses have no permissions, so both sides check the peer's user.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
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
_MOST_SOCKETS = 500  # asked of those that name one process
_QUEUE_S = 0.01  # until a full queue is tried again
PRIVATE = "IOH_BENCH"  # a bench sets it for its own recording
# How long a bench's mark waits for its sample: a machine whose CPUs are full takes seconds, and
# between two samples the mark would cut off what fio did last.
PRIVATE_WAIT_S = 30.0


def _peer_uid(connection: socket.socket) -> int:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return int(uid)


def trusted_uids() -> frozenset[int]:
    """Root, and this process's user unless root switched to it."""
    return frozenset({0} if is_service() else {0, os.geteuid()})


def recording_uids() -> frozenset[int]:
    """The users whose recordings this user may mark; for root also those ioh switches to."""
    uid = os.geteuid()
    if uid:
        return frozenset({0, uid})
    user = caller()
    return frozenset({0, service_user().uid, *([user.uid] if user else [])})


class MarkServer:
    """Accepts marks for a recording in its own thread.

    ``on_mark`` gets the text in that thread, and returns whether it is written; ``has_begun``
    returns whether a sample was recorded; ``paused_why`` why nothing is written at present.
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
        # Random: nobody can guess the address and take it first.
        self._socket.bind(f"\0{_PREFIX}{os.getpid()}-{os.urandom(8).hex()}")
        self._socket.listen(64)
        self._thread = threading.Thread(target=self._serve, name="ioh marks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting marks."""
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
        answer |= {"paused": self._paused_why(), "private": PRIVATE in os.environ}
        text = request.get("mark") if isinstance(request, dict) else None
        if isinstance(text, str) and (why := why_not(text) or _too_late(request)):
            answer.update(ok=False, why=why)
        elif isinstance(text, str):
            try:
                answer["waits"] = "" if self._on_mark(text) else self._paused_why()
            except (OSError, IohError) as error:
                cause = error.cause if isinstance(error, IohError) else error.strerror
                answer.update(ok=False, why=cause or "the mark cannot be written")
        connection.send(json.dumps(answer).encode())


def _too_late(request: dict[str, object]) -> str:
    """Why to refuse a mark whose sender has given up: it would be at the wrong time."""
    until_mono_s = request.get("until_mono_s")
    is_late = isinstance(until_mono_s, float) and time.monotonic() > until_mono_s
    return "it came too late" if is_late else ""


def why_not(text: str) -> str:
    """Why a text cannot be a mark; "" if it can."""
    size_bytes = len(to_bytes(text))
    if size_bytes > MAX_TEXT_BYTES:
        return f"its text has {size_bytes:,} bytes; the limit is {MAX_TEXT_BYTES:,}"
    return "" if text.strip() else "its text is empty"


@dataclass(frozen=True, slots=True)
class RunningRecording:
    """A running recording on this machine that this user may mark.

    ``has_begun``: it has a sample; before that there is nothing to mark.  A stopped process does
    not answer.  ``file`` is "" then, or if it records into a pipe.  ``paused_why``: why it writes
    nothing at present.  ``is_private``: it is a bench's, which marks its own tests.
    """

    address: str
    pid: int
    file: str
    has_begun: bool
    answers: bool = True
    paused_why: str = ""
    is_private: bool = False


def _ask(
    addresses: Iterable[str], request: dict[str, object], deadline: float
) -> dict[str, dict[str, object] | None]:
    """Send a request to all addresses at the same time, and collect the answers by ``deadline``.

    None means no answer in time; recordings that have ended are left out, and, while another one
    can be asked, those whose queue is full.
    """
    answers: dict[str, dict[str, object] | None] = {}
    connections: dict[str, socket.socket] = {}
    waiting, data, trusted = list(addresses), json.dumps(request).encode(), recording_uids()
    while waiting and not connections and time.monotonic() < deadline:
        full = [address for address in waiting if not _send(address, data, trusted, connections)]
        time.sleep(_QUEUE_S if full and not connections else 0)
        waiting = full
    for address, connection in connections.items():
        with connection:
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


def _send(
    address: str, data: bytes, trusted: frozenset[int], connections: dict[str, socket.socket]
) -> bool:
    """Send a request without waiting; False if the queue is full.  Adds who will answer."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)  # noqa: FBT003 (positional in socket)
    is_full = False
    try:
        connection.connect("\0" + address)
        if _peer_uid(connection) in trusted:
            connection.send(data)
            connections[address] = connection
    except BlockingIOError:
        is_full = True
    except OSError:  # it has ended
        pass
    if address not in connections:
        connection.close()
    return not is_full


def _user_of(pid: int) -> int | None:
    """The user of a process; /proc/PID itself belongs to root if the process hides its memory."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
        return next((int(line.split()[1]) for line in file if line.startswith(b"Uid:")), None)
    return None


def running_recordings(deadline: float | None = None) -> list[RunningRecording]:
    """Find the recordings that this user may mark; ``deadline`` is by the monotonic clock."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        pids = {match[1]: int(match[2]) for line in file if (match := _NAME.search(line.strip()))}
    # Anybody can take such an address: ask only those that may be the recording of a trusted user.
    trusted = recording_uids()
    own = {pid for pid in set(pids.values()) if _user_of(pid) in trusted}
    addresses = []
    for pid in sorted(own):  # each has one of its own; which are others' is not known
        of_it = [address for address, other in pids.items() if other == pid]
        addresses += secrets.SystemRandom().sample(of_it, min(len(of_it), _MOST_SOCKETS))
    recordings = []
    for address, answer in _ask(addresses, {}, deadline or _soon()).items():
        fields = answer or {}
        name, paused_why = str(fields.get("file", "")), str(fields.get("paused", ""))
        has_begun, is_private = fields.get("begun") is True, fields.get("private") is True
        of = address, pids[address], name, has_begun, answer is not None, paused_why, is_private
        recordings.append(RunningRecording(*of))
    return recordings


def send_mark(
    recording: RunningRecording, text: str, deadline: float | None = None
) -> tuple[str, str]:
    """Mark a recording; ``deadline`` is by the monotonic clock.

    Returns why it failed, or ""; and why the mark is not written yet, or "".
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
