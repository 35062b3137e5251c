"""The files of one server: private, whole, and never too large."""

import os
import stat
from pathlib import Path

import pytest

from agent_fabric.infrastructure.models.servers.locks import FileLock, is_held
from agent_fabric.infrastructure.models.servers.server_files import MAX_LOG_BYTES, Endpoint, ServerFiles

LISTENING = Endpoint(pid=4711, port=8080, api_key="k", slots=2, context_window=8192, idle_s=300.0)


def test_what_a_server_announces_is_read_back_until_it_withdraws(tmp_path: Path) -> None:
    files = ServerFiles(tmp_path, "a")
    files.announce(LISTENING)
    assert files.listening() == LISTENING
    assert stat.S_IMODE(files.state.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    files.withdraw()
    files.withdraw()
    assert files.listening() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}', "[" * 100_000, "null"])
def test_nonsense_in_a_state_file_is_no_server(tmp_path: Path, text: str) -> None:
    files = ServerFiles(tmp_path, "a")
    files.state.write_text(text)
    files.lock.write_text(text)
    assert files.listening() is None
    assert files.holder() is None


def test_a_log_that_grows_too_large_keeps_its_end_and_its_writer(tmp_path: Path) -> None:
    files = ServerFiles(tmp_path, "a")
    writer = files.open_log()
    try:
        os.write(writer, b"old\n" * (MAX_LOG_BYTES // 4 + 1) + b"last words\n")
        files.shorten_log()
        os.write(writer, b"and more\n")
        assert files.log.stat().st_size < MAX_LOG_BYTES / 4
        assert files.log_tail(2) == ["last words", "and more"]
    finally:
        os.close(writer)


def test_the_log_of_the_server_before_is_kept(tmp_path: Path) -> None:
    files = ServerFiles(tmp_path, "a")
    for text in (b"first", b"second"):
        log = files.open_log()
        os.write(log, text)
        os.close(log)
    assert files.log.read_bytes() == b"second"
    assert (tmp_path / "a.log.old").read_bytes() == b"first"


def test_a_lock_is_held_by_one_and_a_shared_one_by_many(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    first = FileLock.take(path)
    assert first is not None
    assert is_held(path)
    assert FileLock.take(path) is None
    assert FileLock.take(path, shared=True) is None
    first.release()
    first.release()
    readers = [FileLock.take(path, shared=True) for _ in range(3)]
    assert None not in readers
    assert not is_held(path)
    assert FileLock.take(path) is None
    for reader in readers:
        assert reader is not None
        reader.release()


def test_a_lock_whose_file_was_removed_is_not_taken_for_one_on_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock.take(path)
    assert lock is not None
    assert lock.is_on(path)
    path.unlink()
    assert not lock.is_on(path)
    path.touch()
    assert not lock.is_on(path)
    lock.release()
