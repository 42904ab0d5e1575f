"""What root's use of ioh.sh leaves behind, and where it puts things that it may not put here."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machine import Machine

OWNER = 12345  # any user but root; needs no entry in /etc/passwd


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Not in pytest's own folder, which other users may not enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    machine = Machine(folder)
    machine.log.touch()
    machine.log.chmod(0o666)
    yield machine
    shutil.rmtree(folder)


def test_root_in_a_users_checkout_leaves_it_to_the_user(machine: Machine) -> None:
    for path in [machine.checkout, *machine.checkout.rglob("*")]:
        os.chown(path, OWNER, OWNER)
    status, _ = machine.run("text")
    assert status == 0
    assert machine.calls[-1] == "python -I -B -m ioh text"
    made = [machine.checkout / ".venv", *(machine.checkout / ".venv").rglob("*")]
    assert {path.lstat().st_uid for path in made} == {OWNER}


def test_a_checkout_that_cannot_be_written_is_left_alone(machine: Machine) -> None:
    machine.checkout.chmod(0o755)
    status, said = machine.run("text", user=OWNER, UID=str(OWNER))
    assert status == 0
    assert ".local/share/ioh/venv-" in said[0]
    assert machine.run("text", user=OWNER, UID=str(OWNER)) == (0, [])
    assert machine.litter == []
    assert not (machine.checkout / ".venv").exists()
