"""Can ioh run for weeks?  Run by hand: minutes on this machine, then a simulated day.

Live: ``ioh record`` with every layer, into files of 64 kB without end, and with it the screen,
``ioh text`` and ``ioh serve`` with ten intervals a second, beside fio and processes and files that
come and go by the minute.
Simulated: 24 hours of a made-up minute go through the history and the rules of a live screen, and
into a recording.  Both require that memory and descriptors stay flat after the warm-up, that no
tick is lost, and that the recording continues from file to file.  On a busy machine ioh's memory
follows the load of others, which have rows, too: a NO may only say that this load has grown.

Usage: ./ioh.sh --soak [minutes, 30]; needs root and fio.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

from ioh.findings.engine import Engine
from ioh.history.memory_recording import MemoryRecording
from ioh.live.memory import give_back_large
from ioh.model.derive import derive
from ioh.recorder.rotated_files import part_name
from ioh.recorder.rotation import Recorder
from ioh.session.check import check
from ioh.session.output import FileOutput
from tests.bench.recording import endless
from tests.support.demo_samples import samples

GROWTH_BYTES = 2_000_000  # in half an hour: 170 bytes an interval at ten a second
CYCLE_S, QUICK_S = 1.0, 0.1
LOOK_S = 5.0
PART_BYTES, KEEP = 64_000, 2  # five minutes are enough to reach the third file
DAY_TICKS = 86_400
HISTORY_BYTES = 1 << 20  # full after an hour: from then on the oldest half is dropped
WARM = 1 / 3  # of the readings: caches and tables fill, each kind of work has been done once
SCREEN = struct.pack("HHHH", 40, 120, 0, 0)  # lines, columns


@dataclass
class Flatness:
    """Memory and descriptors of one process, read now and then."""

    name: str
    pid: int
    rss_bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def look(self) -> None:
        proc = Path(f"/proc/{self.pid}")
        found = re.search(r"^VmRSS:\s+(\d+) kB$", (proc / "status").read_text(), re.MULTILINE)
        self.rss_bytes.append(int(found[1]) * 1024 if found else 0)
        self.descriptors.append(len(list((proc / "fd").iterdir())))

    def verdict(self) -> bool:
        """Print what was read; whether it was flat after the warm-up."""
        warm = int(len(self.rss_bytes) * WARM)
        rss, descriptors = self.rss_bytes[warm:], self.descriptors[warm:]
        growth = grown(rss)
        # Some are open only while ioh reads a file; a leaked one is never closed.
        half = len(descriptors) // 2
        leaked = min(descriptors[half:]) - min(descriptors[:half])
        is_flat = growth <= GROWTH_BYTES and leaked <= 0
        print(
            f"{self.name}: {rss[0] / 1e6:.1f} MB when warm, then {growth / 1e6:+.2f} MB;"
            f" descriptors {min(descriptors)} to {max(descriptors)}: {'flat' if is_flat else 'NO'}"
        )
        return is_flat


def grown(values: Sequence[int]) -> float:
    """How much the values grow from the first to the last, if they go on as they mostly do.

    A leak grows steadily.  A step does not: a module is loaded, a load changes, free memory between
    used pieces is lost.  So this is the median growth within an eighth of the time, times 8.
    """
    apart = max(1, len(values) // 8)
    steps = [newer - older for older, newer in zip(values, values[apart:], strict=False)]
    return median(steps) * (len(values) - 1) / apart


def children(pid: int) -> list[int]:
    parent = f"\nPPid:\t{pid}\n"  # not every kernel has /proc/PID/task/PID/children
    return [
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/status")
        if parent in read_or_nothing(status)
    ]


def read_or_nothing(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended
        return ""


def says(what: str, *, is_so: bool) -> bool:
    print(f"{what}: {'yes' if is_so else 'NO'}")
    return is_so


def are_parts_whole(folder: Path) -> bool:
    """Whether the files that are left follow each other without gaps or damage."""
    paths = sorted(folder.glob("run-*.ioh"))
    found = [check(str(path)) for path in paths]
    print(f"{len(paths)} files left: {paths[0].name} to {paths[-1].name}")
    return says(
        "rotated, whole, each beginning with the last sample of the one before",
        is_so=len(paths) == KEEP
        and paths[0].name != "run-0001.ioh"
        and not any(each.faults or each.gaps for each in found)
        and all(older.last_unix_s == newer.first_unix_s for older, newer in pairwise(found)),
    )


def live(seconds: float) -> bool:
    """Record this machine beside a load."""
    print(f"== {seconds / 60:.0f} minutes of this machine")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        load = ["--rw=randrw", "--bs=4k,16k", "--size=64m", "--rate_iops=200", "--fsync=32"]
        fio = subprocess.Popen(
            ["fio", "--name=soak", f"--directory={name}", "--time_based", *load,
             f"--runtime={seconds + 120:.0f}"], stdout=subprocess.DEVNULL,
        )  # fmt: skip
        guests = subprocess.Popen(["sh", "-c", GUESTS, "sh", f"{name}/guest"])
        command = [sys.executable, "-I", "-m", "ioh", "record", "-o", str(folder / "run.ioh")]
        command += ["-c", str(CYCLE_S), "--max-size", str(PART_BYTES), "--keep", str(KEEP)]
        try:
            return _watched(command, folder, seconds)
        finally:
            for each in (fio, guests):
                each.terminate()
                each.wait()


# Two hundred files and twice as many processes, then a minute's pause.
GUESTS = """
while :; do
    for n in $(seq 200); do
        dd if=/dev/zero of="$1-$n" bs=8k count=4 conv=fsync 2> /dev/null
        cat "$1-$n" > /dev/null
        sleep 0.2
    done
    rm -f "$1"-*
    sleep 60
done
"""
OTHERS = ("live",), ("text",), ("serve", "--listen", "127.0.0.1:0")


@contextlib.contextmanager
def running(*words: str) -> Iterator[Flatness]:
    """Another ioh, on a terminal of its own at which nobody looks."""
    command = [sys.executable, "-I", "-m", "ioh", *words, "-c", str(QUICK_S)]
    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, SCREEN)
    threading.Thread(target=_read_all, args=(leader,), daemon=True).start()
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        os.close(terminal)
        yield Flatness(words[0], process.pid)
        process.terminate()


def _read_all(leader: int) -> None:
    with contextlib.suppress(OSError):  # its program has ended
        while os.read(leader, 1 << 16):
            pass


def _watched(command: list[str], folder: Path, seconds: float) -> bool:
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(running(*words)) for words in OTHERS]
        process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE))
        while not any(path.stat().st_size for path in folder.glob("run-*.ioh")):
            time.sleep(0.1)
        began = time.monotonic()
        seen = [Flatness("record", process.pid), *others]
        seen += [Flatness("its loader", pid) for pid in children(process.pid)]
        while time.monotonic() < began + seconds:
            time.sleep(LOOK_S)
            for each in seen:
                each.look()
        process.send_signal(signal.SIGTERM)
        lasted_s = time.monotonic() - began
        _, errors = process.communicate(timeout=60)
    said = re.search(rb"recorded (\d+) samples", errors)
    ticks = int(said[1]) if said else 0
    print(f"{ticks} samples in {lasted_s:.0f} s, load average {os.getloadavg()[2]:.1f}")
    verdicts = [each.verdict() for each in seen]
    verdicts.append(says("no tick lost", is_so=ticks >= int(lasted_s / CYCLE_S)))
    verdicts.append(are_parts_whole(folder))
    return all(verdicts)


def simulated(ticks: int) -> bool:
    """Repeat the made-up minute for a day of ticks, as fast as possible."""
    print(f"== {ticks / 3600:.0f} hours, simulated")
    give_back_large()  # as every live source does
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        path = str(Path(name) / "run.ioh")
        make: Callable[[int], FileOutput] = lambda part: FileOutput(part_name(path, part))  # noqa: E731
        recorder = Recorder(make, max_bytes=30 * PART_BYTES, keep=KEEP)
        history, engine = MemoryRecording(HISTORY_BYTES), Engine()
        seen = Flatness("all of it", int(Path("/proc/self").resolve().name))
        written, older = 0, None
        for tick, sample in enumerate(islice(endless(samples()), ticks)):
            written += recorder.write(sample)
            history.write(sample)
            if older is not None:
                engine.judge(derive(older, sample))
            older = sample
            if tick % (ticks // 200) == 0:
                seen.look()
        recorder.close()
        is_flat = seen.verdict()
        kept = len(history) - history.first_tick
        history.close()
        print(f"{ticks} ticks in {time.monotonic() - began:.0f} s, {kept} of them in the history")
        return all(
            (says("no tick lost", is_so=written == ticks), is_flat, are_parts_whole(Path(name)))
        )


def main() -> int:
    """Run both; returns the exit status."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    done = [live(60 * minutes), simulated(DAY_TICKS)]
    print("passed" if all(done) else "FAILED")
    return not all(done)


if __name__ == "__main__":
    sys.exit(main())
