"""One PostgreSQL for all tests of this folder."""

from collections.abc import Iterator

import pytest

from postgres_cluster import Cluster, run_cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    with run_cluster() as running:
        yield running


@pytest.fixture
def database_url(postgres: Cluster) -> str:
    """The address of an empty database."""
    return postgres.create_database()
