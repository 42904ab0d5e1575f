"""The documentation: its links work, and what it names exists."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from ioh.commands import commands
from ioh.layers import all_layers
from ioh.recorder.rotation import Recorder
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from tests import situations
from tests.support import fakes

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
README_LINES_MAX = 180
WALK_LINES_MAX = 60


def text_of(path: Path) -> str:
    """A document without its code blocks."""
    return re.sub(r"(?ms)^```.*?^```$", "", path.read_text(encoding="utf-8"))


def anchor_of(heading: str) -> str:
    """The anchor that GitHub and GitLab give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {anchor_of(heading) for heading in re.findall(r"(?m)^#+ (.+)$", text_of(path))}


def broken_links(path: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
        if re.match(r"https?://", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def test_every_link_has_a_target(tmp_path: Path) -> None:
    assert {path: broken_links(path) for path in DOCUMENTS} == {path: [] for path in DOCUMENTS}
    page = tmp_path / "page.md"
    page.write_text("# One, two\n[a](#one-two) [b](#three) [c](other.md) [d](page.md#one-two)\n")
    assert broken_links(page) == ["#three", "other.md"]


def test_every_document_is_reached_from_the_readme() -> None:
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)\s#]+\.md)", text_of(page))
        left += {(page.parent / link).resolve() for link in links} - reached
    assert set(DOCUMENTS) <= reached


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES_MAX


def test_every_layer_has_its_page() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "layers").glob("*.md")} - {"README"}
    assert pages == set(all_layers())


def test_every_command_exists() -> None:
    code = "".join(
        block
        for path in DOCUMENTS
        for block in re.findall(r"(?ms)^```\n(.*?)^```$", path.read_text(encoding="utf-8"))
    )
    pattern = r"(?m)(?:^|sudo |\| |db01 )(?:\./ioh\.sh|ioh) ([a-z]\w*)"
    assert set(re.findall(pattern, code)) <= {command.name for command in commands()}


def walk() -> list[str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("## The walk of one Sample\n")[2].partition("\n## ")[0]
    assert len(section.splitlines()) <= WALK_LINES_MAX
    return re.findall(r"`([\w./]+: [\w.]+)`", section)


@pytest.mark.parametrize("step", walk())
def test_every_step_of_the_walk_exists(step: str) -> None:
    place, name = step.split(": ")
    if place.endswith(".c"):
        assert re.search(rf"\b{name}\(", (ROOT / place).read_text(encoding="utf-8"))
        return
    found: object = importlib.import_module(place)
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)


def steps(part: str) -> list[str]:
    """The functions of one part of the walk, by their qualified names."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition(f"\n{part}:\n\n")[2].partition("\n\n")[0]
    return [name for _, name in re.findall(r"`([\w.]+): ([\w.]+)`", section)]


def in_order(names: list[str], go: Callable[[], object]) -> list[str]:
    """Those of the named functions that ``go`` calls, in the order of their first calls."""
    called: list[str] = []
    places = {_code_of(name): name for name in names}

    def note(frame: FrameType, event: str, _: object) -> None:
        name = places.get((frame.f_code.co_filename, frame.f_code.co_firstlineno))
        if event == "call" and name is not None and name not in called:
            called.append(name)

    sys.setprofile(note)
    try:
        go()
    finally:
        sys.setprofile(None)
    return called


def _code_of(name: str) -> tuple[str, int]:
    place = next(step.split(": ")[0] for step in walk() if step.endswith(f": {name}"))
    found: object = importlib.import_module(place)
    for part in name.split("."):
        found = getattr(found, part)
    code = inspect.unwrap(found).__code__  # type: ignore[arg-type]
    return code.co_filename, code.co_firstlineno


def test_a_sample_takes_the_documented_walk_to_a_file_and_back(tmp_path: Path) -> None:
    path = str(tmp_path / "a.ioh")
    samples = fakes.first(3)

    def there() -> None:
        recorder = Recorder(lambda _: FileOutput(path))
        for sample in samples:
            recorder.write(sample)
        recorder.close()

    def back() -> None:
        with Session(path) as session:
            assert [tick.sample for tick in session.ticks(0)] == samples

    assert in_order(steps("To a file"), there) == steps("To a file") != []
    assert in_order(steps("And back"), back) == steps("And back") != []


def test_the_six_situations_are_as_the_screen_shows_them() -> None:
    """``python -m tests.situations`` writes them again; each has the step that its text names."""
    assert situations.PAGE.read_text() == situations.page()
