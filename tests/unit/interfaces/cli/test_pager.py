"""Which pager is used, and when there is none."""

import io

import pytest

from agent_fabric.interfaces.cli.pager import pager_command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PAGER": "sh -c more"}, "sh -c more"),
        ({"PAGER": "sh", "NO_PAGER": "1"}, ""),
        ({"PAGER": "sh", "NO_PAGER": ""}, "sh"),
        ({"PAGER": ""}, ""),
        ({"PAGER": " cat "}, ""),
        ({"PAGER": "no-such-program"}, ""),
        ({"PAGER": "sh 'half"}, ""),
        ({"PAGER": "''"}, ""),
    ],
)
def test_a_terminal_is_paged_as_the_environment_says(environment: dict[str, str], expected: str) -> None:
    assert pager_command(Terminal(), {"PATH": "/usr/bin:/bin", **environment}) == expected


def test_only_a_terminal_is_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pager_command(io.StringIO(), {"PATH": "/usr/bin:/bin", "PAGER": "sh"}) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert pager_command(Terminal(), {"PATH": "/usr/bin:/bin", "PAGER": "sh"}) == ""
