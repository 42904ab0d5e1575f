"""The page that is scraped: the newest Sample and findings in Prometheus' formats."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping
from itertools import chain

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from ioh import __version__
from ioh.model.sample import LayerSample, Sample, Unavailable
from ioh.model.snapshot import Snapshot
from ioh.sinks.series import Detail, Family, Series, label_text, series_of, table_series

# A factor of 4 from 16 µs to 1 s: each edge adds a series for every operation.
EDGES_US = tuple(1 << n for n in range(4, 21, 2))
_DETAIL = Detail(EDGES_US, lean_parts=True)
_OPEN_METRICS = "application/openmetrics-text"

_INFO = Family("ioh_build_info", "gauge", "", "Version of ioh, and the kernel.")
_TIME = Family("ioh_sample_time_seconds", "gauge", "seconds", "When these numbers were read.")
_OWN = Family("ioh_cpu_seconds", "counter", "seconds", "CPU time of ioh and of its probes.")
_LAYER = Family("ioh_layer_up", "gauge", "", "1: measured, by BPF or /proc; 0: not available.")
_FINDING = Family(
    "ioh_finding", "gauge", "", "1: found by the rule; 0: not found; none: not evaluated."
)


class Page:
    """Holds the published sample; each format is encoded at its first scrape.

    ``top`` rows of each breakdown, None for all; ``rules`` maps each rule to its layer.
    """

    def __init__(self, top: int | None, rules: Mapping[str, str]) -> None:
        self._top, self._rules = top, rules
        self._sample: Sample | None = None
        self._snapshot: Snapshot | None = None
        self._pages: dict[tuple[str, bool], bytes] = {}
        self._lock = threading.Lock()

    def publish(self, sample: Sample) -> None:
        """Set the sample to show."""
        with self._lock:
            self._sample, self._pages = sample, {}

    def judge(self, snapshot: Snapshot) -> None:
        """Set the interval whose findings to show."""
        with self._lock:
            self._snapshot, self._pages = snapshot, {}

    def encoded(self, accept: str, *, zipped: bool) -> tuple[bytes, str]:
        """The page and its content type, in the format that ``accept`` prefers."""
        # Not the header itself: an invalid version would raise in choose_encoder().
        is_open = _OPEN_METRICS in accept
        encode, content_type = choose_encoder(f"{_OPEN_METRICS};version=1.0.0" if is_open else "")
        with self._lock:
            key = content_type, zipped
            page = self._pages.get(key)
            if page is None:
                text = encode(self)
                page = self._pages[key] = gzip.compress(text, 1) if zipped else text
        return page, content_type

    def collect(self) -> list[Metric]:
        """The families with their series; called by prometheus_client's encoders."""
        sample = self._sample
        families: dict[str, Metric] = {}
        if sample is None:
            return []
        tables = () if self._top == 0 else table_series(sample, self._top)
        of_ioh = chain(_of_ioh(sample), self._findings(sample))
        for family, suffix, labels, value, le in chain(of_ioh, series_of(sample, _DETAIL), tables):
            name, kind, unit, text = family
            metric = families.get(name)
            if metric is None:
                metric = families[name] = Metric(name, text, kind, unit)
            values = dict(labels)
            if le:
                values["le"] = le
            metric.add_sample(name + suffix, values, value)
        return list(families.values())

    def _findings(self, sample: Sample) -> Iterator[Series]:
        if self._snapshot is None:
            return
        host = ("host", label_text(sample.hostname))
        findings = {finding.rule for finding in self._snapshot.findings}
        blind = {rule.rule for rule in self._snapshot.not_evaluated}
        for rule, layer in self._rules.items():
            if rule not in findings | blind:
                yield Series(_FINDING, "", (host, ("rule", rule), ("layer", layer)), 0)
        for each in self._snapshot.findings:
            labels = (host, ("rule", each.rule), ("layer", each.layer))
            more = (("severity", each.severity), ("subject", label_text(each.subject)))
            yield Series(_FINDING, "", (*labels, *more), 1)


def _of_ioh(sample: Sample) -> Iterator[Series]:
    host = ("host", label_text(sample.hostname))
    info = (host, ("version", __version__), ("kernel", label_text(sample.kernel)))
    yield Series(_INFO, "", info, 1)
    yield Series(_TIME, "", (host,), sample.time_unix_s)
    for of, total_ns in (("ioh", sample.self_cpu_ns_total), ("probes", sample.bpf_ns_total)):
        if total_ns is not None:
            yield Series(_OWN, "_total", (host, ("of", of)), total_ns / 1e9)
    for name, layer in sample.layers.items():
        labels = (host, ("layer", label_text(name)))
        if isinstance(layer, LayerSample):
            yield Series(_LAYER, "", (*labels, ("source", layer.source)), 1)
        elif isinstance(layer, Unavailable) and not layer.is_idle:
            yield Series(_LAYER, "", labels, 0)
