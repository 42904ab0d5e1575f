"""`ioh serve --install-unit`: what the unit says, and when it is refused."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from ioh.commands import main
from ioh.model.errors import ExitCode, IohError
from ioh.serve import unit
from tests.support.sessions import Shown

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "contrib" / "systemd" / "ioh.service"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine whose ioh belongs to root and is in nobody's home."""
    monkeypatch.setattr(unit, "_HIDDEN", ())
    monkeypatch.setattr(unit, "UNIT_DIR", tmp_path)
    for each in (unit.install_unit, unit.refuse_another):
        monkeypatch.setattr(each, "__defaults__", (tmp_path,))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(unit, "_refuse_others_than_root", lambda _: None)
    return tmp_path


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_it_is_shown_and_installed_with_the_other_options(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, "y\n")
    words = ["--listen", ":9877", "--comm", 'a "b" $c %d']
    assert main(["serve", *words[:2], "--install-unit", *words[2:]]) == ExitCode.OK
    out, err = capfd.readouterr()
    text = (place / "ioh.service").read_text()
    assert out.startswith(text)
    assert "systemctl enable --now ioh" in err
    (start,) = re.findall(r"^ExecStart=.*", text, re.MULTILINE)
    options = r'-I -B -m ioh serve --listen :9877 --comm "a \"b\" $$c %%d"'
    assert start == f"ExecStart={sys.executable} {options}"
    assert (place / "ioh.service").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in place.iterdir()] == ["ioh.service"]


def test_a_caller_gets_the_unit_and_the_command(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A sudo rule for ioh alone does not allow changing root's services."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    answer(monkeypatch, "y\n")
    assert main(["serve", "--install-unit", "--listen", ":9999", "--comm", "a b"]) == ExitCode.OK
    out, err = capfd.readouterr()
    assert out == unit.unit_text(["--listen", ":9999", "--comm", "a b"])
    command = "sudo ioh serve --install-unit --listen :9999 --comm 'a b'"
    assert f"Run: {command} | sudo tee {place}/ioh.service\n" in err
    assert not list(place.iterdir())


def test_a_unit_that_differs_is_not_replaced(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, "y\ny\ny\n")
    for _ in range(2):  # the same one again
        assert main(["serve", "--install-unit"]) == ExitCode.OK
    text = (place / "ioh.service").read_text()
    capfd.readouterr()
    assert main(["serve", "--install-unit", "--listen", ":9999"]) == ExitCode.USAGE
    assert "ioh.service exists and differs" in capfd.readouterr().err
    assert (place / "ioh.service").read_text() == text


@pytest.mark.parametrize("said", ["n\n", ""])
def test_nothing_is_installed_without_a_yes(
    said: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, said)
    assert main(["serve", "--install-unit"]) == ExitCode.OK
    assert capfd.readouterr().err == "ioh: not installed\n"
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--listen", "9877"], "is not an address"),
        (["--web-config", "web.yml"], "no current directory"),
        (["--comm", "a\nb"], "cannot be used in a unit"),
        (["--pg", "host=db password=tape"], "--pg may contain a password"),
    ],
)
def test_options_that_a_service_cannot_use_are_refused(
    words: list[str], why: str, place: Path, refused: Shown
) -> None:
    assert why in refused("serve", "--install-unit", *words)


def test_an_ioh_in_a_home_or_changeable_by_others_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(unit, "_HIDDEN", (str(ROOT),))
    with pytest.raises(IohError, match="a service cannot reach") as told:
        unit.unit_text([])
    assert "--install" in told.value.hint
    tmp_path.chmod(0o777)
    with pytest.raises(IohError, match="users other than root can change"):
        unit._refuse_others_than_root(tmp_path)


@pytest.mark.parametrize(
    ("modes", "refused_path"),
    [
        ({}, ""),
        ({"srv": 0o1777}, ""),  # sticky: others can add names, not remove these
        ({"srv": 0o777}, "/srv"),
        ({"ioh": 0o1777}, "/srv/ioh"),
    ],
)
def test_a_parent_directory_that_others_can_change_is_refused(
    modes: dict[str, int], refused_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ""
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", lambda path: Mock(st_uid=0, st_mode=modes.get(path.name, 0)))
        try:
            unit._refuse_others_than_root(Path("/srv/ioh"))
        except IohError as error:
            told = error.cause
    assert told == (
        refused_path and f"users other than root can change {refused_path}, and gain BPF"
    )


def test_the_interpreter_behind_a_link_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own, others = tmp_path / "own", tmp_path / "others"
    own.mkdir()
    others.mkdir()
    (others / "python3").touch()
    (own / "python").symlink_to(others / "python3")
    looked: list[Path] = []
    monkeypatch.setattr(unit, "_refuse_others_than_root", looked.append)
    monkeypatch.setattr(unit, "_HIDDEN", ())
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    unit.unit_text([])
    assert {own, others} < set(looked)


def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(IohError, match="cannot write") as told:
        unit.install_unit("", tmp_path / "none")
    assert "root" in told.value.hint


def test_the_shipped_unit_is_for_the_installed_copy() -> None:
    text = SHIPPED.read_text()
    assert "\nExecStart=/opt/ioh/.venv/bin/python -I -B -m ioh serve\n" in text
    assert text.count("\nExecStart=") == 1
