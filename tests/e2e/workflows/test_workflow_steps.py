"""Commands, requests and actions of packages as steps, with secrets: the whole command, and nothing left behind."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from e2e.fabric_process import Fabric, settings
from installed_packages import importable, laid_out
from integration.web.site import Site, site

SIGN = "8f3a"
TOKEN = f'it\'s "{SIGN}" $(id) \\ end-{SIGN}'
MODULE = """
from agent_fabric.extend import action


@action(name="announce", parameters={"type": "object", "properties": {"password": {"type": "string"}}})
def announce(inputs, context):
    return {"length": len(inputs["password"]), "shown": inputs["password"]}
"""
STEPS: list[dict[str, Any]] = [
    {"id": "say", "action": "run-command", "command": ["printf", "%s", "<{{ secrets.TOKEN }}>"]},
    {
        "id": "post",
        "action": "http-request",
        "inputs": {
            "url": "{{ inputs.url }}",
            "method": "POST",
            "headers": {"Authorization": "Bearer {{ secrets.TOKEN }}"},
            "json": {"text": "{{ inputs.text }}"},
        },
    },
    {"id": "tell", "action": "announce", "inputs": {"password": "{{ secrets.TOKEN }}"}},
]
RULES = [
    {"id": "there", "verdict": "allow", "domains": ["127.0.0.1"]},
    {"id": "tell", "verdict": "allow", "tools": ["announce"]},
]


async def mirror(request: web.Request) -> web.Response:
    return web.json_response({"authorization": request.headers["Authorization"], "sent": await request.json()})


def fabric_with(tmp_path: Path, server: Site, environment: Mapping[str, str], **configured: Any) -> Fabric:
    """Return the command, with an action of a package and a server that it may reach."""
    package = laid_out(tmp_path, "herald", "[agent_fabric.actions]\nannounce = herald_module:announce\n", MODULE)
    definition = {
        "name": "steps",
        "version": "1.0.0",
        "inputs": {"url": {"type": "string", "required": True}, "text": {"type": "string", "default": "hello"}},
        "steps": STEPS,
    }
    project = tmp_path / "project"
    (project / "workflow-definitions").mkdir(parents=True)
    (project / "workflow-definitions" / "steps.json").write_text(json.dumps(definition))
    return Fabric(
        project,
        settings("http://127.0.0.1:9/v1", web={"allow_hosts": [server.host]}, **configured),
        {"PYTHONPATH": importable(package), **environment},
        home=tmp_path / "home",
    )


async def test_secrets_reach_where_they_are_meant_to_and_stand_nowhere_else(tmp_path: Path) -> None:
    async with site({"/": mirror}) as server:
        fabric = fabric_with(tmp_path, server, {"TOKEN": TOKEN}, policy={"rules": RULES})
        ended = await fabric("workflow", "run", "steps", "-i", f"url={server.url()}", "--json")
    assert ended.code == 0, ended.err + ended.out
    outputs = ended.json["outputs"]
    assert [request.headers["Authorization"] for request in server.requests] == [f"Bearer {TOKEN}"]
    assert outputs["say"]["stdout"] == "<[secret TOKEN]>"
    assert outputs["post"]["json"] == {"authorization": "Bearer [secret TOKEN]", "sent": {"text": "hello"}}
    assert outputs["tell"] == {"length": len(TOKEN), "shown": "[secret TOKEN]"}
    assert SIGN not in ended.out + ended.err
    kept = [path for path in (tmp_path / "project").rglob("*") if path.is_file()]
    assert [path for path in kept if SIGN.encode() in path.read_bytes()] == []
    assert [path.name for path in kept if b"${secret:TOKEN}" in path.read_bytes() and path.name == "runlog.jsonl"]


async def test_without_the_secret_nothing_is_sent_and_the_person_is_told(tmp_path: Path) -> None:
    async with site({"/": mirror}) as server:
        fabric = fabric_with(tmp_path, server, {}, policy={"rules": RULES})
        ended = await fabric("workflow", "run", "steps", "-i", f"url={server.url()}", "--json")
    assert ended.code == 1
    assert server.requests == []
    assert "there is no secret 'TOKEN'. Set the environment variable TOKEN" in ended.out


async def test_what_sends_something_out_asks_unless_a_rule_allows_it(tmp_path: Path) -> None:
    async with site({"/": mirror}) as server:
        fabric = fabric_with(tmp_path, server, {"TOKEN": TOKEN})
        ended = await fabric("workflow", "run", "steps", "-i", f"url={server.url()}", "--json")
        cards = json.loads((await fabric("approvals", "list", "--json")).out)
    assert ended.code == 3
    assert server.requests == []
    assert {card["tool"] for card in cards} == {"http_request", "announce"}
    assert SIGN not in json.dumps(cards)
