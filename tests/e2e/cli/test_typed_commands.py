"""Commands for machines, schedules, sensors, webhooks and channels, typed one after another as a person does it."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Finish, Script, ScriptedModel
from agent_fabric.testing.telegram_standin import TOKEN, TelegramStandIn
from e2e.fabric_process import Fabric, settings, until
from e2e.server_process import Serving, serving
from integration.fleet.machines import OPEN, PATIENCE_S, until_status

pytestmark = pytest.mark.proves("RE-10")
NO_MODEL = settings("http://127.0.0.1:9/v1")
KEPT = "seq 1 40000"
"""Prints more than a result holds."""


class Typist:
    """Types commands in one folder, or at one server; each must end as it should."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    async def __call__(self, *words: str, code: int = 0) -> str:
        """Type a command and return what it prints."""
        ended = await self.fabric(*words)
        assert ended.code == code, (words, ended)
        return ended.out or ended.err


@asynccontextmanager
async def machine(hub: Serving, there: Typist, name: str) -> AsyncIterator[Path]:
    """Make this machine a node, and let it run."""
    made = json.loads(await there("nodes", "invite", "--name", name, "--label", "role=web", "--json"))
    folder = there.fabric.folder / name
    place = ("--dir", str(folder))
    await there("node", "join", hub.url, "--token", made["token"], "--hub-key", made["hub_key"], *place)
    (folder / "node.toml").write_text(f'{OPEN}roots = ["{there.fabric.folder}"]\nfile_transfer = true\n')
    running = await there.fabric.start("node", "run", *place)
    try:
        await until_status(hub.client, name, "online")
        assert "online" in await there("node", "status", *place)
        yield folder
    finally:
        running.process.send_signal(signal.SIGTERM)
        await running.ended()


async def test_machines_are_operated_from_the_command_line(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path / "hub", NO_MODEL)
    async with serving(fabric) as hub:
        home = tmp_path / "person"
        home.mkdir()
        there = Typist(replace(fabric, folder=home, home=home, server=hub.url, environment={"FABRIC_TOKEN": hub.token}))
        async with machine(hub, there, "web"):
            assert "web" in await there("nodes", "list", "role=web")
            assert "online" in await there("nodes", "show", "web")
            assert await there("nodes", "exec", "web", "echo", "hello") == "hello\n"
            assert "-h" in await there("nodes", "exec", "web", "echo", "-h")
            shown = json.loads(await there("nodes", "exec", "web", KEPT, "--json"))
            execution = shown[0]["execution_id"]
            assert (await there("nodes", "output", "web", execution)).endswith("40000\n")
            await there("nodes", "label", "web", "env=test")
            await there("nodes", "policy", "web", "--check", "ls")
            (home / "a.txt").write_text("hello")
            copy = (str(home / "a.txt"), f"web:{home}/b.txt")
            asked = await there("nodes", "cp", *copy, code=3)
            await there("approvals", "approve", asked.split()[-1])
            async with asyncio.timeout(PATIENCE_S):
                while (await there.fabric("nodes", "cp", *copy)).code == 3:  # the hub has to hear of the answer
                    await asyncio.sleep(0.1)
            assert (home / "b.txt").read_text() == "hello"
            await there("nodes", "audit", "web")
            await plans(there)
            assert "has a new key" in await there("nodes", "rotate", "web")
            await there("nodes", "rename", "web", "www")
        await until_status(hub.client, "www", "offline")
        assert "queued" in await there("nodes", "exec", "www", "true", "--queue", code=3)
        listed = json.loads(await there("nodes", "queue", "www", "--json"))
        (queued,) = [each["execution_id"] for each in listed if each["status"] == "queued"]
        await there("nodes", "queue", "www", "--cancel", queued)
        await there("nodes", "shell", "www", code=2)  # its own file allows none
        await there("nodes", "resolve", "www", "--keep", code=2)  # nothing is in conflict
        assert "cannot be read" in await there("nodes", "upgrade", "www", "--release", "absent.json", code=2)
        await there("nodes", "release", "--sign", str(home / "absent"), code=2)
        await there("nodes", "revoke", "www")
        wrote = await there("node", "install", "--dir", str(home / "web"))
        assert "ExecStart=" in Path(wrote.split()[1].rstrip(".")).read_text()
        await there("node", "trust", "absent", "--dir", str(home / "web"))
        await there("node", "leave", "--dir", str(home / "web"))


async def plans(there: Typist) -> None:
    """Freeze plans, and decide about each."""
    quick, slow = [
        json.loads(await there("fleet", "plan", "web", "--json", "--", *command))["id"]
        for command in (("true",), ("sleep", "30"))
    ]
    assert quick in await there("fleet", "list")
    await there("fleet", "apply", quick)
    assert "completed" in await there("fleet", "show", quick, "--wait")
    await there("fleet", "apply", slow)
    assert "halted" in await there("fleet", "halt", slow)
    assert "running" in await there("fleet", "resume", slow)
    assert "aborted" in await there("fleet", "abort", slow)


async def test_what_starts_by_itself_is_looked_after_from_the_command_line(tmp_path: Path) -> None:
    done = Finish(summary="Done.", artifacts=[], next_steps=[], notes="")
    async with ScriptedModel(Script(turns=(done,) * 4)) as model:
        sensor = {"kind": "file_change", "paths": ["in/*.csv"], "workflow": "tell"}
        here = Typist(Fabric(tmp_path, settings(model.base_url, sensors={"in": sensor})))
        (tmp_path / "workflow-definitions").mkdir()
        (tmp_path / "workflow-definitions/tell.yaml").write_text(TELL)
        await here("schedules", "add", "night", "--cron", "0 3 * * *", "--do", "Say hello", "--agent", "engineering")
        assert "run " in await here("schedules", "fire", "night")
        await here("schedules", "pause", "night")
        assert "paused" in await here("schedules", "list")
        assert "night" in await here("schedules", "resume", "night")
        await here("schedules", "set", "night", "--every", "1s")
        await asyncio.sleep(1.1)
        assert "run " in await here("schedules", "tick")
        assert "night" in await here("schedules", "show", "night")
        (tmp_path / "in").mkdir()
        assert "in" in await here("sensors", "list")
        await here("sensors", "look", "in")
        (tmp_path / "in/a.csv").write_text("1\n")
        async with asyncio.timeout(PATIENCE_S):
            while "run " not in await here("sensors", "look", "in"):  # a file that is being written is waited for
                await asyncio.sleep(0.2)
        assert len((await here("sensors", "why", "in")).splitlines()) == 2
        await here("webhooks", "add", "ops", "https://example.org/in", "--subject", "agent33.*")
        (tmp_path / "secret").write_text("whsec_" + "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")
        await here("webhooks", "rotate", "ops", "--secret", "env:HOME")
        assert "example.org" in await here("webhooks", "list")
        await here("webhooks", "remove", "ops")
        await here("memory", "add", "--fact", "The pool opens at nine.")
        (fact,) = json.loads(await here("memory", "list", "--json"))
        assert "pool" in await here("memory", "show", fact["id"])
        assert "pool" in await here("memory", "why", fact["id"])
        assert "ten" in await here("memory", "edit", fact["id"], "The pool opens at ten.")


async def test_people_on_channels_are_looked_after_from_the_command_line(tmp_path: Path) -> None:
    async with TelegramStandIn() as telegram:
        channels = {"telegram": {"token": "env:TELEGRAM_TOKEN", "api_base": telegram.api_base}}
        fabric = Fabric(tmp_path, {**NO_MODEL, "channels": channels}, {"TELEGRAM_TOKEN": TOKEN})
        async with serving(fabric) as hub:
            there = Typist(replace(fabric, server=hub.url, environment={"FABRIC_TOKEN": hub.token}))
            added = await hub.client.post("/api/v1/users", json={"name": "ann", "role": "operator"})
            assert added.status_code == 201, added.text
            telegram.write(7, "hello")
            await until(lambda: any("Your code is" in each for each in telegram.texts(7)), "a code")
            (text,) = [each for each in telegram.texts(7) if "Your code is" in each]
            code = re.search(r"Your code is (\S{8})", text)
            assert code is not None
            assert "ann" in await there("channels", "pair", code[1], "--user", "ann")
            assert "telegram" in await there("channels", "list")
            assert "ann" in await there("channels", "people")
            await there("channels", "notify", "ann", "--approvals", "telegram")
            before = len(telegram.texts(7))
            await there("channels", "test", "ann")
            await until(lambda: len(telegram.texts(7)) > before, "a test message")
            sent = json.loads(await there("channels", "deliveries", "--json"))
            assert sent
            assert "delivery" in await there("channels", "resend", "nothing-like-it", code=1)
            await there("channels", "unpair", "ann")


TELL = """\
name: tell
inputs: {}
steps:
  - {id: say, action: run-command, command: "true"}
"""
