"""Fixtures of the tests with PostgreSQL: one server for a module, and one ioh that watches it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.kernel.rig import Ioh
from tests.servers.postgres import Cluster
from tests.servers.test_db import watched


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with closing(Cluster()) as made:
        yield made


@pytest.fixture(scope="module")
def outside(cluster: Cluster) -> Iterator[Ioh]:
    """Counts from outside what the server does, in all tests of a module."""
    with watched() as ioh:
        yield ioh
