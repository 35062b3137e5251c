"""What somebody tries who knows only docs/operate/security.md: the levels end where the page says."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version
from integration.sandbox.as_user import USER, run_python
from integration.sandbox.fresh_attempts import ATTEMPTS
from services import need, need_program

pytestmark = pytest.mark.proves("WB-10")

need(sys.platform == "linux", "needs Linux")

PROGRAM = Path(__file__).with_name("check_level.py")
PAGE = Path(__file__).parents[3] / "docs" / "operate" / "security.md"
TIME_S = 120.0
GAPS = {"A": set[str](), "B": {"pidfd_open", "enter_folder", "see_file"}}
"""Landlock hides neither that something is there nor how large and old it is."""


def users() -> list[Any]:
    if os.getuid() == 0:
        return [pytest.param(0, id="started by root"), pytest.param(USER, id="started by a user")]
    return [pytest.param(os.getuid(), id="started by a user")]


@pytest.mark.slow
@pytest.mark.parametrize("uid", users())
@pytest.mark.parametrize("level", ["A", "B"])
async def test_a_box_holds_against_fresh_attempts_but_for_the_gaps_that_the_page_names(level: str, uid: int) -> None:
    if level == "A":
        need_program("bwrap", package="bubblewrap")
    else:
        need(landlock_version() >= 6, "needs Landlock of version 6 or later")
    need(Path("/usr/bin/python3").exists(), "needs the system's Python, which every box sees")
    done = await asyncio.to_thread(run_python, PROGRAM, level, "fresh", uid=uid, timeout_s=TIME_S)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["results"].keys() == ATTEMPTS.keys()
    assert len(ATTEMPTS) >= 50
    not_held = {name: outcome for name, outcome in answer["results"].items() if outcome != "held"}
    assert not_held.keys() == GAPS[level], not_held
    assert answer["effects"] == []


def test_the_page_names_every_gap() -> None:
    page = PAGE.read_text()
    assert [name for name in sorted(GAPS["B"]) if f"`{name}`" not in page] == []
