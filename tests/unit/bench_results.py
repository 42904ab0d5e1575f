"""A made-up finished bench: eight tests for the card's four cells, one of them refused."""

from __future__ import annotations

from ioh.bench.results import (
    HIST_COLUMNS,
    BenchDevice,
    BenchVerdict,
    Conditions,
    Disturbance,
    Figures,
    LayerFigures,
    Results,
    Run,
    RunFinding,
    Test,
    TestSpec,
)

HOSTILE = '</script><img src=x onerror="alert(1)">\x1b[2J'
OK = BenchVerdict(ok=True)
CACHED = BenchVerdict(
    ok=False, rule="caching", sentence="92 % of the bytes came from memory", evidence=("a fact",)
)


def figures(mean_us: float, iops: float, block_bytes: int) -> Figures:
    """All figures of 1000 operations, from their mean latency, rate and block size."""
    hist = [0] * len(HIST_COLUMNS)
    hist[3], hist[4], hist[8] = 700, 200, 100
    return Figures(
        ops=1000, bytes=1000 * block_bytes, bytes_per_s=iops * block_bytes, iops=iops,
        mean_us=mean_us, min_us=mean_us / 2, max_us=mean_us * 40, std_us=mean_us / 3,
        p50_us=mean_us, p95_us=mean_us * 2, p99_us=mean_us * 4, p995_us=mean_us * 5,
        p999_us=mean_us * 10, p9995_us=mean_us * 11, p9999_us=mean_us * 12, hist=tuple(hist),
    )  # fmt: skip


def made_test(spec: TestSpec, mean_us: float, verdict: BenchVerdict = OK, runs: int = 1) -> Test:
    """A test in which every layer moved the same as fio."""
    op = "write" if spec.kind == "write" else "read"
    own = figures(mean_us, 1e6 * spec.users / mean_us, spec.block_bytes)
    layers = tuple(
        LayerFigures(name, title, op, own, part, "bpf")
        for name, title, part in (
            ("syscall", "Application", ""),
            ("block", "Block", ""),
            ("block", "Block", "vda"),
        )
    )
    run = Run(
        1000.0, 1010.0, {op: own}, verdict, spec.name, f"{spec.name}.json", layers=layers,
        findings=(RunFinding("caching", "Cached", "warning", "vda", "Cached.", "Do.", 1.0, 2.0),),
        disturbances=(Disturbance("steal", "Others took 3 % of the CPUs", 3.0),),
    )  # fmt: skip
    return Test(spec, (run,) * runs, 0, verdict, 2.5 if runs > 1 else None)


def spec_of(kind: str, block_bytes: int, users: int) -> TestSpec:
    """A test as the plan ``card`` defines it."""
    size = f"{block_bytes >> 10}k"
    sync = "sync" if kind == "write" else ""
    rw = {"seqread": "read"}.get(kind, kind)
    return TestSpec(
        f"{kind}-{size}-{users}u", kind, rw, block_bytes, users,
        direct=kind != "write", sync=sync, size_bytes=1 << 30, run_s=10.0,
    )  # fmt: skip


def results(host: str = "db01", runs: int = 1, slower: float = 1.0) -> Results:
    """Two tests for each of the card's four cells; one of the sequential reads was cached."""
    tests = tuple(
        made_test(spec_of(kind, block, users), slower * mean_us, verdict, runs)
        for kind, block, users, mean_us, verdict in (
            ("randread", 8 << 10, 16, 110.0, OK),
            ("randread", 8 << 10, 32, 140.0, OK),
            ("seqread", 1 << 20, 1, 90.0, CACHED),
            ("seqread", 1 << 20, 8, 400.0, OK),
            ("write", 1 << 10, 4, 60.0, OK),
            ("write", 1 << 10, 16, 90.0, OK),
            ("write", 128 << 10, 4, 160.0, OK),
            ("write", 128 << 10, 16, 700.0, OK),
        )
    )
    conditions = Conditions(
        host=host, kernel="6.12", machine="x86_64", cpu="EPYC", cpus=16, memory_bytes=64 << 30,
        cache_bytes=0, target="/mnt/data", file_system="xfs", mount_options="rw,relatime",
        source="/dev/nvme0n1",
        devices=(
            BenchDevice(
                "nvme0n1", host, "nvme", 1 << 40, rotational=False, scheduler="none",
                limits={"nr_requests": "1023"}, carries=True,
            ),
        ),
        governor="performance", io_limits=(), fio_version="fio-3.33", ioh_version="1",
        plan="card", plan_text='summary = "x"', command="ioh bench /mnt/data", size_bytes=1 << 30,
        remarks=("the work file is smaller than memory",),
    )  # fmt: skip
    planned = tuple(test.spec for test in tests)
    return Results(1, conditions, planned, tests, 1000.0, 1100.0)
