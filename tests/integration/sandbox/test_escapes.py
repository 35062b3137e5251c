"""Every way out of a box that we know, tried in each level that this machine has, as root and as a plain user."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version
from agent_fabric.infrastructure.sandbox.podman import ContainerSandbox
from agent_fabric.infrastructure.sandbox.podman_engine import find_engine
from integration.sandbox.as_user import CONTAINED_ROOT, USER, run_python
from integration.sandbox.escape_checks import CHECKS, HEAVY, WANTED
from integration.sandbox.image import import_busybox, remove_image, static_busybox
from integration.sandbox.outside import Outside
from services import need, need_program

need(sys.platform == "linux", "needs Linux")

PROGRAM = Path(__file__).with_name("check_level.py")
PYTHON_IMAGE = "localhost/agent-fabric-test:python"
TIME_S = 300.0

KNOWN_GAPS = {
    "A": set[str](),
    # Without a namespace of its own a command can ask whether a process number is in use.
    "B": {"outside_process_seen"},
    # The engine's own filter lets these through; without capabilities they give nothing away.
    "A+": {"user_namespace", "keyctl", "netlink_socket", "setuid_file"},
}
"""Checks that a level does not hold; docs/operate/security.md says what that means."""


def users() -> list[Any]:
    if os.getuid() == 0:
        return [pytest.param(0, id="started by root"), pytest.param(USER, id="started by a user")]
    return [pytest.param(os.getuid(), id="started by a user")]


@pytest.mark.slow
async def test_nothing_gets_out_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    need_program("podman", package="podman")
    need(Path("/usr/bin/python3").exists(), "needs the system's Python")
    busybox = static_busybox()
    need(busybox, "needs a static busybox; on Debian and Ubuntu: apt install busybox-static")
    assert busybox is not None
    engine = find_engine()
    await asyncio.to_thread(import_busybox, engine, PYTHON_IMAGE, busybox, with_python=True)
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder,
        Outside(Path(folder)) as out,
    ):
        Path(folder).chmod(0o755)
        monkeypatch.setenv("MY_API_TOKEN", out.secret)
        box = ContainerSandbox(
            out.workspace, f"test-{out.name}", image=PYTHON_IMAGE, engine=engine, hidden=Path(folder)
        )
        try:
            results = await out.check(box)
        finally:
            await box.aclose()
            await asyncio.to_thread(remove_image, engine, PYTHON_IMAGE)
        # There is neither git nor a compiler in this image.
        not_held = {
            name: said for name, said in results.items() if said != "held" and name not in {"git", "c_compiler"}
        }
        assert not_held.keys() == KNOWN_GAPS["A+"], not_held
        assert out.effects() == []


@pytest.mark.slow
@pytest.mark.proves("AF-120")
@pytest.mark.parametrize("uid", users())
@pytest.mark.parametrize("level", ["A", "B"])
async def test_nothing_gets_out_and_what_people_need_works(level: str, uid: int) -> None:
    if level == "A":
        need_program("bwrap", package="bubblewrap")
    await check_escapes(level, uid)


@pytest.mark.slow
@pytest.mark.proves("AF-120")
async def test_nor_where_root_has_only_the_rights_it_has_in_a_container() -> None:
    need(os.getuid() == 0, "needs root")
    need_program("setpriv", package="util-linux")
    await check_escapes("B", 0, through=CONTAINED_ROOT)


async def check_escapes(level: str, uid: int, through: Sequence[str] = ()) -> None:
    need_program("git", package="git")
    need_program("cc", package="gcc")
    need(Path("/usr/bin/python3").exists(), "needs the system's Python, which every box sees")
    if level == "B":
        need(landlock_version() >= 6, "needs Landlock of version 6 or later")
    done = await asyncio.to_thread(run_python, PROGRAM, level, uid=uid, timeout_s=TIME_S, through=through)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["uid"] == uid
    assert answer["results"].keys() == {*CHECKS, *HEAVY, *WANTED}
    not_held = {name: outcome for name, outcome in answer["results"].items() if outcome != "held"}
    assert not_held.keys() == KNOWN_GAPS[level], not_held
    assert answer["effects"] == []
