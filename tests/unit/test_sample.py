"""The bundled recording is whole and harmless, and offered if live has nothing to show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ioh.commands.sample import SAMPLE, bundled_path, recording, why_nothing
from ioh.model.derive import derive
from ioh.model.sample import SOON, LayerSample, OpTotals, Sample, Unavailable
from ioh.model.snapshot import Snapshot
from ioh.pg.reader import CONNECTING
from tests.support import fakes
from tests.support.hostile import raw_chars
from tests.support.pty_screen import ROOT, PtyScreen
from tests.support.sessions import Shown, samples_of

KNOWN_PROGRAMS = ("fio", "kworker", "jbd2", "ext4", "loop", "swapper", "umount", "mount")


def bundled() -> list[Sample]:
    return samples_of(bundled_path(SAMPLE).read_bytes())


def test_the_recording_is_small_and_whole(shown: Shown) -> None:
    assert bundled_path(SAMPLE).stat().st_size <= 150_000
    assert "damaged" not in shown("verify", "sample")


def test_it_holds_no_names_of_the_machine_that_made_it() -> None:
    for sample in bundled():
        assert sample.hostname == "db01"
        for layer in sample.layers.values():
            if not isinstance(layer, LayerSample):
                continue
            for key in layer.tables.get("process", {}):
                assert key[1].startswith(KNOWN_PROGRAMS), key
            for key in layer.tables.get("file", {}):
                assert key[0].startswith("/srv/db"), key
            for key in layer.tables.get("connection", {}):
                assert all(end.startswith(("127.0.0.1:", "[::1]:")) for end in key), key
            assert set(layer.tables.get("interface", {("lo",): ()})) == {("lo",)}
            assert not any(raw_chars(note) for note in layer.notes)


@pytest.mark.parametrize("command", ["replay --as-text", "json", "report", "export"])
def test_every_command_accepts_its_name(command: str, shown: Shown) -> None:
    name, *options = command.split()
    assert "db01" in shown(name, "sample", *options) or name == "export"


def test_a_file_called_sample_comes_first(here: Path) -> None:
    assert recording("sample") == str(bundled_path(SAMPLE))
    (here / "sample").write_bytes(b"")
    assert recording("sample") == "sample"
    assert recording("other.ioh") == "other.ioh"


def of(layers: dict[str, LayerSample | Unavailable]) -> Snapshot:
    older, newer = fakes.sample(1, layers), fakes.sample(2, layers)
    return derive(older, newer)


NOTHING: dict[str, LayerSample | Unavailable] = {
    "program": Unavailable("no /proc", "none"),
    "wire": LayerSample("proc", {"in": OpTotals(bytes_total=5), "out": OpTotals(bytes_total=5)}),
    "platter": LayerSample("proc", {"read": OpTotals()}),
}


def test_when_there_is_nothing_to_show() -> None:
    assert why_nothing(derive(*fakes.first(2))) == ""
    assert why_nothing(of(NOTHING)) == "no /proc"
    assert why_nothing(of({})) == "no layer is available"
    # As with --layers tcp: it is there, and no other was requested.
    assert why_nothing(of({"wire": NOTHING["wire"]})) == ""
    idle = LayerSample("proc", {"read": OpTotals(count_total=0)})
    assert why_nothing(of(NOTHING | {"platter": idle})) == ""
    counted = LayerSample("proc", {"read": OpTotals()}, metrics={"merges_total": 3})
    assert why_nothing(of(NOTHING | {"platter": counted})) == ""
    gone = Unavailable("no NFS here", is_idle=True)
    # NFS alone, before the first mount: ioh waits for it.
    assert why_nothing(of({"program": gone})) == ""
    empty = why_nothing(of({"program": gone, "platter": NOTHING["platter"]}))
    assert empty == "/proc has no numbers for layer platter here"
    for soon in (CONNECTING, Unavailable("starting", SOON)):  # the numbers come by themselves
        assert why_nothing(of({"platter": soon})) == ""


NOTHING_TO_SHOW = """\
import sys
from tests.support import fakes
from tests.unit.test_sample import NOTHING
fakes.quiet = lambda count: [fakes.sample(tick, NOTHING) for tick in range(count)]
fakes.install(kind="quiet", delay_s=0.05)
from ioh.commands import main
sys.exit(main(sys.argv[1:]))
"""


def talk(*args: str) -> PtyScreen:
    """A command with nothing to show, at a terminal."""
    return PtyScreen([sys.executable, "-c", NOTHING_TO_SHOW, *args, "-t", "2"], ROOT)


@pytest.mark.parametrize("words", [("text",), ("live", "--no-tui")])
def test_text_mentions_it_and_goes_on(words: tuple[str, ...]) -> None:
    with talk(*words) as on:
        assert on.wait() == 0
        assert "not shown: no /proc" in on.text
        assert on.text.count("ioh replay sample") == 1
