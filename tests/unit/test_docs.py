"""The documents: links lead somewhere, and what they name exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from ioh.commands import commands
from ioh.layers import all_layers
from tests import situations

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def text_of(path: Path) -> str:
    """A document without its blocks of code."""
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


def test_every_link_leads_somewhere() -> None:
    assert {path: broken_links(path) for path in DOCUMENTS} == {path: [] for path in DOCUMENTS}


def test_every_document_is_reached_from_the_readme() -> None:
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)\s#]+\.md)", text_of(page))
        left += {(page.parent / link).resolve() for link in links} - reached
    assert set(DOCUMENTS) <= reached


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


def test_the_six_situations_are_as_the_screen_shows_them() -> None:
    """Made anew by ``python -m tests.situations``; each has the step that its text names."""
    assert situations.PAGE.read_text() == situations.page()
