"""The address of a server counts while a process holds the server's lock."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fabric.bootstrap.records import running_server
from agent_fabric.infrastructure.persistence.runs.run_locks import SERVER, RunLocks
from agent_fabric.infrastructure.runs.log.layout import forget_server, record_server

URL = "http://127.0.0.1:8787"


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[RunLocks]:
    locks = RunLocks(tmp_path / "locks")
    assert locks.acquire(SERVER)
    yield locks
    locks.let_go()


def test_a_recorded_address_is_found_until_it_is_forgotten(tmp_path: Path, lock: RunLocks) -> None:
    assert running_server(tmp_path) is None
    record_server(tmp_path, URL)
    assert running_server(tmp_path) == URL
    forget_server(tmp_path)
    assert running_server(tmp_path) is None
    forget_server(tmp_path)
    lock.release(SERVER)


def test_an_address_without_its_server_is_not_believed(tmp_path: Path, lock: RunLocks) -> None:
    record_server(tmp_path, URL)
    lock.release(SERVER)
    assert running_server(tmp_path) is None


@pytest.mark.usefixtures("lock")
@pytest.mark.parametrize("content", ["", "ftp://127.0.0.1", "http://a\x1b[2J", "8787"])
def test_what_is_no_address_is_not_believed(tmp_path: Path, content: str) -> None:
    record_server(tmp_path, content)
    assert running_server(tmp_path) is None


@pytest.mark.usefixtures("lock")
def test_an_address_that_others_may_have_written_is_not_believed(tmp_path: Path) -> None:
    record_server(tmp_path, URL)
    (tmp_path / "server").chmod(0o666)
    assert running_server(tmp_path) is None
