"""ioh's end of the channel to its privileged loader; every wait has a time limit."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from resource import RLIMIT_NOFILE
from typing import Any

from ioh.model.limits import SPARE_FDS, soft_limit, too_few_fds

MAX_MESSAGE_BYTES = 1 << 20
MAX_FDS = 250  # SCM_MAX_FD is 253
_SEND_TIMEOUT_S = 1.0
_END_TIMEOUT_S = 1.0
_END_CHECK_S = 0.005


# The loader's answer, and the descriptors that came with it.
Answer = tuple[dict[str, Any], list[int]]


def receive(end: socket.socket) -> Answer | None:
    """Receive one message with its descriptors; None if the other end is gone.

    If this process cannot hold that many descriptors plus some spare ones, it gets none of them,
    and a reason instead.
    """
    data, fds, flags, _ = socket.recv_fds(end, MAX_MESSAGE_BYTES, MAX_FDS)
    if not data:
        return None
    answer = json.loads(data)
    limit = soft_limit(RLIMIT_NOFILE)
    has_room = limit is None or not fds or max(fds) + SPARE_FDS < limit
    if flags & socket.MSG_CTRUNC or not has_room:
        close_all(fds)
        lack = too_few_fds()
        refused = {"verb": answer.get("verb"), "layer": answer.get("layer")}
        return {**refused, "reason": lack.cause, "hint": lack.hint}, []
    for fd in fds:
        os.set_inheritable(fd, False)  # noqa: FBT003 (positional in os)
    return answer, list(fds)


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Loader:
    """The socket to the privileged child, and its process id.

    Raises:
        ConnectionError: From every method except close(): the loader is gone or does not respond.
    """

    socket: socket.socket
    pid: int

    def request(self, message: dict[str, Any]) -> None:
        """Send a request; answers come in any order, each with its layer's name."""
        self.socket.settimeout(_SEND_TIMEOUT_S)
        try:
            self.socket.send(json.dumps(message).encode())
        except TimeoutError as error:
            msg = "the privileged loader does not respond"
            raise ConnectionError(msg) from error
        except OSError as error:
            raise _ended() from error

    def answer(self, timeout_s: float) -> Answer | None:
        """Wait for an answer; None if none comes within ``timeout_s``."""
        self.socket.settimeout(timeout_s)
        try:
            got = receive(self.socket)
        except (TimeoutError, BlockingIOError):
            return None
        except OSError as error:
            raise _ended() from error
        if got is None:
            raise _ended()
        return got

    def ask(
        self,
        message: dict[str, Any],
        timeout_s: float,
        others: Callable[[dict[str, Any], list[int]], None],
    ) -> Answer | None:
        """Send a request and wait for its answer; None if none comes within ``timeout_s``.

        ``others`` is called with answers to other requests.
        """
        while (late := self.answer(0.0)) is not None:
            others(*late)
        self.request(message)
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            got = self.answer(left)
            if got is not None and got[0].get("verb") == message["verb"]:
                return got
            if got is not None:
                others(*got)
        return None

    def close(self) -> None:
        """End the loader.

        A stopped loader is not waited for; it ends when it continues.
        """
        self.socket.close()
        deadline = time.monotonic() + _END_TIMEOUT_S
        try:
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
                time.sleep(_END_CHECK_S)
        except ChildProcessError:  # already reaped
            return


def _ended() -> ConnectionError:
    return ConnectionError("the privileged loader has ended")
