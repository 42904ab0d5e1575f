"""The layers of a live run and their loader: sends requests, takes answers, follows modules.

If the loader or a compiling child ends, the awaited layers continue with /proc and show why.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ioh.bpf.channel import Loader, close_all
from ioh.bpf.loader import start_loader
from ioh.layers import find_probe
from ioh.model.limits import lack_behind
from ioh.model.waking import WakePipe

if TYPE_CHECKING:
    from ioh.layers.base import Layer
    from ioh.live.attached import AttachedLayer
    from ioh.model.filters import Filters

ATTACH_TIMEOUT_S = 20.0  # without an answer: a busy machine compiles one probe after the other
STATS_TIMEOUT_S = 1.0


class Attaching:
    """The attached layers, and those that the loader has yet to attach."""

    def __init__(self, filters: Filters) -> None:
        self._filters, self._why_proc = filters, ""
        self._is_started = False
        # Layers whose probes are not yet requested, with the layer that each joins.
        self._due: dict[str, str] = {}
        self._is_unlimited = False
        self._deadline = 0.0
        self._waking = WakePipe()
        self._owes_stats = False
        self.attached: dict[str, AttachedLayer] = {}
        self._loader: Loader | None = None

    def start(self, why_proc: str) -> None:
        """Start the loader, once, unless ``why_proc`` is given; it keeps what is imported."""
        if self._is_started:
            return
        self._is_started, self._why_proc = True, why_proc
        if why_proc:
            return
        try:
            self._loader = start_loader(find_probe, self._filters)
        except OSError as error:
            lack = lack_behind(error, of_fork=True)
            why = lack.cause if lack else error.strerror
            self._why_proc = f"the loader cannot be started: {why}"

    def begin(self, layers: Mapping[str, type[Layer]]) -> None:
        """Create these layers, in order, and request the first probes."""
        from ioh.live.attached import COMPILING, AttachedLayer

        # Called once: the loader compiles only layers with something to measure.
        names = {name for name, layer in layers.items() if layer.is_wanted()}
        # The disk first, because its numbers matter most; leave one CPU for our imports.
        probes = {name: layers[name].probe for name in reversed(tuple(layers)) if name in names}
        self._due = {name: probe.joins for name, probe in probes.items() if probe is not None}
        self.request_due(max(1, len(os.sched_getaffinity(0)) - 1))
        self._deadline = time.monotonic() + ATTACH_TIMEOUT_S
        for name, layer in layers.items():
            attached = self.attached[name] = AttachedLayer(layer(self._filters))
            attached.why_proc = (self._why_proc or COMPILING) if layer.probe else ""
            attached.is_wanted = name in names
            attached.is_awaited = name in names and bool(layer.probe) and not self._why_proc

    @property
    def awaited(self) -> tuple[str, ...]:
        """Names of the layers whose probes are still being attached."""
        return tuple(name for name, layer in self.attached.items() if layer.is_awaited)

    @property
    def has_loader(self) -> bool:
        """Whether a loader was started."""
        return self._loader is not None

    def wake(self) -> None:
        """End wait(), this one or the next; safe in a signal handler and from any thread."""
        self._waking.wake()

    def wait(self, due: float) -> bool:
        """Wait until a time, wake() or an awaited layer's answer; return whether one has come.

        Each answer requests the next probe.
        """
        before = self.awaited
        timeout_s = min(due, self._deadline if before else due) - time.monotonic()
        timeout = None if timeout_s == float("inf") else max(0.0, timeout_s)
        watched: list[int | WakePipe] = [self._waking]
        if self._loader is not None and before:
            watched.append(self._loader.socket.fileno())
        if self._waking in select.select(watched, [], [], timeout)[0]:
            self._waking.forget()
        self.take_answers()
        has_come = len(self.awaited) < len(before)
        if has_come:
            self._deadline = time.monotonic() + ATTACH_TIMEOUT_S
            self.request_due(1)
        return has_come

    def request_due(self, count: int | None = None) -> None:
        """Request the next ``count`` probes (None: all), each after the layer that it joins."""
        self._is_unlimited |= count is None
        awaited = (*self._due, *self.awaited)
        due = [name for name, joins in self._due.items() if joins not in awaited]
        for name in due[:count]:
            del self._due[name]
            self._request("attach", name)

    def _request(self, verb: str, name: str, **more: int) -> None:
        if self._loader is None or self._why_proc:
            return
        try:
            self._loader.request({"verb": verb, "layer": name, **more})
        except ConnectionError as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        """Handle the loss of the loader; attached layers continue without it."""
        from ioh.live.attached import COMPILING

        self._why_proc = f"the loader failed: {error}"
        for layer in self.attached.values():
            layer.is_awaited = False
            if layer.why_proc == COMPILING:
                layer.why_proc = self._why_proc
            if layer.on_demand.is_pending:
                layer.on_demand.refuse(self._why_proc)

    def take_answers(self) -> None:
        """Take the loader's answers; give up on layers that are overdue."""
        try:
            while self._loader is not None and (got := self._loader.answer(0.0)) is not None:
                self._take_answer(*got)
        except ConnectionError as error:
            self._lose(error)
        if time.monotonic() >= self._deadline:
            for name in self.awaited:
                self.attached[name].is_awaited = False
        if self._is_unlimited and self._due:
            self.request_due()

    def _take_answer(self, answer: dict[str, Any], fds: list[int]) -> None:
        """Pass an answer to its layer, unless the layer is no longer wanted."""
        self._owes_stats &= answer.get("verb") != "stats"
        attached = self.attached.get(answer.get("layer", ""))
        if attached is not None and answer.get("compiling"):
            attached.is_new = True
            return
        if attached is not None and answer["verb"] == "attach_on_demand":
            attached.on_demand.take(fds, answer["reason"])
        elif attached is not None and answer["verb"] == "attach_server":
            attached.servers.take(answer, fds)
        elif attached is not None and attached.is_wanted and not attached.maps:
            attached.adopt(answer, fds)
        else:
            close_all(fds)

    def follow_modules(self) -> None:
        """Attach layers that became wanted (a first mount); detach others to free their modules."""
        from ioh.live.attached import COMPILING

        for name, attached in self.attached.items():
            was_wanted = attached.is_wanted
            attached.is_wanted = attached.layer.is_wanted()
            if was_wanted and not attached.is_wanted:
                attached.restart(self._why_proc or COMPILING)
            elif attached.is_wanted and not was_wanted and attached.layer.probe:
                self._request("attach", name)
        self.take_answers()
        for name, attached in self.attached.items():
            if attached.has_on_demand and attached.on_demand.is_due():
                self._request("attach_on_demand", name)
                attached.on_demand.refuse(self._why_proc)
            for pid in attached.servers.due() if attached.maps else ():
                self._request("attach_server", name, pid=pid)

    def stats_descriptor(self) -> int | None:
        """A descriptor that makes the kernel count run time while it is open, or None.

        If the loader has not answered the last request, do not ask again: every call would wait.
        """
        if self._loader is None or self._why_proc or self._owes_stats:
            return None
        try:
            got = self._loader.ask({"verb": "stats"}, STATS_TIMEOUT_S, self._take_answer)
        except ConnectionError as error:
            self._lose(error)
            return None
        self._owes_stats = got is None
        return got[1][0] if got is not None and got[1] else None

    def close(self) -> None:
        """Detach every probe and end the loader."""
        for layer in self.attached.values():
            layer.close()
        if self._loader is not None:
            self._loader.close()
            self._loader = None
