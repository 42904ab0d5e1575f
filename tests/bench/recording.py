"""What a recording costs: bytes and CPU a second; opening, seeking and replaying a long one."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from operator import add, sub
from pathlib import Path
from random import Random

from ioh.model.hist import LatencyHist, SizeLatencyHist
from ioh.model.sample import LayerSample, OpTotals, Row, Sample, Value
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.writer import SessionWriter
from tests.bench.report import Report, say
from tests.bench.watchers import IOH
from tests.bench.workloads import Job, Targets, in_background

ROOT = Path(__file__).resolve().parents[2]
BYTES_PER_S = 1024
OPEN_S, SEEK_S, REPLAY_MB, CPU_PCT, TICKS_PER_S = 0.5, 0.05, 100, 0.5, 1000
DAY_S, MIX_S = 86_400, 3600
REAL = ROOT / "tests/data/nfs-session.ioh"  # five layers, all of them active
_COUNTERS = tuple(f.name for f in fields(OpTotals) if f.name.endswith("_total"))


def live_samples(path: Path, seconds: int) -> list[Sample]:
    """Record this machine, one sample a second, in a process of its own: ioh gives up root."""
    subprocess.run([*IOH, "record", "-t", str(seconds), "-o", str(path)], check=True, cwd=ROOT)
    return real_samples(path)


def five_layers(samples: Sequence[Sample]) -> list[Sample]:
    """The first half of the samples, with two more layers: what block did in the other half.

    There is no NFS here.  What block did at the same time or shortly before would cost nothing: the
    compressor would find it again.
    """
    half = len(samples) // 2
    made = []
    for at, sample in enumerate(samples[:half]):
        layers, specs = dict(sample.layers), dict(sample.specs)
        for ahead, name in ((0, "nfs_client"), (half // 2, "nfs_server")):
            layers[name] = samples[half + (at + ahead) % half].layers["block"]
            specs[name] = replace(specs["block"], name=name, title=name)
        made.append(replace(sample, layers=layers, specs=specs))
    return made


def _sum(a: Value, b: Value) -> Value:
    return a + b if isinstance(a, int) and isinstance(b, int) else a


def _grown(op: OpTotals, older: OpTotals | None, newer: OpTotals | None, times: int) -> OpTotals:
    """``op`` plus the difference of two others, this many times."""
    if older is None or newer is None:
        return op
    changed: dict[str, object] = {}
    for name in _COUNTERS:
        now, a, b = (getattr(x, name) for x in (op, older, newer))
        if now is not None and a is not None and b is not None:
            changed[name] = now + (b - a) * times
    for name, kind in (("latency", LatencyHist), ("size_lat", SizeLatencyHist)):
        now, a, b = (getattr(x, name) for x in (op, older, newer))
        if now is not None and b is not None and now.counts and b.counts:
            before = a.counts if a is not None and a.counts else (0,) * len(b.counts)
            more = [x * times for x in map(sub, b.counts, before)]
            changed[name] = kind(tuple(map(add, now.counts, more)))
    return replace(op, **changed)  # type: ignore[arg-type]


def _ops_grown(now: object, a: object, b: object, times: int) -> dict[str, OpTotals]:
    assert isinstance(now, dict)
    assert isinstance(a, dict)
    assert isinstance(b, dict)
    return {name: _grown(op, a.get(name), b.get(name), times) for name, op in now.items()}


def _table_grown(
    now: dict[tuple[str, ...], Row], last: dict[tuple[str, ...], Row], times: int
) -> dict[tuple[str, ...], Row]:
    """Every row of the last sample, grown, so that no rows come or go from loop to loop."""
    made = {}
    for key, row in last.items():
        here = now.get(key, row)
        made[key] = tuple(
            _sum(h, (r or 0) * times) if isinstance(r, int) else h
            for h, r in zip(here, row, strict=True)
        )
    return made


def endless(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Repeat the samples without end; their totals keep growing."""
    first, last = samples[0], samples[-1]
    period_ns = last.mono_ns - first.mono_ns + 10**9
    loop = 0
    while True:
        for sample in samples:
            layers = {}
            for name, layer in sample.layers.items():
                a, b = first.layers[name], last.layers[name]
                if not all(isinstance(x, LayerSample) for x in (layer, a, b)):
                    continue
                assert isinstance(layer, LayerSample)
                assert isinstance(a, LayerSample)
                assert isinstance(b, LayerSample)
                layers[name] = replace(
                    layer,
                    ops=_ops_grown(layer.ops, a.ops, b.ops, loop),
                    parts={
                        part: _ops_grown(ops, a.parts.get(part, {}), b.parts.get(part, {}), loop)
                        for part, ops in layer.parts.items()
                    },
                    tables={
                        table: _table_grown(dict(rows), dict(b.tables.get(table, {})), loop)
                        for table, rows in layer.tables.items()
                    },
                )
            yield replace(
                sample,
                mono_ns=sample.mono_ns + loop * period_ns,
                time_unix_s=sample.time_unix_s + loop * period_ns / 1e9,
                layers=layers,
            )
        loop += 1


def write(path: Path, samples: Iterator[Sample], count: int) -> tuple[float, int]:
    """Record ``count`` samples; returns the CPU seconds of writing alone, and bytes."""
    writer = SessionWriter(FileOutput(str(path)))
    spent_s = 0.0
    for _, sample in zip(range(count), samples, strict=False):
        began = time.process_time()
        writer.write(sample)
        spent_s += time.process_time() - began
    writer.close()
    return spent_s, path.stat().st_size


def peers(folder: Path, seconds: int) -> dict[str, int]:
    """Bytes that atop and sadc, if installed, write in this many seconds."""
    sadc = next(
        (p for p in ("/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc") if Path(p).exists()), ""
    )
    commands = {
        "atop": [shutil.which("atop") or "", "-w", str(folder / "atop"), "1", str(seconds)],
        "sadc": [sadc, "-S", "XALL", "1", str(seconds), str(folder / "sadc")],
    }
    running = {
        name: subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, command in commands.items()
        if command[0]
    }
    for process in running.values():
        process.wait(seconds + 30)
    return {name: (folder / name).stat().st_size for name in running if (folder / name).exists()}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def real_samples(path: Path = REAL) -> list[Sample]:
    """The samples of a recording."""
    with Session(str(path)) as session:
        return [tick.sample for tick in session.ticks(0)]


def measure_long(report: Report, path: Path, what: str) -> None:
    """Open it, seek in it, and print it; in CPU time, since other programs may run, too."""
    opened, seeks, random = [], [], Random(4)
    for _ in range(5):
        began = time.process_time()
        with Session(str(path)) as session:
            ticks = len(session)
        opened.append(time.process_time() - began)
    with Session(str(path)) as session:
        for _ in range(60):
            tick = random.randrange(ticks)
            began = time.process_time()
            assert session.sample_at(tick) is not None
            seeks.append(time.process_time() - began)
    report.figure(f"{what}: open {ticks:,} samples", "s of CPU", opened, OPEN_S)
    report.figure(f"{what}: seek anywhere", "ms of CPU", [s * 1e3 for s in seeks], SEEK_S * 1e3)
    report.figure(f"{what}: slowest of these seeks", "ms", [max(seeks) * 1e3], SEEK_S * 1e3)
    shown_s = min(ticks, 5000)
    program = (
        "import sys; from ioh.commands import main; code = main(sys.argv[1:]);"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    began = _children_s()
    done = subprocess.run(
        [sys.executable, "-c", program, "replay", str(path), "--as-text", "-t", str(shown_s)],
        check=True, cwd=ROOT, capture_output=True,
    )  # fmt: skip
    # An interval of a slow virtual machine may last longer than a second.
    rate = done.stdout.count(b"\ndate: ") / (_children_s() - began)
    slower = TICKS_PER_S / rate
    report.figure(f"{what}: as text, times slower than 1,000 a second", "", [slower], 1)
    report.note(f"{what}: replay --as-text prints {rate:,.0f} ticks a second of CPU time")
    resident_mb = int(done.stderr.split()[-1]) * 1024 / 1e6
    report.figure(f"{what}: replay resident", "MB", [resident_mb], REPLAY_MB)


def measure(report: Report, targets: Targets, seconds: int, day_s: int) -> None:
    """Record real samples under load for ``seconds``, then make long sessions of them."""
    jobs = [_steady(targets.cached), _steady(targets.devices[0])]
    with tempfile.TemporaryDirectory(prefix="ioh-bench-") as name:
        folder = Path(name)
        say(f"recording: {seconds} s of real samples under load")
        with in_background(jobs, seconds * 2 + 30):
            samples = live_samples(folder / "live.ioh", seconds)
            others = peers(folder, seconds)
        for layers, made in ((3, samples), (5, five_layers(samples))):
            spent_s, size = write(folder / f"{layers}.ioh", iter(made), len(made))
            budget = BYTES_PER_S if layers == 5 else None
            report.figure(f"recording, {layers} layers", "bytes/s", [size / len(made)], budget)
            share = spent_s / len(made) * 100
            report.figure(f"recording, {layers} layers", "% of a core", [share], CPU_PCT)
        for peer, size in others.items():
            report.figure(f"{peer} in the same time", "bytes/s", [size / seconds])
        measure_sessions(report, folder, five_layers(samples), day_s)


def measure_sessions(report: Report, folder: Path, mix: list[Sample], day_s: int) -> None:
    """Long sessions: ``day_s`` of a real NFS client and server; of the mix, an hour at most."""
    real = real_samples()
    _, size = write(folder / "real.ioh", iter(real), len(real))
    report.figure("recording, a real NFS host", "bytes/s", [size / len(real)], BYTES_PER_S)
    for what, samples, length_s in (("NFS host", real, day_s), ("mix", mix, min(day_s, MIX_S))):
        say(f"recording: a session of {length_s} s, {what}")
        path = folder / f"{what}.ioh"
        write(path, endless(samples), length_s)
        measure_long(report, path, what)


def _steady(job: Job) -> Job:
    """The job at the rate of a busy server, not as fast as it can."""
    return replace(job, arguments=(*job.arguments, "--rate_iops=4000"))
