"""The profile for macOS, as text: it has not run on a Mac."""

from pathlib import Path

import pytest

from agent_fabric.infrastructure.sandbox.seatbelt import seatbelt_profile

WORKSPACE, TEMPORARY = Path("/Users/ada/project"), Path("/private/var/folders/x/fabric-box")


def rules(hidden: Path | None = None) -> list[str]:
    return seatbelt_profile(WORKSPACE, TEMPORARY, hidden=hidden).splitlines()


def test_everything_is_closed_at_first_and_the_network_stays_so() -> None:
    lines = rules()
    assert lines[:3] == ["(version 1)", "(deny default)", "(deny network*)"]
    assert not [line for line in lines if "network" in line and line.startswith("(allow")]


def test_only_the_workspace_and_a_private_folder_can_be_written() -> None:
    writable = [line for line in rules() if line.startswith("(allow") and "file-write*" in line]
    assert writable == [
        '(allow file-read* file-write* (subpath "/Users/ada/project"))',
        '(allow file-read* file-write* (subpath "/private/var/folders/x/fabric-box"))',
    ]


def test_nothing_of_the_home_folder_can_be_read_but_the_workspace() -> None:
    allowed = [line for line in rules() if line.startswith("(allow file-read*")]
    assert [line for line in allowed if "/Users" in line] == [
        '(allow file-read* file-write* (subpath "/Users/ada/project"))'
    ]
    assert '(allow file-read* (literal "/"))' in allowed


def test_what_is_protected_or_hidden_comes_after_what_is_allowed_since_the_last_rule_counts() -> None:
    lines = rules(hidden=WORKSPACE / ".fabric")
    last_allow = max(number for number, line in enumerate(lines) if line.startswith("(allow"))
    for line in (
        '(deny file-write* (subpath "/Users/ada/project/.git/hooks"))',
        '(deny file-write* (subpath "/Users/ada/project/.git/config"))',
        '(deny file-write* (subpath "/Users/ada/project/.bashrc"))',
        '(deny file-write* (literal "/Users/ada/project/.git"))',
        '(deny file-read* file-write* (subpath "/Users/ada/project/.fabric"))',
    ):
        assert lines.index(line) > last_allow


def test_a_hostile_name_stays_one_string() -> None:
    hostile = Path('/Users/a") (allow default) ("\\')
    text = seatbelt_profile(hostile, TEMPORARY)
    assert '(subpath "/Users/a\\") (allow default) (\\"\\\\")' in text
    with pytest.raises(ValueError, match="control characters"):
        seatbelt_profile(Path("/Users/a\nb"), TEMPORARY)


def test_every_rule_is_balanced() -> None:
    for line in rules(hidden=WORKSPACE / ".fabric"):
        assert line.count("(") == line.count(")")
