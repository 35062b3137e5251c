"""One PostgreSQL for all tests of this folder, started by the first one that needs it."""

from collections.abc import Callable, Iterator

import pytest

from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from postgres_cluster import Cluster, run_cluster, run_pgbouncer


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with run_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def _tables(cluster: Cluster) -> str:
    url = cluster.create_database()
    migrate(url)
    return url


@pytest.fixture
def database_url(cluster: Cluster, _tables: str) -> Iterator[str]:
    """The address of a database whose tables are all empty."""
    yield _tables
    cluster.empty(_tables)


@pytest.fixture(scope="session")
def through_pgbouncer(cluster: Cluster) -> Iterator[Callable[[str], str]]:
    """What makes an address lead through pgbouncer, which lends a connection for each transaction."""
    with run_pgbouncer(cluster) as port:
        yield lambda url: url.replace(f":{cluster.port}/", f":{port}/")


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A PostgreSQL that the test may stop."""
    with run_cluster() as running:
        yield running
