"""A bench at a terminal: the screen with one more line, which may be left without ending it."""

from __future__ import annotations

from pathlib import Path

from ioh.bench.results import load
from tests.kernel.rig import Volume, ioh_command
from tests.kernel.test_bench import children_named_fio
from tests.pty_screen import LEFT, PtyScreen

PLAN = """
summary = "a test"
size = "32m"
run_s = 6

[[test]]
kind = "randread"
block = "8k"
users = [1, 2]
"""
CTRL_C = "\x03"


def started(volume: Volume, folder: Path, *options: str) -> PtyScreen:
    (folder / "plan.toml").write_text(PLAN)
    words = ("bench", str(volume.mount), "--plan", str(folder / "plan.toml"), "-o", "out")
    return PtyScreen(ioh_command(*words, *options), folder)


def test_q_leaves_the_screen_and_the_bench_goes_on(tmp_path: Path, volume: Volume) -> None:
    with started(volume, tmp_path) as shown:
        shown.wait_for("REPLAY", "test 1 of 2: randread-8k-1u")
        shown.wait_for("|  randread-8k-1u: ok")
        shown.press("q")
        shown.wait_until(lambda: LEFT in shown.shown)
        assert shown.wait() == 0
        last = shown.text[shown.text.rindex("test   ") :]
        assert last.count("randread-8k-1u ") == last.count("randread-8k-2u ") == 1
        assert "look at report.html" in last
    assert load(str(tmp_path / "out")).is_complete
    assert (tmp_path / "out" / "report.html").exists()


def test_ctrl_c_on_the_screen_ends_the_bench(tmp_path: Path, volume: Volume) -> None:
    with started(volume, tmp_path) as shown:
        shown.wait_for("REPLAY", "test 1 of 2: randread-8k-1u")
        shown.press(CTRL_C)
        assert shown.wait() == 130
        assert "ended; go on with: ioh bench --resume " in shown.text
    assert children_named_fio(volume.mount) == []


def test_the_screen_ends_with_the_bench(tmp_path: Path, volume: Volume) -> None:
    with started(volume, tmp_path, "-u", "1") as shown:
        shown.wait_for("REPLAY", "test 1 of 1: randread-8k-1u")
        assert shown.wait() == 0
        assert LEFT in shown.shown
        assert "Traceback" not in shown.text
    assert list(volume.mount.glob("ioh-bench*")) == []
