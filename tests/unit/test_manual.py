"""The manual page, the completion and the table of keys are generated from their definitions."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

from ioh.model.errors import ExitCode
from ioh.tui.keys import KEYS
from tests.make_manual import COMPLETION, MANUAL, files
from tests.support.sessions import Shown


def test_what_is_generated_is_current() -> None:
    """``python -m tests.make_manual`` writes them."""
    made = files()
    assert {path: path.read_text(encoding="utf-8") for path in made} == made


def section(name: str) -> str:
    text = MANUAL.read_text(encoding="utf-8")
    return re.split(r"(?m)^\.SH ", text.partition(f"\n.SH {name}\n")[2])[0]


def test_every_column_of_text_is_among_the_fields(shown: Shown) -> None:
    head = next(line for line in shown("text", "sample", "-t", "1").splitlines() if "|" in line)
    columns = head.replace("|", " ").split()
    assert "p99_ms" in columns
    assert [name for name in columns if name not in section("FIELDS")] == []


def test_every_exit_status_is_explained() -> None:
    listed = re.findall(r"(?m)^\.TP\n(\d+)$", section("EXIT STATUS"))
    assert listed == [str(int(code)) for code in ExitCode]


def test_mandoc_has_no_complaints_about_the_page() -> None:
    shown = subprocess.run(["mandoc", "-Tlint", MANUAL], capture_output=True, check=False)
    assert shown.stdout == b""


def completed(*words: str, cwd: Path | None = None) -> set[str]:
    """What bash offers for the last word."""
    script = (
        f'. "{COMPLETION / "ioh.bash"}"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _ioh; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    shell = ["bash", "--norc", "-euc", script, "bash", "ioh", *words]
    shown = subprocess.run(shell, capture_output=True, text=True, check=True, cwd=cwd)
    assert shown.stderr == ""
    return set(shown.stdout.split())


def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    (tmp_path / "run.ioh").touch()
    assert completed("re") == {"record", "replay", "report"}
    assert completed("--no-t") == {"--no-tui"}
    assert completed("--theme", "") == {"auto", "dark", "light", "mono"}
    assert completed("text", "--no") == {"--no-layer", "--no-findings"}
    assert completed("export", "--format", "o") == {"openmetrics"}
    assert completed("explain", "nfsd") == {"nfsd_threads"}
    assert completed("text", "-t", "") == set()
    assert completed("bench", "re", cwd=tmp_path) == {"report"}
    assert completed("bench", "report", "--c") == {"--csv", "--class"}
    assert completed("replay", "r", cwd=tmp_path) == {"run.ioh"}
    assert completed("doctor", "", cwd=tmp_path) == {"--help"}


def test_the_keys_of_a_group_are_adjacent() -> None:
    groups = [group for group, _ in itertools.groupby(key.group for key in KEYS)]
    assert len(groups) == len(set(groups))
