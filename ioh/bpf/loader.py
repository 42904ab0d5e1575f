"""The privileged part of ioh: attach layer X, hand over its descriptors, nothing else.

It is forked from ioh before any library is imported, keeps root, and knows three verbs,
``attach``, ``attach_late`` and ``stats``.  Each attach runs in a child of its own that imports
bcc (and with it the 100 MB of LLVM) where the probe is not kept from before, sends the
descriptors and exits.  No descriptor stays here:
what ioh holds is all there is, so the probes go with ioh, whatever ends it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ioh.layers.base import Layer

    FindLayer = Callable[[str], type[Layer]]

MAX_MESSAGE_BYTES = 1 << 20
MAX_FDS = 250  # SCM_MAX_FD is 253
_PR_SET_PDEATHSIG = 1
_BPF_STATS_RUN_TIME = 0
_TAIL_BYTES = 65536
_LINE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Loader:
    """The parent's end: the socket to the privileged child, and its process id."""

    socket: socket.socket
    pid: int

    def request(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one request; answers come in any order, each with its layer's name."""
        socket.send_fds(self.socket, [json.dumps(message).encode()], list(fds))

    def answer(self, timeout_s: float | None) -> tuple[dict[str, Any], list[int]] | None:
        """Wait for one answer and its descriptors.

        Returns:
            None when nothing came within ``timeout_s``.

        Raises:
            ConnectionError: The loader is gone.
        """
        self.socket.settimeout(timeout_s)
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, MAX_MESSAGE_BYTES, MAX_FDS)
        except (TimeoutError, BlockingIOError):
            return None
        if not data:
            msg = "the privileged loader has ended"
            raise ConnectionError(msg)
        for fd in fds:
            os.set_inheritable(fd, False)  # noqa: FBT003 (positional in os)
        return json.loads(data), list(fds)

    def ask(
        self,
        message: dict[str, Any],
        timeout_s: float,
        others: Callable[[dict[str, Any], list[int]], None],
    ) -> tuple[dict[str, Any], list[int]] | None:
        """Send one request and wait for its answer; ``others`` takes answers to other requests.

        Returns:
            None when no answer came within ``timeout_s``.

        Raises:
            ConnectionError: The loader is gone.
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
        """End the loader and wait for it."""
        self.socket.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:  # reaped by somebody else
            return


def start_loader(find_layer: FindLayer) -> Loader:
    """Fork the privileged child; call it before importing anything large.

    Args:
        find_layer: The layer class of a name, or None; called in the compiling child only.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_MESSAGE_BYTES)
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            _serve(theirs, find_layer)
        finally:
            os._exit(0)
    theirs.close()
    return Loader(ours, pid)


def _serve(channel: socket.socket, find_layer: FindLayer) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    while True:
        message, fds, _, _ = socket.recv_fds(channel, MAX_MESSAGE_BYTES, MAX_FDS)
        if not message:
            return
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                answer, own = _answer(json.loads(message), find_layer, fds)
                socket.send_fds(channel, [json.dumps(answer).encode()], own)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


def _answer(
    request: dict[str, Any], find_layer: FindLayer, fds: Sequence[int] = ()
) -> tuple[dict[str, Any], list[int]]:
    if request.get("verb") == "attach":
        return _attach(str(request["layer"]), request["filters"], find_layer)
    if request.get("verb") == "attach_late":
        return _attach_late(str(request["layer"]), fds, find_layer)
    if request.get("verb") == "stats":
        return _enable_stats()
    return {"error": "unknown verb"}, []


def _enable_stats() -> tuple[dict[str, Any], list[int]]:
    """A descriptor that makes the kernel count BPF run time for as long as it is open."""
    from ioh.bpf.libbpf import libbpf

    lib = libbpf()
    enable = getattr(lib, "bpf_enable_stats", None)  # libbpf 0.0.9
    fd = enable(_BPF_STATS_RUN_TIME) if enable is not None else -1
    return {"verb": "stats"}, [fd] if fd >= 0 else []


def _attach(
    name: str, filters: dict[str, Any], find_layer: FindLayer
) -> tuple[dict[str, Any], list[int]]:
    # All of this only in the compiling child: the loader itself stays small.
    from ioh.bpf.btf import Btf
    from ioh.bpf.host import HostFacts
    from ioh.bpf.program import attach_program
    from ioh.bpf.typed import can_trust_pointers
    from ioh.model.filters import Filters
    from ioh.model.sample import Unavailable

    started = time.monotonic()
    answer: dict[str, Any] = {"verb": "attach", "layer": name}
    with captured_stderr() as told:
        try:
            layer = find_layer(name)
            btf = Btf(layer.modules, layer.welcome_modules)
            host = HostFacts(btf, trusted_loads=can_trust_pointers(btf))
            attached = attach_program(layer, host, Filters(**filters))
        except OSError as error:
            attached = Unavailable(
                str(error), "needs a kernel with CONFIG_DEBUG_INFO_BTF, and libbpf"
            )
        except Exception as error:  # noqa: BLE001 (ioh waits for an answer, whatever it is)
            attached = Unavailable(f"{type(error).__name__}: {error}", "please report this")
        last = told() if isinstance(attached, Unavailable) else ""
    if isinstance(attached, Unavailable):
        reason = attached.reason
        if last:
            reason = f"{reason} ({last})"
        return {**answer, "reason": reason, "hint": attached.hint}, []
    answer |= {
        "maps": [asdict(spec) for spec in attached.maps],
        "programs": len(attached.program_fds),
        "late": attached.late,
        "copies": attached.copies,
        "points": dict(attached.points),
        "missing": dict(attached.missing),
        "seconds": round(time.monotonic() - started, 3),
    }
    return answer, [*attached.map_fds, *attached.program_fds, *attached.link_fds]


def _attach_late(
    name: str, fds: Sequence[int], find_layer: FindLayer
) -> tuple[dict[str, Any], list[int]]:
    from ioh.bpf.late import attach_late

    answer = {"verb": "attach_late", "layer": name, "reason": ""}
    late = find_layer(name).late
    if late is None:
        return {**answer, "reason": "the layer has no such part"}, []
    with captured_stderr():
        try:
            return answer, attach_late(late, fds)
        except OSError as error:
            return {**answer, "reason": error.strerror or str(error)}, []


@contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """Keep what C libraries print to descriptor 2 (compiler, verifier) off the terminal.

    Yields:
        A function that returns the last telling line printed so far.
    """
    saved = os.dup(2)
    file = os.memfd_create("stderr")
    os.dup2(file, 2)

    def last_line() -> str:
        size = os.fstat(file).st_size
        text = os.pread(file, min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
        lines = [line.strip() for line in text.decode(errors="replace").splitlines()]
        telling = [line for line in lines if line and not line.startswith("processed ")]
        return telling[-1][:_LINE_CHARS] if telling else ""

    try:
        yield last_line
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(file)
