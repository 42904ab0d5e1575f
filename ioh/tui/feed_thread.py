"""The feed's thread, and the way from any thread into the screen's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ioh.model.feed import Feed, Hosts, News

_END_S = 2.0
T = TypeVar("T")


class FeedThread:
    """Runs a feed until it is stopped.

    Args:
        feed: Reports from its thread.
        take: Gets what it reports, in the screen's.
    """

    def __init__(self, feed: Feed | Hosts, take: Callable[[News], None]) -> None:
        self._feed, self._take = feed, take
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin, once there is a screen."""
        self._loop = loop
        self._thread.start()

    def end(self) -> None:
        """Wait for its end, after the feed was stopped."""
        if self._thread.is_alive():
            self._thread.join(_END_S)

    def call(self, function: Callable[[T], None], argument: T) -> None:
        """Call a function in the screen's thread; nothing where that has ended."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(function, argument)
            except RuntimeError:  # closed in between: nobody looks any more
                return

    def _run(self) -> None:
        tell = partial(self.call, self._take)
        try:
            self._feed.run(tell)
        except Exception as error:  # noqa: BLE001 (the thread's last guard: reported, not lost)
            tell(News(error=error))
