"""`fabric schedules` and `fabric webhooks` of a folder, as they are typed."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_fabric.config.loader import load_config
from agent_fabric.interfaces.cli.invocation import invoke

BERLIN = ("--cron", "0 3 * * *", "--timezone", "Europe/Berlin", "--do", "Say hello")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FABRIC_URL", raising=False)
    load_config.cache_clear()


def typed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert invoke(words[0], words[1:]) == code, capsys.readouterr()
    return capsys.readouterr().out


@pytest.mark.proves("DB-9")
def test_why_speaks_of_the_future_as_such_and_in_the_zone_of_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    typed(capsys, "schedules", "add", "nightly", *BERLIN)
    year = datetime.fromtimestamp(time.time(), UTC).year + 2
    due = typed(capsys, "schedules", "why", "nightly", "--at", f"{year}-01-15T03:00")
    assert due.splitlines() == [
        f"future: It will be due then, at {year}-01-15T03:00:00+01:00.",
        f"  nearest before: {year}-01-14T03:00:00+01:00",
        f"  nearest after: {year}-01-16T03:00:00+01:00",
    ]
    other = typed(capsys, "schedules", "why", "nightly", "--at", f"{year}-07-15T04:00")
    assert other.startswith("not_due: It will not be due then. Its rule is 0 3 * * * (Europe/Berlin).\n")
    assert f"nearest before: {year}-07-15T03:00:00+02:00" in other
    assert typed(capsys, "schedules", "why", "nightly").startswith("not_due: It was not due. Its rule then was")
    typed(capsys, "schedules", "pause", "nightly")
    paused = typed(capsys, "schedules", "why", "nightly", "--at", f"{year}-01-15T03:00")
    assert re.fullmatch(r"skipped: It is paused by \w+ since \d+-\d+-\d+T\d+:\d+:\d+\+0[12]:00\.\n", paused)
    found = json.loads(typed(capsys, "schedules", "why", "nightly", "--json"))
    assert found["timezone"] == "Europe/Berlin"


@pytest.mark.proves("DB-9")
def test_no_instant_is_shown_with_microseconds(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (
        typed(capsys, "schedules", "add", "often", "--every", "90m", "--do", "Say hello"),
        typed(capsys, "schedules", "show", "often"),
        typed(capsys, "schedules", "why", "often", "--at", "2100-01-01"),
        typed(capsys, "schedules", "simulate", "often", "--to", "2100-01-01"),
    ):
        assert re.search(r"T\d\d:\d\d:\d\d(\+|Z)", shown)
        assert not re.search(r":\d\d\.\d+", shown)


@pytest.mark.proves("DB-9")
def test_a_test_message_to_this_machine_names_the_setting_that_allows_it(capsys: pytest.CaptureFixture[str]) -> None:
    typed(capsys, "webhooks", "add", "here", "http://127.0.0.1:9/x", "--subject", "agent33.*")
    said = typed(capsys, "webhooks", "test", "here", code=1)
    assert said == (
        "127.0.0.1 is on this machine or a private network. If it may be sent to, name it in the configuration: "
        'web.allow_hosts: ["127.0.0.1"]\n'
    )
