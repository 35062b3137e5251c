"""Which of two releases is the older one."""

import pytest

from agent_fabric.domain.fleet.releases import is_older


@pytest.mark.proves("FL-29")
@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("0.4.9", "0.5.0", True),
        ("0.5", "0.5.0", False),
        ("0.5.0", "0.5.0", False),
        ("0.10.0", "0.9.0", False),
        ("0.6.0rc1", "0.6.0", True),
        ("0.6.0.dev3", "0.5.9", False),
        ("0.6.0+build", "0.6.0", False),
        ("newest", "0.0.1", True),
        ("", "0.0.1", True),
        ("9" * 5_000, "0.0.1", True),
    ],
)
def test_an_older_version_is_told_from_a_newer_one(version: str, than: str, older: bool) -> None:
    assert is_older(version, than) is older
