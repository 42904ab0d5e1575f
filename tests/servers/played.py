"""A recording played into the page of `ioh serve`, over and over: a made-up host."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ioh.findings.engine import Engine
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.pipeline import snapshots
from ioh.playback.replay import ReplaySource
from ioh.playback.time_range import Span
from ioh.serve.listening import listen
from ioh.serve.page import Page
from ioh.serve.server import Server
from ioh.session.stream import Tick

DEMO = Path(__file__).parents[2] / "ioh" / "data" / "demo.ioh"


class Recorded:
    """The samples of a recording and their findings, read once for many hosts."""

    def __init__(self, path: Path = DEMO) -> None:
        with ReplaySource(str(path), Span(None, None), speed=None) as source:
            self.samples = [item.sample for item in source if isinstance(item, Tick)]
        self.engine = Engine()
        self.found: Sequence[Snapshot] = list(snapshots(self.samples, lambda: self.engine))


class Played:
    """One host with its port; a context manager.  It begins with the sample ``first``."""

    def __init__(self, recorded: Recorded, host: str, step_s: float, first: int = 0) -> None:
        self._recorded, self._host, self._step_s, self._first = recorded, host, step_s, first
        self._page = Page(0, recorded.engine.rule_layers)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._play)

    def __enter__(self) -> Played:  # noqa: PYI034 (Self came with Python 3.11)
        listening = listen("127.0.0.1:0")
        self.target = "{}:{}".format(*listening.getsockname())
        self._publish(self._recorded.samples[self._first])
        self._server = Server(listening, self._page)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._server.server_close()

    def _publish(self, sample: Sample) -> None:
        self._page.publish(replace(sample, hostname=self._host))

    def _play(self) -> None:
        pairs = list(zip(self._recorded.samples[1:], self._recorded.found, strict=True))
        for sample, found in itertools.islice(itertools.cycle(pairs), self._first, None):
            self._publish(sample)
            self._page.judge(found)
            if self._ended.wait(self._step_s):
                return
