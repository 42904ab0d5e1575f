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

    The mount is not used: it keeps the client's module in use.
    """
    with (
        mounted("4.2", client=2, place="/mnt/idle"),
        watching("nfs_client", "tcp", "nfs_server") as ioh,
    ):
        yield ioh


@pytest.fixture(params=["3", "4.2"])
def version(request: pytest.FixtureRequest) -> str:
    """A version of NFS; tests that need others have their own."""
    asked: str = request.param
    return asked


@pytest.fixture
def ioh(both_ends: Ioh) -> Iterator[Part]:
    """What ioh prints on both ends during one test."""
    with part_of(both_ends) as part:
        yield part
