"""The machine's one NFS server, and one ioh that watches both ends; they live as long as it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.part import Part, part_of
from tests.kernel.rig import Ioh
from tests.vm.nfs import Server, mounted, watching


@pytest.fixture(scope="session")
def server() -> Server:
    return Server()


@pytest.fixture(scope="session")
def both_ends(server: Server) -> Iterator[Ioh]:
    """Starting ioh takes half a minute under emulation: one for all tests that need no other.

    The mount keeps the client's module in use, and is not used.
    """
    with (
        mounted("4.2", client=2, place="/mnt/idle"),
        watching("nfs_client", "tcp", "nfs_server") as ioh,
    ):
        yield ioh


@pytest.fixture(params=["3", "4.2"])
def version(request: pytest.FixtureRequest) -> str:
    """Of NFS; tests that need others say which."""
    asked: str = request.param
    return asked


@pytest.fixture
def ioh(both_ends: Ioh) -> Iterator[Part]:
    """What both ends tell of one test."""
    with part_of(both_ends) as part:
        yield part
