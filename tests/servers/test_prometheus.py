"""A real Prometheus scrapes `ioh serve`: it has what ioh counts; and the systemd unit."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernel.rig import Ioh, Volume, run
from tests.kernel.talker import wait_until
from tests.servers.prometheus import Prometheus, Serve

ROOT = Path(__file__).parents[2]
RULES = ROOT / "contrib" / "prometheus" / "ioh.rules.yml"
COMM = "ioh-prime"
READS, WRITES, SIZE = 977, 311, 8192
# Reads and writes with O_DIRECT under a name of its own, a prime number of each.
WORK = f"""
import ctypes, mmap, os, sys
ctypes.CDLL(None).prctl(15, b"{COMM}")
page = mmap.mmap(-1, {SIZE})
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for at in range({WRITES}):
    assert os.pwritev(fd, [page], at * {SIZE}) == {SIZE}
for at in range({READS}):
    assert os.preadv(fd, [page], at % {WRITES} * {SIZE}) == {SIZE}
"""
ONLY = ("--comm", COMM, "--layers", "syscall,block")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with closing(Volume(tmp_path)) as made:
        yield made


def test_the_rules_do_what_they_say() -> None:
    run("promtool", "test", "rules", ROOT / "tests" / "servers" / "ioh.rules.test.yml")


@pytest.mark.parametrize("options", [(), ("--top", "5")])
def test_promtool_finds_no_fault_in_the_page(options: tuple[str, ...]) -> None:
    with Serve(*options) as served:
        time.sleep(2)  # findings, and with --top rows
        page = served.scrape()
    told = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


def test_prometheus_has_the_totals_that_ioh_counts(volume: Volume, tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "other"]
    for home in homes:
        home.mkdir()
    path = volume.mount / "file"
    with (
        Ioh(*ONLY, cycle_s=0.25) as ioh,
        Serve(*ONLY) as served,
        Prometheus(homes[0], [served.target], [RULES]) as one,
        Prometheus(homes[1], [served.target]) as other,
    ):
        ioh.wait_for_lines(2)
        for prometheus in (one, other):
            prometheus.wait_until("ioh_syscall_operations_total")
        for _ in range(2):
            subprocess.run([sys.executable, "-c", WORK, path], check=True)
            time.sleep(2)
        ioh.settle()
        for prometheus in (one, other):
            _check_totals(prometheus, ioh)
            _check_same_seconds(prometheus, ioh)
        _check_each_second(one, served.scrape())


def _check_totals(prometheus: Prometheus, ioh: Ioh) -> None:
    """Every operation is there, in whatever second it was scraped."""
    prometheus.wait_until(f'ioh_syscall_operations_total{{op="read_direct"}} == {2 * READS}')
    for op, count in (("read_direct", 2 * READS), ("write_direct", 2 * WRITES)):
        assert ioh.total("syscall", op) == count
        assert ioh.total("block", op.split("_", maxsplit=1)[0]) >= count
        of_op = f'op="{op}"'
        assert prometheus.value(f"ioh_syscall_operations_total{{{of_op}}}") == count
        assert prometheus.value(f"ioh_syscall_bytes_total{{{of_op}}}") == count * SIZE
        inside = f'ioh_syscall_latency_seconds_bucket{{{of_op},le="+Inf"}}'
        assert prometheus.value(inside) == count
        mean_s = prometheus.value(f"ioh_syscall_operation_seconds_total{{{of_op}}}") / count
        # Two programs with probes of their own, one after the other.
        assert mean_s * 1e6 == pytest.approx(ioh.latency_us("syscall", op), rel=0.25)


def _check_same_seconds(prometheus: Prometheus, ioh: Ioh) -> None:
    """At every scrape it had as many as ioh had counted by then, so all rates are the same."""

    def scraped(series: str) -> dict[float, float]:
        (found,) = prometheus.api("query", query=f"{series}[2m]")["result"]
        return {at: float(value) for at, value in found["values"]}

    def counted(by_unix_s: float) -> int:
        return sum(
            interval["layers"]["syscall"]["ops"]["read_direct"]["count"] or 0
            for interval in ioh.intervals_of("syscall")  # the first may come before the layer
            if interval["time_unix_s"] <= by_unix_s
        )

    times = scraped("ioh_sample_time_seconds")
    totals = scraped('ioh_syscall_operations_total{op="read_direct"}')
    assert len(totals) > 3
    assert len({*totals.values()}) > 1
    for at, total in totals.items():
        near_s = 2 * ioh.cycle_s
        assert counted(times[at] - near_s) <= total <= counted(times[at] + near_s)


def _check_each_second(prometheus: Prometheus, page: str) -> None:
    """Each scrape succeeded, and its sample was not older than the one before."""
    assert prometheus.value("min_over_time(up[1m])") == 1
    samples = sum(not line.startswith("#") for line in page.splitlines())
    assert prometheus.value("scrape_samples_scraped") == pytest.approx(samples, abs=30)
    ((_, times),) = (
        (each["metric"], each["values"])
        for each in prometheus.api("query", query="ioh_sample_time_seconds[1m]")["result"]
    )
    assert all(float(a[1]) <= float(b[1]) for a, b in itertools.pairwise(times))
    rules = prometheus.api("rules")["groups"]
    faults = [rule.get("lastError") for group in rules for rule in group["rules"]]
    assert not [fault for fault in faults if fault]


ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "contrib" / "systemd" / "ioh.service"
MAX_EXPOSURE = 3.0  # of 10
UID = "64123"  # of no user


def test_systemd_rates_it_three_or_better() -> None:
    told = run("systemd-analyze", "security", "--offline=true", "--no-pager", str(SHIPPED))
    found = re.search(r"exposure level for ioh\.service: ([\d.]+)", told)
    assert found is not None
    assert float(found[1]) <= MAX_EXPOSURE


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    text = SHIPPED.read_text().replace("/opt/ioh/.venv/bin/python", sys.executable)
    path = tmp_path / "ioh.service"
    path.write_text(text.replace("Documentation=man:ioh(8)\n", ""))
    told = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert "ioh.service" not in told.stderr


def test_it_measures_by_bpf_with_the_units_user_and_capabilities() -> None:
    (line,) = re.findall(r"^AmbientCapabilities=(.*)", SHIPPED.read_text(), re.MULTILINE)
    caps = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in line.split())
    sets = [f"--{which}=-all,{caps}" for which in ("inh-caps", "ambient-caps", "bounding-set")]
    user = ("setpriv", "--reuid", UID, "--regid", UID, "--clear-groups", "--no-new-privs", *sets)
    up = re.compile(r'^ioh_layer_up\{.*layer="(\w+)",source="bpf"\} 1\.0$', re.MULTILINE)
    with Serve(words=user, environment={"PATH": "/usr/bin:/bin", "HOME": "/"}) as served:
        wait_until(lambda: {"syscall", "tcp", "block"} <= set(up.findall(served.scrape())), 60)
        status = Path(f"/proc/{served.process.pid}/status").read_text()
    # Capabilities are dropped once the probes are attached.
    assert re.search(r"^CapEff:\s0+$", status, re.MULTILINE)
    assert re.search(r"^CapPrm:\s0+$", status, re.MULTILINE)
