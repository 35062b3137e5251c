"""A model that is refused and claims success: no door of a real server shows that unmarked."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from a2a.types import TaskState

from agent_fabric.testing.scripted_model import Answer, Call, Finish, Say, Script
from agent_fabric.testing.telegram_standin import TOKEN, TelegramStandIn
from e2e.cli.test_chat import piped
from integration.channels.test_telegram_served import ANN, _paired, _settings, _until
from integration.http.served import PATIENCE_S, Served, bearer, served
from integration.http.test_a2a import client_of as a2a_client
from integration.http.test_a2a import said as a2a_said
from integration.http.test_a2a import task_for
from integration.http.test_agents import write as write_agent
from integration.http.test_mcp_door import called, connected
from integration.http.test_openai import client_of, collected, said
from integration.http.test_sessions import answered, new_session, say
from integration.http.test_workflows import BASE as WORKFLOWS
from integration.http.test_workflows import define

pytestmark = pytest.mark.proves("DB-1")

SAID = "The machine has been rebooted."
REBOOT = Call("shell", {"command": "sudo reboot"})
"""Never allowed: refused at once, and nobody is asked."""
SCRIPT = Script(
    turns=(REBOOT, Finish(summary=SAID, artifacts=[], next_steps=[], notes="")),
    named={"agent": (REBOOT, Finish(said=SAID))},
)
TASK = "reboot the machine"
LINE = "denied by policy: sudo reboot"
AGENT = """\
name: rebooter
description: Reboots.
capabilities: [code-execution]
inputs:
  what: {type: string, required: true}
outputs:
  said: {type: string}
prompts: {system: You reboot., user: "{{ inputs.what }} [[script=agent]]"}
"""
FLOW = {
    "name": "restart",
    "version": "1.0.0",
    "steps": [{"id": "ask", "action": "invoke-agent", "agent": "rebooter", "inputs": {"what": TASK}}],
}


def talking(request: dict[str, Any], attempt: int) -> Answer:
    """Try it, and say that it is done."""
    return Say(SAID) if request["messages"][-1]["role"] == "tool" else REBOOT


def is_marked(text: str) -> bool:
    """Tell whether what contradicts an answer stands above it, and its end does not mislead either."""
    return LINE in text[: text.index(SAID)] and text.strip().splitlines()[-1] == "(Not done: see above.)"


def tells(meta: Mapping[str, Any]) -> bool:
    return bool(meta["outcome"] == "refused" and meta["effects"]["denied"][0]["by"] == "policy")


async def test_http_results_streams_lists_and_checks_tell_it(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server:
        body = {"prompt": TASK, "pack": "engineering"}
        shown = (await server.client.post("/run", json=body, timeout=PATIENCE_S)).json()
        assert (shown["_meta"]["status"], shown["summary"]) == ("completed", SAID)
        assert tells(shown["_meta"])
        assert shown["_meta"]["not_done"][0].startswith(LINE)
        run_id = shown["_meta"]["run_id"]
        details = (await server.client.get(f"/runs/{run_id}")).json()
        assert tells(details["_meta"])
        listed = (await server.client.get("/runs")).json()["runs"]
        assert listed[0]["summary"].startswith(f"Not done: {LINE}")
        checked = (await server.client.get(f"/runs/{run_id}/verify")).json()
        assert not checked["holds"]
        failing = [claim["about"] for claim in checked["claims"] if claim["standing"] == "fails"]
        assert "denied" in failing
        stream = await server.open("POST", "/run/stream", body=body)
        whole = (await stream.reader.read()).decode()
        assert whole.count(LINE) >= 1
        assert '"outcome":"refused"' in whole.replace(" ", "")


async def test_clients_of_openai_read_it_above_the_words_and_in_a_field(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server, client_of(server) as client:
        answer = await client.chat.completions.create(model="engineering", messages=said(TASK))
        assert is_marked(answer.choices[0].message.content or "")
        assert answer.model_extra is not None
        assert tells(answer.model_extra["fabric"])
        chunks = await collected(
            await client.chat.completions.create(model="engineering", messages=said(TASK), stream=True)
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert is_marked(text)
        response = await client.responses.create(model="engineering", input=TASK)
        assert is_marked(response.output_text)


async def test_agents_of_others_read_it_in_the_task(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server, a2a_client(server) as client:
        task = await task_for(client, a2a_said(TASK))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        assert LINE in task.status.message.parts[0].text
        (artifact,) = task.artifacts
        assert is_marked(artifact.parts[0].text)
        assert artifact.metadata["outcome"] == "refused"


async def test_programs_that_speak_mcp_read_it_first(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server, connected(server, bearer(server.token)) as client:
        done = await called(client, "run_task", task=TASK, pack="engineering")
        assert LINE in done["warning"]
        assert tells(done)
        found = await called(client, "search_runs", words="reboot")
        assert found["runs"][0]["summary"].startswith("Not done:")


async def test_conversations_and_their_exports_tell_it(tmp_path: Path) -> None:
    async with served(tmp_path, talking) as server:
        session = await new_session(server)
        sent = await say(server, session, TASK)
        message = await answered(server, session, sent["run_id"])
        assert is_marked(message["content"])
        assert message["metadata"]["outcome"] == "refused"
        exported = await server.client.get(f"/api/v1/sessions/{session}/export?format=markdown")
        assert LINE in exported.text[: exported.text.index(SAID)]


async def test_a_person_on_telegram_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN)
    async with TelegramStandIn() as telegram, served(tmp_path, talking, also=_settings(telegram)) as server:
        await _paired(server, telegram, ANN, "ann", "operator")
        telegram.write(ANN, TASK)
        text = await _until(lambda: next((each for each in telegram.texts(ANN) if "see above" in each), None))
        assert LINE in text[: text.index(SAID)]


async def test_a_workflow_tells_what_its_agents_were_refused(tmp_path: Path) -> None:
    write_agent(tmp_path, AGENT, "rebooter.yaml")
    define(tmp_path, FLOW)
    async with served(tmp_path, SCRIPT) as server:
        shown = (await server.client.post(f"{WORKFLOWS}/restart/execute", json={}, timeout=PATIENCE_S)).json()
        assert "_meta" in shown, shown
        denied = shown["_meta"]["effects"]["denied"][0]
        assert (denied["what"], denied["by"]) == ("sudo reboot", "policy")
        assert denied["run_id"] is not None
        assert shown["_meta"]["outcome"] in {"refused", "incomplete"}
        ended = await in_the_terminal(server, "workflow", "run", "restart")
        assert LINE in ended.out[: ended.out.index(SAID)]


async def in_the_terminal(server: Served, *words: str) -> Any:
    return await server.command(*words)


async def test_the_command_line_tells_it_above_the_words_and_in_its_last_line(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server:
        ended = await in_the_terminal(server, "run", TASK, "--pack", "engineering")
        assert ended.code == 4, ended.err
        assert LINE in ended.out[: ended.out.index(SAID)]
        assert ended.out.splitlines()[-1].startswith(f"refused: {LINE}")
        again = await in_the_terminal(server, "resume", "--last")
        assert again.code == 4
        assert LINE in again.out[: again.out.index(SAID)]
        log = await in_the_terminal(server, "logs", "show", "--last")
        end = log.out[log.out.rindex("completed") :]
        assert LINE in end[: end.index(SAID)]
        assert log.out.splitlines()[-1].strip().startswith("refused:")
        listed = await in_the_terminal(server, "logs", "list")
        assert " refused " in listed.out
        checked = await in_the_terminal(server, "verify", "--last")
        assert checked.code == 1
        assert "✗ denied" in checked.out
        assert "nobody but a reader can tell" in checked.out
        asked = await in_the_terminal(server, "run", TASK, "--pack", "engineering", "--json")
        assert (asked.code, json.loads(asked.out)["_meta"]["outcome"]) == (4, "refused")


async def test_a_chat_in_the_terminal_tells_it(tmp_path: Path) -> None:
    async with served(tmp_path, talking) as server:
        await server.command("config", "path")  # writes the settings
        ended = await piped(server.command, TASK, "--pack", "engineering")
        assert ended.code == 4, ended.err
        assert is_marked(ended.out)


STEPS = {
    "name": "steps",
    "version": "1.0.0",
    "execution": {"continue_on_error": True},
    "steps": [
        {"id": "boot", "action": "run-command", "command": "sudo reboot"},
        {"id": "build", "action": "run-command", "command": "make nothing"},
        {"id": "say", "action": "run-command", "command": "echo rebooted"},
    ],
}


async def test_steps_of_a_workflow_that_were_refused_or_failed_are_told(tmp_path: Path) -> None:
    define(tmp_path, STEPS)
    async with served(tmp_path, SCRIPT) as server:
        shown = (await server.client.post(f"{WORKFLOWS}/steps/execute", json={}, timeout=PATIENCE_S)).json()
        effects = shown["_meta"]["effects"]
        assert [(each["what"], each["by"]) for each in effects["denied"]] == [("step 'boot': sudo reboot", "policy")]
        assert [each["what"] for each in effects["failed"]] == ["step 'build': make nothing"]
        assert effects["failed"][0]["why"].startswith("exit code 2")


async def test_an_evaluation_tells_which_trials_were_not_done(tmp_path: Path) -> None:
    case = {"id": "boot", "prompt": TASK, "check": "true"}
    definition = {"name": "boots", "models": ["quality"], "packs": ["engineering"], "cases": [case]}
    file = tmp_path / "boots.json"
    file.write_text(json.dumps(definition))
    async with served(tmp_path, SCRIPT) as server:
        ended = await in_the_terminal(server, "eval", "run", str(file))
        assert "completed, but not all was done: 1" in ended.out, ended.out + ended.err
        assert LINE in ended.out
        asked = await in_the_terminal(server, "eval", "show", "--last", "--json")
        (trial,) = json.loads(asked.out)["trials"]
        assert (trial["outcome"], trial["evidence"]) == ("refused", "unproven")
