"""A running `ioh serve`, and a Prometheus server for one test that scrapes it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kernel.rig import START_S, ioh_command, ioh_environment
from tests.kernel.talker import Running, wait_until


class Serve(Running):
    """`ioh serve` on a free port; a context manager."""

    def __init__(
        self,
        *options: str,
        words: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command = ioh_command("serve", "--listen", "127.0.0.1:0", *options)
        env = dict(environment) if environment is not None else ioh_environment()
        super().__init__([*words, *command], cwd="/", env=env)
        self.messages.wait_for(1, START_S)
        self.url = self.messages.lines[0].decode().split()[-1]
        assert self.url.startswith("http"), self.messages.lines

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        assert self.process.returncode == 0

    @property
    def target(self) -> str:
        """Host and port."""
        return urllib.parse.urlsplit(self.url).netloc

    def scrape(self) -> str:
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            text: str = answer.read().decode()
            return text


class Prometheus:
    """The server with its data in ``home``; scrapes ``targets``; a context manager."""

    def __init__(
        self, home: Path, targets: Sequence[str], rules: Sequence[Path] = (), scrape_s: int = 1
    ) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = {
            "global": {"scrape_interval": f"{scrape_s}s", "evaluation_interval": f"{scrape_s}s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [{"job_name": "ioh", "static_configs": [{"targets": [*targets]}]}],
        }
        (home / "prometheus.yml").write_text(json.dumps(config))  # which is YAML, too
        self._home = home
        program = shutil.which("prometheus")
        assert program, "prometheus is not installed: ./ioh.sh --test-servers installs it"
        with (home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, f"--config.file={home}/prometheus.yml",
                 f"--storage.tsdb.path={home}/data",
                 f"--web.listen-address={self.address}", "--log.level=warn"],
                stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self._is_ready, START_S, why=(home / "log").read_text)

    def __enter__(self) -> Prometheus:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, (self._home / "log").read_text()
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def api(self, path: str, **query: str) -> Any:
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, text: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that an expression has now."""
        found = self.api("query", query=text)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def value(self, text: str) -> float:
        """The value of an expression that has one series."""
        ((_, value),) = self.query(text)
        return value

    def wait_until(self, text: str, timeout_s: float = 30) -> None:
        """Wait until an expression has a series."""
        wait_until(lambda: self.query(text), timeout_s, pause_s=0.2, why=lambda: text)
