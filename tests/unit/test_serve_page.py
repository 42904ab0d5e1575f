"""What a scrape gets: few and valid series, running totals, findings as 0 and 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain
from prometheus_client.samples import Sample as Point

from ioh.layers import all_layers
from ioh.model.derive import derive
from ioh.model.finding import Finding, NotEvaluated
from ioh.model.hist import LATENCY_EDGES_US
from ioh.model.printable import printable
from ioh.model.sample import LayerSample, OpTotals, Sample, Unavailable
from ioh.serve.page import EDGES_US, Page
from ioh.sinks.series import Detail, Family, label_text, series_of, table_series
from tests.support import fakes
from tests.unit.serve_samples import large_host, layer

OPEN = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
RULES = {"slow_disk": "block", "caching": "syscall", "tcp_retransmits": "tcp"}
FINDING = Finding(
    "slow_disk", "Slow", "block", "warning", "high", "Cause.", (), "", "", "", "", "", 1.0, "sd\na"
)


def points(page: Page, accept: str = "") -> list[Point]:
    text, kind = page.encoded(accept, zipped=False)
    parse = parse_open if kind.startswith("application/openmetrics") else parse_plain
    return [point for family in parse(text.decode()) for point in family.samples]


def page_of(sample: Sample, top: int | None = 0) -> Page:
    made = Page(top, RULES)
    made.publish(sample)
    return made


def values(found: Iterable[Point], name: str, **labels: str) -> list[float]:
    wanted = labels.items()
    return [p.value for p in found if p.name == name and wanted <= p.labels.items()]


def test_twenty_disks_and_ten_mounts_are_at_most_eleven_hundred_series() -> None:
    page = Page(0, dict.fromkeys(map(str, range(40)), "block"))
    sample = large_host()
    page.publish(sample)
    page.judge(derive(sample, sample_after(sample)))
    found = points(page)
    assert 1000 < len(found) <= 1100
    metadata = [p for p in found if p.labels.get("op") == "meta"]
    assert len([p for p in metadata if "part" in p.labels]) == 2 * 10
    assert not [p for p in found if p.labels.get("op") == "getattr"]
    assert len({(p.name, *sorted(p.labels.items())) for p in found}) == len(found)


def test_a_disk_has_a_series_of_its_errors_from_the_first_one_on() -> None:
    sample = large_host()
    block = sample.layers["block"]
    assert isinstance(block, LayerSample)
    failed = OpTotals(count_total=0, bytes_total=0, latency_ns_total=0, errors_total=40)
    parts = {**block.parts, "nvme3n1": {**block.parts["nvme3n1"], "read": failed}}
    layers = {**sample.layers, "block": replace(block, parts=parts)}
    found = points(page_of(replace(sample, layers=layers)))
    of_parts = [p for p in found if p.name == "ioh_block_errors_total" and "part" in p.labels]
    (only,) = of_parts
    assert (only.labels["part"], only.labels["op"], only.value) == ("nvme3n1", "read", 40)


def sample_after(sample: Sample) -> Sample:
    second = 1_000_000_000
    return replace(sample, time_unix_s=sample.time_unix_s + 1, mono_ns=sample.mono_ns + second)


@pytest.mark.parametrize("accept", ["", OPEN])
def test_totals_are_the_samples_own(accept: str) -> None:
    sample = fakes.first(5)[-1]
    found = points(page_of(sample), accept)
    disk = sample.layers["platter"]
    assert isinstance(disk, LayerSample)
    totals = disk.ops["read"]
    assert values(found, "ioh_sample_time_seconds") == [sample.time_unix_s]
    of_layer = [
        p for p in found if p.labels.get("op") == "read" and p.name.startswith("ioh_platter")
        and "part" not in p.labels
    ]  # fmt: skip
    assert values(of_layer, "ioh_platter_operations_total") == [totals.count_total]
    assert values(of_layer, "ioh_platter_bytes_total") == [totals.bytes_total]
    assert values(of_layer, "ioh_platter_latency_seconds_count") == [totals.count_total]
    (time_s,) = values(of_layer, "ioh_platter_operation_seconds_total")
    assert time_s == pytest.approx((totals.latency_ns_total or 0) / 1e9)
    assert totals.size_lat is not None
    by_latency = totals.size_lat.by_latency()
    for edge_us in EDGES_US:
        below = sum(by_latency[: LATENCY_EDGES_US.index(edge_us) + 1])
        le = str(edge_us / 1e6)
        assert values(of_layer, "ioh_platter_latency_seconds_bucket", le=le) == [below]
    inside = "ioh_platter_latency_seconds_bucket"
    assert values(of_layer, inside, le="+Inf") == [totals.count_total]


def test_findings_are_one_zero_or_absent() -> None:
    page, sample = page_of(large_host()), large_host()
    assert not values(points(page), "ioh_finding")
    blind = (NotEvaluated("tcp_retransmits", "Retransmits", "no layer"),)
    snapshot = derive(sample, sample_after(sample))
    page.judge(replace(snapshot, findings=(FINDING,), not_evaluated=blind))
    found = points(page)
    assert values(found, "ioh_finding", rule="caching", layer="syscall") == [0]
    on = {"rule": "slow_disk", "layer": "block", "severity": "warning", "subject": r"sd\x0aa"}
    assert values(found, "ioh_finding", **on) == [1]
    assert len(values(found, "ioh_finding")) == 2


def test_an_unavailable_layer_is_down_and_an_idle_one_is_absent() -> None:
    sample = large_host()
    layers = {"block": Unavailable("no BPF"), "tcp": Unavailable("none", is_idle=True)}
    found = points(page_of(replace(sample, layers={**sample.layers, **layers})))
    assert values(found, "ioh_layer_up", layer="block") == [0]
    assert values(found, "ioh_layer_up", layer="syscall", source="bpf") == [1]
    assert not values(found, "ioh_layer_up", layer="tcp")


@pytest.mark.parametrize(("top", "rows"), [(0, 0), (2, 2), (None, 3)])
def test_breakdowns_appear_only_on_request_largest_rows_first(top: int | None, rows: int) -> None:
    found = points(page_of(large_host(), top))
    seen = [p for p in found if p.name == "ioh_syscall_process_read_bytes_total"]
    assert [p.labels["pid"] for p in seen] == ["pid2", "pid1", "pid0"][:rows]


@pytest.mark.parametrize("name", all_layers())
def test_names_follow_prometheus_conventions_and_are_unique(name: str) -> None:
    spec = all_layers()[name].spec
    sample = replace(large_host(), layers={name: layer(spec, ("p",))}, specs={name: spec})
    families: dict[str, Family] = {}
    for each in (*series_of(sample, Detail()), *table_series(sample, None)):
        assert families.setdefault(each.family.name, each.family) == each.family
        assert len(dict(each.labels)) == len(each.labels)
        assert not each.family.name.endswith(("_ns", "_us", "_ms", "_total", "_pct", "_per_s"))
        assert not {"job", "instance", "le"} & dict(each.labels).keys()
    found = points(page_of(sample, None), OPEN)
    assert len({(p.name, *sorted(p.labels.items())) for p in found}) == len(found)


@pytest.mark.parametrize(
    "version", [";version=", ";version=1.0.0\r\n X: y", f";version={'9' * 9999}"]
)
def test_the_version_sent_exists_whatever_is_requested(version: str) -> None:
    _, kind = page_of(large_host()).encoded(f"application/openmetrics-text{version}", zipped=False)
    assert kind.startswith("application/openmetrics-text; version=1.0.0;")


@pytest.mark.parametrize(
    ("one", "other"),
    [("\x85", "\udc85"), ("\\x85", "\x85"), ("\udcff" * 2000 + "a", "\udcff" * 2000 + "b")],
)
def test_two_labels_never_look_the_same(one: str, other: str) -> None:
    assert label_text(one) != label_text(other)
    assert printable(label_text(one), max_chars=1 << 20) == label_text(one)
