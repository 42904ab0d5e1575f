"""Pages in a browser: no requests, no error messages, every chart drawn, nothing too wide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.bench.grade import card_of, measured_of, read_bands
from ioh.bench.page import render_page
from ioh.model.sample import LayerSample, Sample
from tests.servers.chromium import Chromium
from tests.support import fakes
from tests.unit.bench_results import HOSTILE, results
from tests.unit.test_recording_page import finding, forged, page_of

COLORS = "[...document.querySelectorAll('canvas')].map(c => { const d = c.getContext('2d')"
COLORS += ".getImageData(0, 0, c.width, c.height).data; return new Set(d).size })"
HEAT = "document.querySelector('canvas[data-heat]')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    chromium = Chromium(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


def opened(browser: Chromium, path: Path, width: int, scheme: str) -> None:
    browser.requests.clear()
    browser.complaints.clear()
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=media)
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=width, height=900, deviceScaleFactor=1, mobile=width < 500,
    )  # fmt: skip
    browser.call("Page.navigate", url=path.as_uri())
    browser.wait_for("Page.loadEventFired")


# Each width and each scheme, once: the scheme changes no width.
WAYS = pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1600, "light")])


@WAYS
@pytest.mark.parametrize("host", ["db01", HOSTILE])
def test_the_page_of_a_benchmark_is_drawn_without_requests(
    browser: Chromium, tmp_path: Path, host: str, scheme: str, width: int
) -> None:
    made = results(host=host)
    page = tmp_path / "report.html"
    page.write_text(render_page(made, card_of(measured_of(made), read_bands("today"), "nvme")))
    opened(browser, page, width, scheme)
    is_as_it_should_be(browser, page, width, scheme)
    assert browser.value("[...document.querySelectorAll('canvas')].length") == 3 + 4 * 3 + 1
    assert browser.value("document.querySelector('h1').textContent").startswith(host[:4])


def is_as_it_should_be(browser: Chromium, page: Path, width: int, scheme: str) -> None:
    assert browser.requests == [page.as_uri(), "data:,"] or browser.requests == [page.as_uri()]
    assert browser.complaints == []
    assert browser.value("document.querySelectorAll('canvas:not([data-drawn])').length") == 0
    assert min(browser.value(COLORS), default=5) > 4  # an empty canvas has one
    assert browser.value("document.documentElement.scrollWidth") <= width
    is_dark = (
        browser.value("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    )
    assert is_dark == (scheme == "dark")
    assert browser.value("document.images.length") == 0


def without_histograms(sample: Sample) -> Sample:
    """The sample as it would be without BPF, from /proc."""
    layers = {
        name: replace(
            layer,
            ops={op: replace(x, latency=None, size_lat=None) for op, x in layer.ops.items()},
            parts={},
        )
        for name, layer in sample.layers.items()
        if isinstance(layer, LayerSample)
    }
    return replace(sample, layers=layers)


@WAYS
@pytest.mark.parametrize("name", ["db01", HOSTILE, "quiet", "proc"])
def test_the_page_of_a_recording_is_drawn_without_requests(
    browser: Chromium, tmp_path: Path, name: str, scheme: str, width: int
) -> None:
    samples = fakes.quiet(12) if name == "quiet" else fakes.first(12)
    if name == "proc":
        samples = [without_histograms(sample) for sample in samples]
    elif name == HOSTILE:
        samples = forged(name, 2)
    marks = [(samples[3].time_unix_s, name)]
    page = tmp_path / "recording.html"
    page.write_text(page_of(list(samples), findings=[finding(name)], marks=marks, utc=True))
    opened(browser, page, width, scheme)
    is_as_it_should_be(browser, page, width, scheme)
    canvases = browser.value("document.querySelectorAll('canvas').length")
    assert canvases == {"db01": 9, "quiet": 2, "proc": 9}.get(name, canvases)
    assert canvases > 2 or name != HOSTILE
    if name == "db01":
        ticks = browser.value(f"Chart.getChart({HEAT}).scales.x.ticks.map(tick => tick.label)")
        assert {"15:44:50", "15:44:52", "15:44:56"} <= set(ticks)


def test_another_scheme_and_printing_redraw_the_charts(browser: Chromium, tmp_path: Path) -> None:
    made = results()
    page = tmp_path / "report.html"
    page.write_text(render_page(made, card_of(measured_of(made), read_bands("today"), "nvme")))
    opened(browser, page, 1600, "dark")
    browser.value("document.querySelectorAll('canvas').forEach(c => delete c.dataset.drawn)")
    media = [{"name": "prefers-color-scheme", "value": "light"}]
    browser.call("Emulation.setEmulatedMedia", features=media)
    browser.value(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
    )
    assert browser.value("document.querySelectorAll('canvas:not([data-drawn])').length") == 0
    assert len(browser.call("Page.printToPDF", printBackground=True)["data"]) > 10_000
    assert browser.complaints == []
