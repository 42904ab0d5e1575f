"""Rules about the source tree that no linter checks."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("*.py", "*.c", "*.h", "*.sh", "*.toml", "*.yaml", "*.md")
FOLDERS = ("ioh", "probes", "tests", ".ci")
# Paths of the machine that the code was written on.
PRIVATE = ("/" + "work/", "/" + "root/.")


def sources() -> list[Path]:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    files += ROOT.glob("*")
    return sorted(
        path for path in files if path.is_file() and any(path.match(pattern) for pattern in SOURCES)
    )


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_source_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [word for word in PRIVATE if word in text]
    assert "\r" not in text
    assert text == "" or (text.endswith("\n") and not text.endswith("\n\n"))


@pytest.mark.parametrize(
    "path", [*ROOT.glob("tests/*/[!r]*.sh"), ROOT / "ioh.sh", ROOT / ".ci/run"]
)
def test_scripts_are_executable(path: str) -> None:
    assert (ROOT / path).stat().st_mode & 0o111 == 0o111
