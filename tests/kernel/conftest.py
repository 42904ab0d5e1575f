"""Devices that the kernel tests work on, always given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.rig import Loop, Volume


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    """A fresh ext4 of 512 MiB on a loop device of its own."""
    made = Volume(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """A bare loop device of 512 MiB without a file system."""
    made = Loop(tmp_path)
    try:
        yield made
    finally:
        made.close()
