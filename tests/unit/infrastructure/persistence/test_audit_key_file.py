"""The user's key: made once, and never silently done without where there is one."""

from pathlib import Path

import pytest

from agent_fabric.domain.audit.key import UNKEYED
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.audit.audit_key_file import audit_key


def key_file(home: Path) -> Path:
    return home / ".local" / "share" / "agent-fabric" / "audit.key"


def test_the_key_is_made_once_and_only_for_its_user(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    key = audit_key(environ)
    assert key != UNKEYED
    assert audit_key(environ) == key
    assert key_file(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_key_is_an_error_and_not_the_same_as_none(tmp_path: Path, content: bytes) -> None:
    path = key_file(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="damaged") as raised:
        audit_key({"HOME": str(tmp_path)})
    assert "backup" in raised.value.hint
    assert path.read_bytes() == content


def test_who_has_no_home_has_no_key(tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    assert audit_key({"HOME": str(no_folder)}) == UNKEYED
