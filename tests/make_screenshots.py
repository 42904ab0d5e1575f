"""Write screenshots/: what ioh shows of a real fio run; needs root, fio and Chromium.

It records a database-like mix for SECONDS, then draws screens and text from that recording and from
the recordings of NFS and of a database in tests/data.

``bench.png`` is the page of a real benchmark of a few minutes.

Usage: sudo .venv/bin/python tests/make_screenshots.py
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ioh.history.file import PlayOptions
from ioh.player.file import FilePlayer
from ioh.terminal.picture import svg
from ioh.tui.app import IohApp
from ioh.tui.options import ScreenOptions
from ioh.tui.theme import styles_for
from tests.servers.chromium import Chromium

REPO = Path(__file__).resolve().parents[1]
TARGET = REPO / "screenshots"
DB_SESSION = REPO / "tests" / "data" / "db-session.ioh"
NFS_SESSION = REPO / "tests" / "data" / "nfs-session.ioh"
SECONDS = 75
FILL_S = 5.0
TEXT = ["text", "-d", "hist,histsz,topfile"]
PLAN = """
summary = "a short form of database"
size = "2g"
run_s = 10

[[test]]
kind = "randread"
block = "8k"
users = [1, 4, 16, 32]

[[test]]
kind = "seqread"
block = "1m"
users = [1, 8]

[[test]]
kind = "write"
sync = "sync"
direct = false
block = ["1k", "128k"]
users = [4, 16]
"""
WIDE, SMALL = (120, 40), (80, 24)


def fio(directory: str, name: str, *options: str) -> subprocess.Popen[bytes]:
    """Start one load that lasts longer than the recording, which begins when ioh is ready."""
    common = [f"--directory={directory}", "--time_based", f"--runtime={SECONDS + 20}"]
    return subprocess.Popen(["fio", f"--name={name}", *common, *options], stdout=subprocess.DEVNULL)


def record(target: Path) -> None:
    """Record a database-like mix: random reads and a log, then a backup that reads in order."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        tables = ["--rw=randread", "--bs=8k", "--size=512m", "--direct=1", "--iodepth=16"]
        backup = ["--rw=read", "--bs=1m", "--size=512m", "--startdelay=25", "--rate=200m"]
        loads = [
            fio(directory, "tables", *tables, "--ioengine=libaio", "--rate_iops=6000"),
            fio(directory, "log", "--rw=write", "--bs=16k", "--size=64m", "--fdatasync=1"),
            fio(directory, "backup", *backup),
        ]
        subprocess.run(
            [sys.executable, "-I", "-m", "ioh", "record", "-o", target, "-t", str(SECONDS)],
            cwd=REPO,
            check=True,
        )
        for load in loads:
            load.wait()


async def shoot(session: Path, keys: tuple[str, ...], size: tuple[int, int], name: str) -> None:
    """Draw the end of a recording, after some keys."""
    os.chdir(session.parent)  # so that the picture does not show the folder
    with FilePlayer(session.name, PlayOptions()) as player:
        app = IohApp(player, ScreenOptions(theme="dark", utc=True))
        async with app.run_test(size=size) as pilot:
            await pilot.pause(FILL_S)
            await pilot.press("end", *keys)
            await pilot.pause(FILL_S)  # a thread reads the history before it
            frame = app.frame()
    picture = svg(frame, styles_for("dark", "truecolor"), f"ioh replay {session.name}")
    (TARGET / f"{name}.svg").write_text(picture)


def text(session: Path) -> None:
    """Write the last block of ``ioh text``."""
    shown = subprocess.run(
        [sys.executable, "-I", "-m", "ioh", *TEXT, session],
        cwd=REPO,
        capture_output=True,
        check=True,
    ).stdout.decode()
    last = shown.strip().split("\n\n")[-1]
    lines = [line for line in last.strip().splitlines() if str(REPO) not in line]  # ioh's own files
    (TARGET / "text.txt").write_text("\n".join([f"$ ioh {' '.join(TEXT)}", *lines, ""]))


def bench(folder: Path) -> None:
    """Draw the top of the page of a benchmark: random, sequential reads, synchronous writes."""
    (folder / "bench.toml").write_text(PLAN)
    words = (folder, "--plan", folder / "bench.toml", "-o", folder / "bench", "--no-tui")
    subprocess.run([sys.executable, "-I", "-m", "ioh", "bench", *words], cwd=folder, check=True)
    page = folder / "bench" / "report.html"
    text = page.read_text().replace(str(folder), "/mnt/data")  # not a temporary folder's name
    page.write_text(text)
    browser = Chromium(folder / "profile")
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=1240, height=1080, deviceScaleFactor=1, mobile=False,
    )  # fmt: skip
    browser.call("Page.navigate", url=page.as_uri())
    browser.wait_for("Page.loadEventFired")
    browser.value("new Promise(done => requestAnimationFrame(() => setTimeout(done, 500, 1)))")
    picture = browser.call("Page.captureScreenshot", format="png")["data"]
    (TARGET / "bench.png").write_bytes(base64.b64decode(picture))
    browser.close()


def main() -> int:
    """Record, then draw everything."""
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        session = Path(folder) / "fio.ioh"
        record(session)
        text(session)
        for name, keys, size in (
            ("overview", (), WIDE),
            ("overview-80x24", (), SMALL),
            ("block", ("5", "r"), WIDE),
        ):
            asyncio.run(shoot(session, keys, size, name))
        bench(Path(folder))
    if NFS_SESSION.exists():
        busy = ("[",) * 4 + ("right",) * 8  # its reads and writes with O_DIRECT
        asyncio.run(shoot(NFS_SESSION, busy, WIDE, "nfs"))
        asyncio.run(shoot(NFS_SESSION, (*busy, "2", "w"), WIDE, "nfs-client"))
    if DB_SESSION.exists():
        asyncio.run(shoot(DB_SESSION, ("[", "[", *("right",) * 5), WIDE, "database"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
