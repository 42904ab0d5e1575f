"""A headless Chromium with one page, driven over a pipe by its DevTools protocol."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Without these options it looks up Google's hosts at every start.
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip


class Chromium:
    """The browser; it keeps the requests of its page, and console messages and exceptions."""

    def __init__(self, profile: Path) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # It reads from 3 and writes to 4; the shell calls dup2, so that no preexec_fn is needed.
        script = f'exec chromium "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *_QUIET, f"--user-data-dir={profile}"],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number = b"", 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method of the protocol; returns its result."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def wait_for(self, event: str) -> None:
        """Wait for an event."""
        while self._next().get("method") != event:
            pass

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression; for a promise, its result."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        return answer["result"].get("value")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._in)
        os.close(self._out)

    def _next(self) -> Mapping[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._in, 1 << 20)
            assert more, "Chromium ended"
            self._buffer += more
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        params = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif message.get("method") in {
            "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded",
        }:  # fmt: skip
            self.complaints.append(json.dumps(params))
        return message
