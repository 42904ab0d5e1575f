"""What watches the workload: nothing, an empty probe pair, ioh or a bpftrace script."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.workloads import CPUS, WATCH_CPU

ROOT = Path(__file__).resolve().parents[2]
IOH = (sys.executable, "-m", "ioh")
READY_TIMEOUT_S = 20.0
SETTLE_S = 0.3
TICK_S = 1.2

# bpftrace's first interval comes after every probe is attached.
_ATTACHED = 'interval:ms:100 { if (!@attached) { printf("attached\\n"); @attached = 1; } }'
SYSCALL_SCRIPT = """
tracepoint:syscalls:sys_enter_pread64 { @s[tid] = nsecs; }
tracepoint:syscalls:sys_exit_pread64 {
    if (@s[tid]) { @h[args->ret >> 9] = hist((nsecs - @s[tid]) / 1000); delete(@s[tid]); }
}
"""
# What ioh keeps of each read in addition: its process and file, with their operations and bytes.
FULL_SCRIPT = """
tracepoint:syscalls:sys_enter_pread64 { @s[tid] = nsecs; @f[tid] = args->fd; }
tracepoint:syscalls:sys_exit_pread64 {
    if (@s[tid]) {
        $task = (struct task_struct *)curtask;
        $file = (struct file *)*($task->files->fdt->fd + @f[tid]);
        $inode = $file->f_inode;
        @h[args->ret >> 9] = hist((nsecs - @s[tid]) / 1000);
        @n[pid, comm, $inode->i_sb->s_dev, $inode->i_ino] = count();
        @b[pid, comm, $inode->i_sb->s_dev, $inode->i_ino] = sum(args->ret);
        delete(@s[tid]); delete(@f[tid]);
    }
}
"""
BLOCK_SCRIPT = """
tracepoint:block:block_rq_issue { @s[args->dev, args->sector] = nsecs; }
tracepoint:block:block_rq_complete {
    if (@s[args->dev, args->sector]) {
        @h[args->nr_sector] = hist((nsecs - @s[args->dev, args->sector]) / 1000);
        delete(@s[args->dev, args->sector]);
    }
}
"""


class WatcherError(Exception):
    """It did not start; the reason is the message."""


def count_nothing(output: str, layer: str, op: str) -> int | None:
    return None


def count_ioh(output: str, layer: str, op: str) -> int | None:
    """Operations over all intervals that ``ioh json`` printed; None if it left the layer out."""
    whole = output[: output.rfind("\n") + 1].splitlines()
    counts: list[int] = [
        layers[layer]["ops"][op]["count"]
        for layers in (json.loads(line)["layers"] for line in whole)
        if layer in layers
    ]
    return sum(counts) if counts else None


def count_bpftrace(output: str, layer: str, op: str) -> int | None:
    return sum(int(n) for n in re.findall(r"[\])]\s+(\d+) \|", output))


@dataclass(frozen=True)
class Watcher:
    """A program that watches; its probes are attached once ``ready`` is in its output."""

    name: str
    command: tuple[str, ...] = ()
    ready: str = ""
    count: Callable[[str, str, str], int | None] = count_nothing
    wait_s: float = 0.0  # until what has just happened is in its output


def ioh(name: str, *arguments: str) -> Watcher:
    return Watcher(name, (*IOH, "json", *arguments), '"time_unix_s"', count_ioh, TICK_S)


def bpftrace(name: str, script: str) -> Watcher:
    command = ("bpftrace", "-B", "line", "-e", script + _ATTACHED)
    return Watcher(name, command, "attached", count_bpftrace)


NOBODY = Watcher("nobody")


def empty_programs(name: str, *tracepoints: str) -> Watcher:
    """A watcher that costs the least of any with BPF programs at these tracepoints."""
    command = (sys.executable, "-m", "tests.bench.empty_programs", *tracepoints)
    return Watcher(name, command, "attached")


EMPTY_PAIR = empty_programs("empty pair", "sys_enter", "sys_exit")
# The tracepoints at which ioh has a program that runs for each request of a disk.
EMPTY_ALL = empty_programs(
    "empty programs, where ioh's are",
    *("sys_enter", "sys_exit", "block_bio_queue", "block_getrq", "block_rq_complete"),
)


@dataclass
class Watching:
    """A watcher at work; ``output`` is complete once it has ended."""

    pid: int
    output: str = ""


@contextlib.contextmanager
def watching(watcher: Watcher, prefix: tuple[str, ...] = ()) -> Iterator[Watching]:
    """Run a watcher on WATCH_CPU; ends it, and whatever it started, in the end."""
    if not watcher.command:
        yield Watching(0)
        return
    pinned = ("taskset", "-c", str(WATCH_CPU)) if len(CPUS) > 1 else ()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            [*prefix, *pinned, *watcher.command], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        at_work = Watching(process.pid)
        try:
            _wait_until_ready(watcher, process, out.fileno(), err.fileno())
            time.sleep(SETTLE_S)
            yield at_work
            time.sleep(watcher.wait_s)
            if process.poll() is not None:
                msg = f"{watcher.name} ended by itself, status {process.returncode}"
                raise WatcherError(msg)
        finally:
            end(process)
            at_work.output = _content(out.fileno())


def end(process: subprocess.Popen[Any]) -> None:
    """Send SIGINT, on which watchers print what they counted; then SIGKILL to the whole session."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _content(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


def _wait_until_ready(watcher: Watcher, process: subprocess.Popen[Any], out: int, err: int) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while watcher.ready not in _content(out):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = _content(err).strip().splitlines() or ["it did not start in time"]
            msg = f"{watcher.name}: {lines[-1]}"
            raise WatcherError(msg)
        time.sleep(0.02)
