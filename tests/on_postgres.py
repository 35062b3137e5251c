"""Lets every server and command of the tests keep its runs in PostgreSQL, where FABRIC_TEST_STORE=postgres says so."""

from collections.abc import Iterator

import pytest

from agent_fabric.config.store_address import URL_VARIABLE
from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from postgres_cluster import Cluster, run_cluster, run_pgbouncer


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about the SQLite file."""
    left_out = [item for item in items if item.get_closest_marker("sqlite")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def store_cluster() -> Iterator[Cluster]:
    """The server, for all tests of a process."""
    with run_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def store_database(store_cluster: Cluster) -> str:
    """A database with tables."""
    url = store_cluster.create_database()
    migrate(url)
    return url


@pytest.fixture(scope="session")
def store_url(store_cluster: Cluster, store_database: str) -> Iterator[str]:
    """Its address. Through pgbouncer, whose connections know the tables already: each new one takes 50 ms for that."""
    with run_pgbouncer(store_cluster, size=12) as port:
        yield store_database.replace(f":{store_cluster.port}/", f":{port}/")


@pytest.fixture(autouse=True)
def store_in_postgres(
    store_cluster: Cluster, store_database: str, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Let the store of this test be in PostgreSQL; it is empty again afterwards."""
    monkeypatch.setenv(URL_VARIABLE, store_url)
    monkeypatch.delenv("FABRIC_TEST_STORE", raising=False)  # it names no setting
    yield
    store_cluster.empty(store_database)
