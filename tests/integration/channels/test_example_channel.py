"""The channel of a package that somebody else wrote: built, installed and served (A33-145)."""

import asyncio
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Say
from installed_packages import built_and_installed
from integration.http.served import PATIENCE_S, served

EXAMPLE = Path(__file__).parents[3] / "examples/letterbox"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built and installed once."""
    return built_and_installed(EXAMPLE, tmp_path_factory.mktemp("letterbox"))


def answering(request: dict[str, Any], attempt: int) -> Answer:
    last = request["messages"][-1]
    if last["role"] == "tool":
        return Say("It is deployed.")
    return Call("shell", {"command": "make deploy"}) if "deploy" in str(last["content"]) else Say("Hello, Ann.")


async def until(found: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not (seen := found()):
            await asyncio.sleep(0.05)
        return seen


@pytest.mark.proves("A33-145")
async def test_a_package_brings_a_channel_that_people_write_to_and_approve_on(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    importlib.invalidate_caches()
    letters = tmp_path / "letters"

    def write(name: str, text: str) -> None:
        (letters / "unfinished").write_text(text)
        (letters / "unfinished").replace(letters / f"inbox/ann.{name}.txt")

    def found(words: str) -> str:
        return next((text for each in letters.glob("outbox/ann/*.txt") if words in (text := each.read_text())), "")

    also = {"channels": {"packaged": {"letterbox": {"options": {"folder": str(letters)}}}}}
    async with served(tmp_path, answering, also=also) as server:
        added = await server.client.post("/api/v1/users", json={"name": "ann", "role": "operator"})
        assert added.status_code == 201, added.text
        await until((letters / "inbox").is_dir)
        write("1", "hello")
        code = (await until(lambda: found("Your code is "))).split("Your code is ")[1][:8]
        paired = await server.client.post("/api/v1/channels/pair", json={"code": code, "user": "ann"})
        assert paired.status_code == 200, paired.text
        write("2", "how are you?")
        await until(lambda: found("Hello, Ann."))
        listed = (await server.client.get("/api/v1/channels")).json()["channels"]
        assert [(each["channel"], each["connected"]) for each in listed] == [("letterbox", True)]
        write("3", "deploy it")
        card = await until(lambda: found("[Approve]"))
        assert "make deploy" in card
        write("4", next(line for line in card.splitlines() if "[Approve]" in line).partition("] ")[2])
        await until(lambda: found("It is deployed."))


@pytest.mark.proves("A33-145")
def test_the_tests_of_the_example_pass_where_it_is_installed(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", str(EXAMPLE)],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
