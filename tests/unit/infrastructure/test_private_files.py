"""A file of secrets, with other processes around."""

import fcntl
import os
from pathlib import Path

import pytest

from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.private_files import MAX_BYTES, PrivateFile


def test_a_process_that_never_lets_go_is_not_waited_for_forever(tmp_path: Path) -> None:
    file = PrivateFile(tmp_path / "a.sealed", lock_timeout_s=0.05)
    other = os.open(tmp_path / "a.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="another process"), file.hold():
            raise AssertionError("got in")
    finally:
        os.close(other)
    with file.hold():
        file.replace(b"content")
    assert file.read() == b"content"


def test_its_stamp_changes_with_its_content(tmp_path: Path) -> None:
    file = PrivateFile(tmp_path / "a.sealed")
    stamps = [file.stamp()]
    for content in (b"one", b"two", b"two"):
        with file.hold():
            file.replace(content)
        stamps.append(file.stamp())
    assert stamps[0] is None
    assert len(set(stamps)) == 4


def test_a_file_far_too_large_to_be_ours_is_not_read_whole(tmp_path: Path) -> None:
    file = PrivateFile(tmp_path / "a.sealed")
    with file.hold():
        file.replace(b"")
    os.truncate(file.path, MAX_BYTES + 1)
    with pytest.raises(StoreUnavailable, match="larger"):
        file.read()


@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_what_is_no_file_is_refused_or_absent(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.sealed"
    if kind == "folder":
        path.mkdir()
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            PrivateFile(path).read()
    else:
        path.symlink_to(tmp_path / "nowhere")
        assert PrivateFile(path).read() is None
