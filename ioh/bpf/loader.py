"""The privileged part of ioh: it attaches layers and passes their descriptors on; nothing else.

It is forked from ioh before any library is imported, and keeps root.  ioh drops root and reads
untrusted data.  It can make four requests:

attach LAYER
    Attach a layer, with the filters from when the loader was forked.  One copy of a layer at a
    time: a second request waits until the kernel has freed the earlier one's maps.
attach_on_demand LAYER
    Attach the on-demand part of a layer attached here (e.g. once a kernel module is loaded).
    One at a time.
attach_server LAYER PID
    Attach the layer's program to the probe points of the program that a process runs, if it is a
    server known when the loader was forked.  The loader reads the file: someone who controls ioh
    can choose neither the file nor a place in it.
stats
    Return a descriptor that makes the kernel count BPF run time.

The loader takes no descriptor from ioh and keeps none, so the probes end with ioh in any case.  It
has only its channel open, and no other process of the same user can inspect it.

Each attach runs in a separate child, which imports bcc (and 100 MB of LLVM) unless the probe is
cached.  ioh gets an answer however a child ends; every wait has a time limit.
"""

from __future__ import annotations

import gc
import json
import os
import re
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ioh.bpf.calls import KernelObjects, Object, Outcome, count_run_time, is_gone
from ioh.bpf.channel import MAX_MESSAGE_BYTES, Answer, Loader, close_all, receive
from ioh.bpf.server_ledger import ServerLedger
from ioh.bpf.trap_cost import TrapCost
from ioh.model.limits import lack_behind
from ioh.model.printable import printable
from ioh.rights.process import die_with, hide_process

if TYPE_CHECKING:
    from ioh.bpf.probe import Probe
    from ioh.model.filters import Filters

    FindProbe = Callable[[str], Probe]

MAX_CHILDREN = 2
_MAX_WAITING = 16
_MAX_REQUEST_BYTES = 4096
_CHILD_TIMEOUT_S = 600.0  # under emulation on a busy machine a probe takes minutes
_SEND_TIMEOUT_S = 5.0
_GONE_TIMEOUT_S = 5.0
_GONE_CHECK_S = 0.05
# ioh handles the signals that a terminal or service manager sends to the whole group.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGTSTP)
_TAIL_BYTES = 65536
_LINE_CHARS = 200
_REASON_CHARS = 300
# Lines of the verifier, clang and LLVM's crash handler that never name the cause.
_UNINFORMATIVE = re.compile(
    r"processed \d+ insns|\d+ (errors?|warnings?)( and \d+ errors?)? generated"
    r"|PLEASE submit|Stack dump|#\d+ |\d+\.\t|\S+\(\S*\+0x"
)
_REPORT = "please report this"
_COMPILING = b'{"compiling": true}'  # from a child, before its answer
_SEE_DMESG = "dmesg shows whether memory ran out"


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A request: verb and layer; with attach_server also the process id."""

    verb: str
    layer: str
    pid: int = 0

    @property
    def named(self) -> dict[str, Any]:
        """The request as part of its answer."""
        found = {"verb": self.verb, "layer": self.layer}
        return found | {"pid": self.pid} if self.verb == "attach_server" else found

    def refusal(self, reason: str, hint: str) -> dict[str, Any]:
        """The answer that refuses it."""
        return self.named | {"reason": reason, "hint": hint}


@dataclass(frozen=True, slots=True)
class _Child:
    """A process that serves a request."""

    asked: ProbeRequest
    pid: int
    end: socket.socket
    stderr: int
    deadline: float


def start_loader(find_probe: FindProbe, filters: Filters) -> Loader:
    """Fork the privileged child; call it before importing anything large.

    Args:
        find_probe: Returns the probe of a layer; called only in the compiling child.
        filters: The filters of all probes, fixed from now on.

    Raises:
        OSError: Out of processes or descriptors.
    """
    ours, theirs = _socket_pair()
    with theirs:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            raise
        if pid == 0:
            try:
                _confine(theirs.fileno(), parent)
                _Monitor(theirs, find_probe, filters).serve()
            finally:
                os._exit(0)
        return Loader(ours, pid)


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_MESSAGE_BYTES)
    return pair


def _confine(channel: int, parent: int) -> None:
    """Keep only the channel open, allow no inspection, and end with ioh."""
    # In case it is stopped and does not see the channel close; after ioh has changed its user, the
    # loader ends when it continues.
    die_with(parent)
    hide_process()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    gc.freeze()  # never collect ioh's objects: they would close reused descriptor numbers
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    _close_all_but(channel)


def _close_all_but(kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (no path objects in here)
        if int(name) not in {0, 1, 2, kept}:
            try:
                os.close(int(name))
            except OSError:  # the descriptor of listdir itself
                continue


@dataclass(slots=True)
class _Monitor:
    """The loader's state and main loop.

    A request is first in ``waiting``, with the time limit for an earlier copy to go.  Then it is in
    ``children`` (by their socket's descriptor).  If it succeeds, it is in ``made``.
    """

    channel: socket.socket
    find_probe: FindProbe
    filters: Filters
    waiting: dict[ProbeRequest, float] = field(default_factory=dict)
    children: dict[int, _Child] = field(default_factory=dict)
    made: dict[ProbeRequest, KernelObjects] = field(default_factory=dict)
    servers: ServerLedger = field(default_factory=ServerLedger)

    def serve(self) -> None:
        """Serve requests until ioh is gone."""
        self.channel.settimeout(_SEND_TIMEOUT_S)
        while True:
            ready = self._ready()
            for fd, child in tuple(self.children.items()):
                if fd in ready or time.monotonic() >= child.deadline:
                    del self.children[fd]
                    self._hear(child, has_news=fd in ready)
            if self.channel.fileno() in ready and not self._take_request():
                return
            self._start_waiting()

    def _ready(self) -> set[int]:
        """Wait for readable descriptors, at most until the next deadline."""
        due = [child.deadline for child in self.children.values()]
        if self.waiting and len(self.children) < MAX_CHILDREN:
            due.append(time.monotonic() + _GONE_CHECK_S)
        poll = select.poll()
        for fd in (self.channel.fileno(), *self.children):
            poll.register(fd, select.POLLIN)
        timeout_ms = max(0.0, min(due) - time.monotonic()) * 1000 if due else None
        return {fd for fd, _ in poll.poll(timeout_ms)}

    def _take_request(self) -> bool:
        """Take one request; False if ioh is gone.  Drops descriptors sent with it."""
        data = self.channel.recv(_MAX_REQUEST_BYTES)
        if not data:
            return False
        try:
            request = json.loads(data)
            verb, layer = str(request["verb"]), str(request.get("layer", ""))
            pid = int(request.get("pid", 0)) if verb == "attach_server" else 0
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            verb, layer, pid = "", "", 0
        if verb == "stats":
            self._send_stats()
        elif refusal := self._admit(ProbeRequest(verb, layer, pid)):
            self._send({"error": refusal})
        return True

    def _admit(self, asked: ProbeRequest) -> str:
        """Queue a request; return "", or why it is refused."""
        if asked.verb not in {"attach", "attach_on_demand", "attach_server"}:
            return "unknown verb"
        if asked.pid < 0:
            return "there is no such process"
        if asked in self.waiting or asked in (child.asked for child in self.children.values()):
            return "already requested"
        if asked.verb != "attach" and not self._demand_of(asked.layer):
            return "the layer is not attached, or has no such part"
        if len(self.waiting) >= _MAX_WAITING:
            return "too many requests"
        self.waiting[asked] = time.monotonic() + _GONE_TIMEOUT_S
        return ""

    def _demand_of(self, layer: str) -> tuple[Object, ...]:
        return self.made.get(ProbeRequest("attach", layer), KernelObjects()).on_demand

    def _send_stats(self) -> None:
        try:
            fds = [count_run_time()]
        except OSError:
            fds = []
        self._send({"verb": "stats"}, fds)

    def _start_waiting(self) -> None:
        for asked, deadline in tuple(self.waiting.items()):
            if len(self.children) >= MAX_CHILDREN:
                return
            verbs = {child.asked.verb for child in self.children.values()}
            if asked.verb == "attach_server" and asked.verb in verbs:
                continue  # it may concern the same file
            if not all(is_gone(made) for made in self.made.get(asked, KernelObjects()).live):
                if time.monotonic() >= deadline:
                    del self.waiting[asked]
                    self._send(asked.refusal("it is already attached", _REPORT))
                continue
            del self.waiting[asked]
            self.made.pop(asked, None)
            try:
                self._start(asked)
            except OSError as error:
                reason, hint = lack_behind(error, of_fork=True) or (error.strerror, _REPORT)
                self._send(asked.refusal(f"its compiler cannot be started: {reason}", hint))

    def _start(self, asked: ProbeRequest) -> None:
        """Fork the child that attaches; its stderr is a file, to read after it has ended."""
        ours, theirs = _socket_pair()
        stderr = pid = -1
        try:
            stderr, parent = os.memfd_create("stderr"), os.getpid()
            pid = os.fork()
            if pid == 0:
                self._work(asked, theirs, stderr, parent)
        finally:
            theirs.close()
            if pid < 0:
                ours.close()
                close_all([stderr] if stderr >= 0 else [])
        deadline = time.monotonic() + _CHILD_TIMEOUT_S
        self.children[ours.fileno()] = _Child(asked, pid, ours, stderr, deadline)

    def _work(self, asked: ProbeRequest, end: socket.socket, stderr: int, parent: int) -> None:
        """In the child: attach, answer, exit."""
        status = 1
        try:
            os.dup2(stderr, 2)
            die_with(parent)
            _close_all_but(end.fileno())
            answer, fds, made = self._attach(asked, end)
            message = {"answer": answer, "made": made}
            socket.send_fds(end, [json.dumps(message).encode()], fds)
            status = 0
        except BaseException as error:  # noqa: BLE001 (the loader reads and reports it)
            lack = lack_behind(error)
            cause = lack.cause if lack else f"{type(error).__name__}: {error}"
            os.write(2, f"\n{cause}\n".encode(errors="replace"))
        finally:
            os._exit(status)

    def _attach(self, asked: ProbeRequest, end: socket.socket) -> Outcome:
        # Imports only in the child: the loader itself stays small.
        if asked.verb == "attach_on_demand":
            from ioh.bpf.program import attach_on_demand_part

            return attach_on_demand_part(self.find_probe(asked.layer), self._demand_of(asked.layer))
        if asked.verb == "attach_server":
            from ioh.bpf.server_probes import attach_server

            objects, request = self._demand_of(asked.layer), self.servers.request(asked.pid)
            return attach_server(self.find_probe(asked.layer), objects, request)
        from ioh.bpf.program import attach_layer

        handed_on = {a.layer: made.handed_on for a, made in self.made.items() if made.handed_on}
        return attach_layer(
            self.find_probe(asked.layer), self.filters, handed_on, lambda: end.send(_COMPILING)
        )

    def _hear(self, child: _Child, *, has_news: bool) -> None:
        """Pass on what a child reports: that it compiles, its answer, or how it ended."""
        got: Answer | None = None
        if has_news:
            with suppress(OSError, ValueError):
                got = receive(child.end)
        if got and got[0].get("compiling"):
            self.children[child.end.fileno()] = child
            self._send(child.asked.named | got[0])
            return
        # It has answered; if it has already ended, its status does not change.
        os.kill(child.pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        child.end.close()
        last = last_informative_line(child.stderr)
        os.close(child.stderr)
        hint = _SEE_DMESG if status == -signal.SIGKILL and has_news else _REPORT
        ended: dict[str, Any] = {"reason": how_it_ended(status if has_news else None), "hint": hint}
        message, fds = got or (ended, [])
        if "answer" in message:
            made = KernelObjects(*(tuple(map(tuple, objects)) for objects in message["made"]))
            answer = child.asked.named | message["answer"]
            if child.asked.verb == "attach_server":
                self.servers.note(answer["link_sites"], answer["link_ops"], made.live)
            else:
                self.made[child.asked] = made
                if child.asked.verb == "attach" and made.on_demand:
                    self.servers = ServerLedger(trap=TrapCost(*answer.pop("trap_ns", ())))
        else:
            answer = child.asked.refusal(message["reason"], message["hint"])
        if answer.get("reason"):
            reason = printable(answer["reason"], _REASON_CHARS)
            answer["reason"] = reason if last in reason else f"{reason}: {last}"
        self._send(answer, fds)

    def _send(self, answer: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send an answer to ioh and close the descriptors, even if ioh does not receive it."""
        try:
            socket.send_fds(self.channel, [json.dumps(answer).encode()], fds)
        except (TimeoutError, ConnectionError):
            return
        except OSError as error:
            if fds:
                asked = ProbeRequest(answer["verb"], answer.get("layer", ""))
                reason = f"its descriptors cannot be passed: {error.strerror}"
                self._send(asked.refusal(reason, _REPORT))
        finally:
            close_all(fds)


def how_it_ended(status: int | None) -> str:
    """How a child ended without an answer; ``status`` as in subprocess, None: it did not end."""
    if status is None:
        return f"the compiler did not finish within {_CHILD_TIMEOUT_S:.0f} s"
    if status >= 0:
        return f"the compiler ended with status {status}"
    known = {number.value: number.name for number in signal.Signals}
    guess = " (out of memory?)" if -status == signal.SIGKILL else ""
    return f"the compiler was killed by {known.get(-status, f'signal {-status}')}{guess}"


def last_informative_line(file: int) -> str:
    """The last line of a compiler's or verifier's output that names the error, or ""."""
    size = os.fstat(file).st_size
    text = os.pread(file, min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    lines = [printable(line.strip()) for line in text.split(b"\n")]
    informative = [line for line in lines if line and not _UNINFORMATIVE.match(line)]
    errors = [line for line in informative if re.search(r"\berror\b", line, re.IGNORECASE)]
    return (errors or informative)[-1][:_LINE_CHARS] if informative else ""
