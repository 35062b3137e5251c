"""Steps of workflows with secrets, in real boxes and against real servers; nothing that is kept holds a value."""

import asyncio
import json
import logging
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from agent_fabric import __version__
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.bootstrap.records import open_records
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.domain.events import Body, Event, RunCreated, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.extend import Effect, action
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.step_pack import step_pack
from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox
from agent_fabric.infrastructure.sandbox.landlock import LandlockSandbox
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.secrets.folder_secrets import EnvironmentSecrets
from agent_fabric.infrastructure.web.requests import HttpRequests
from agent_fabric.testing.fakes import PermissivePolicy
from integration.web.site import site
from services import need_program

HOSTILE = {
    "quotes": 'it\'s "quoted" `id` 8f3a',
    "expansion": "$(id) ${HOME} $0 * ~ 8f3a",
    "lines": "first-line-8f3a\nsecond-line-8f3a\n",
    "backslash": "a\\n\\'\\\"b 8f3a",
    "option": "--8f3a=x",
    "reference": "${secret:OTHER}8f3a",
    "format": "%s%n{}{0}8f3a",
}
"""Every one of them, and every line of them, holds what is looked for afterwards."""
SIGN = "8f3a"
RUN = RunId("11111111-2222-4333-8444-555555555555")


@dataclass
class Steps:
    """Lets steps of one run happen, as a driver does, and keeps what it would record."""

    pack: BaseSpecialistPack
    invoke: InvokeTool
    known: KnownSecrets
    secrets: frozenset[str]
    bodies: list[Body] = field(default_factory=list)

    async def call(self, tool: str, **args: Any) -> Mapping[str, Any]:
        """Return what a tool gave back, or its error."""
        specs = {spec.name: spec for spec in self.pack.tool_definitions}
        prepared = self.invoke(
            ToolCallRequest(CallId(f"c{len(self.bodies)}"), tool, json.dumps(args)),
            site=CallSite(
                run_id=RUN,
                lane=LaneId("step"),
                step=0,
                agent="workflow",
                target="/w",
                scopes=frozenset(),
                secrets=self.secrets,
            ),
            tools=specs,
            pack=self.pack,
            attempt=1,
            context=ToolContext(run_id=RUN, call_id=CallId("c"), timeout_s=20, network_allowed=True),
        )
        assert prepared.effect is not None
        bodies = [*prepared.bodies, *await prepared.effect()]
        self.bodies += [self.known.hide(body) for body in bodies]
        match self.bodies[-1]:
            case ToolReturned(result=result):
                return result
            case ToolErred(error_type=kind, error_message=message):
                return {"error": f"{kind}: {message}"}
            case other:
                raise AssertionError(other)


@action(name="log-in", effect=Effect.LEAVES_SANDBOX)
def log_in(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Say what it was given, or fail saying it."""
    if inputs.get("fail"):
        raise RuntimeError(f"no entry with {inputs['password']}")
    return {"shown": inputs["password"], "nested": {"list": [inputs["password"]]}}


@asynccontextmanager
async def steps(box: Sandbox, values: Mapping[str, str]) -> AsyncIterator[Steps]:
    sender, known = HttpRequests(WebConfig(allow_hosts=("127.0.0.1",))), KnownSecrets()
    invoke = InvokeTool(
        PermissivePolicy(), SystemClock(), 100_000, secrets=EnvironmentSecrets(values), known_secrets=known
    )
    try:
        yield Steps(step_pack(box, sender=sender, actions=(log_in,)), invoke, known, frozenset(values))
    finally:
        await sender.aclose()


@pytest.fixture(params=["A", "B", "C"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    match request.param:
        case "A":
            need_program("bwrap", package="bubblewrap")
            walled = BubblewrapSandbox(workspace, RUN)
            yield walled
            await walled.aclose()
        case "B":
            ruled = LandlockSandbox(workspace, RUN)
            yield ruled
            await ruled.aclose()
        case _:
            yield UnconfinedSandbox(workspace, RUN)


async def test_a_command_gets_a_secret_as_it_is_and_what_it_prints_is_hidden(box: Sandbox) -> None:
    async with steps(box, HOSTILE) as running:
        for name, value in HOSTILE.items():
            command = shlex.join(
                ["sh", "-c", 'printf %s "$1" >got; printf %s "$1"; printf %s "$1" >&2', "sh", f"<${{secret:{name}}}>"]
            )
            result = await running.call("shell", command=command)
            assert (await box.read_file("got", max_bytes=10_000))[0].decode() == f"<{value}>"
            assert result["exit_code"] == 0
            assert result["stdout"] == result["stderr"] == f"<[secret {name}]>"
            # A later command of the same run that finds it somewhere.
            assert SIGN not in str(await running.call("shell", command="cat got; base64 -w0 got; head -n 1 got"))
        for name in ("lines", "quotes"):
            command = f"printf %s '${{secret:{name}}}' | base64 -w0"
            assert (await running.call("shell", command=command))["stdout"] == f"[secret {name}]"
    assert SIGN not in repr(running.bodies)


async def test_an_unknown_secret_runs_nothing(box: Sandbox) -> None:
    async with steps(box, {"KNOWN": "known-value"}) as running:
        running.secrets = frozenset({"KNOWN", "GONE"})
        told = await running.call("shell", command="touch made; echo ${secret:GONE} ${secret:KNOWN}")
    assert told["error"].startswith("SecretMissing: there is no secret 'GONE'. Set the environment variable GONE")
    assert (await box.list_files(".", max_entries=10))[0] == []


async def test_requests_and_actions_get_secrets_and_show_none(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str]] = []

    async def mirror(request: web.Request) -> web.Response:
        body = await request.text()
        seen.append((request.headers.get("X-Key", ""), request.query.get("k", ""), body))
        status = 403 if request.path == "/no" else 200
        return web.json_response(
            {"headers": dict(request.headers), "url": str(request.url), "body": body}, status=status
        )

    plain = {name: value for name, value in HOSTILE.items() if "\n" not in value}
    async with site({"*": mirror}) as server, steps(UnconfinedSandbox(tmp_path, RUN), plain) as running:
        for name, value in plain.items():
            named = f"${{secret:{name}}}"
            parts: dict[str, Any] = {
                "headers": {"X-Key": named},
                "query": {"k": named},
                "json": {"a": [named]},
                "method": "POST",
            }
            answer = await running.call("http_request", url=server.url("/"), **parts)
            assert seen[-1] == (value, value, json.dumps({"a": [value]}, ensure_ascii=False))
            assert answer["json"]["headers"]["X-Key"] == f"[secret {name}]"
            told = await running.call("http_request", url=server.url("/no"), **parts)
            assert told["error"].startswith("HttpError: POST ")
            assert " answered 403 Forbidden: " in told["error"]
            hook = await running.call("http_request", url=server.url(f"/hook/{quote(name)}/{named}"))
            assert hook.get("status") in (200, None)
            shown = await running.call("log-in", password=named)
            assert shown == {"shown": f"[secret {name}]", "nested": {"list": [f"[secret {name}]"]}}
            failed = await running.call("log-in", password=named, fail=True)
            assert failed == {"error": f"RuntimeError: no entry with [secret {name}]"}
    assert SIGN not in repr(running.bodies)


async def test_no_file_of_the_run_and_no_output_of_the_program_holds_a_value(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    workspace, root = tmp_path / "workspace", tmp_path / "fabric"
    workspace.mkdir()
    caplog.set_level(logging.DEBUG)
    async with steps(UnconfinedSandbox(workspace, RUN), HOSTILE) as running:
        for name in HOSTILE:
            await running.call(
                "shell", command=f"echo '${{secret:{name}}}'; echo '${{secret:{name}}}' | rev >&2; exit 3"
            )
            await running.call("shell", command=f"yes '${{secret:{name}}}' | head -c 300000")
            await running.call("log-in", password=f"${{secret:{name}}}", fail=True)
            await running.call("http_request", url="http://127.0.0.1:1/", headers={"X-Key": f"${{secret:{name}}}"})
    created = RunCreated(
        prompt="",
        specialist_id=None,
        model_key="quality",
        network_allowed=True,
        profile=Profile.TASK,
        budget=Budget.of(Profile.TASK),
        workspace=str(workspace),
        sandbox="C",
        policy_version="",
        fabric_version=__version__,
    )
    records = open_records(root)
    events = [Event(0, 0.0, None, "", created)]
    events += [Event(n, 0.0, LaneId("step"), "", body) for n, body in enumerate(running.bodies, 1)]
    held = await records.runs.create(RUN, events)
    await held.release()
    records.close()
    kept = [path for path in root.rglob("*") if path.is_file()]
    assert any(path.name == "runlog.jsonl" for path in kept)
    assert [path for path in kept if SIGN.encode() in path.read_bytes()] == []
    assert any(b"[secret lines]" in path.read_bytes() for path in kept)
    out, err = capfd.readouterr()
    assert SIGN not in out + err + caplog.text


async def test_a_command_that_is_stopped_tells_nothing(tmp_path: Path) -> None:
    async with steps(UnconfinedSandbox(tmp_path, RUN), HOSTILE) as running:
        task = asyncio.create_task(
            running.call("shell", command="echo '${secret:quotes}'; touch begun; sleep 30; true")
        )
        async with asyncio.timeout(60):
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.01)
        shown = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await task
    assert not any(SIGN.encode() in line for line in shown)
    assert SIGN not in repr(stopped.value)
