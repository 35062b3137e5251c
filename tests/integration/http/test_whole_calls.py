"""Over HTTP a call is there whole, is answered by its hash, and an edit runs as it was sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.testing.scripted_model import Call, Script
from integration.http.served import DONE, Served, served, task
from long_calls import DANGER, PLACES, TALKATIVE, script

SIZES = (1, 403, 100_000)
SCRIPTS = {
    f"{lines}-{place}": (Call("shell", {"command": script(lines, place)}), DONE) for lines in SIZES for place in PLACES
}


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Served]:
    async with served(
        folder, Script(turns=(DONE,), named=SCRIPTS), also={"model": TALKATIVE}, max_body_bytes=50_000_000
    ) as server:
        yield server


async def asked(server: Served, lines: int, place: str) -> dict[str, Any]:
    """Let a run ask about a call; return the question."""
    answer = await server.client.post("/run", json=task(f"{lines}-{place}"))
    assert answer.status_code == 202, answer.text
    (waiting,) = answer.json()["_meta"]["approvals"]
    card: dict[str, Any] = (await server.client.get(f"/approvals/{waiting}")).json()
    assert card["text"] == card["args"]["command"] == script(lines, place)
    (listed,) = (await server.client.get("/approvals", params={"run_id": card["run_id"]})).json()["approvals"]
    assert listed["args"] == card["args"]
    return card


async def executed(server: Served, run_id: str) -> list[str]:
    """Return the hashes of the commands that were run."""
    await server.settled(run_id)
    events = (await server.client.get(f"/runs/{run_id}/events", params={"full": True})).json()["events"]
    calls = [each["payload"] for each in events if each["kind"] == "tool_call"]
    return [argument_hash(each["args"]) for each in calls if each["tool"] == "shell" and each["approved_by"]]


@pytest.mark.proves("WB-4")
@pytest.mark.parametrize(
    ("lines", "answers"),
    [(1, ("approve", "edit", "deny")), (403, ("deny", "approve", "edit")), (100_000, ("edit",))],
)
async def test_a_call_of_any_length_is_approved_edited_and_denied(
    tmp_path: Path, lines: int, answers: tuple[str, ...]
) -> None:
    async with serving(tmp_path) as server:
        for place, said in zip(reversed(PLACES), answers, strict=False):
            card = await asked(server, lines, place)
            path = f"/approvals/{card['id']}"
            other = await server.client.post(path, json={"decision": "approve", "binding": "0" * 64})
            assert (other.status_code, other.json()["code"]) == (422, "approval_refused")
            assert "not the call that was shown" in other.json()["detail"]
            short = await server.client.post(path, json={"decision": "approve", "binding": card["binding"][:4]})
            assert short.status_code == 422
            args = {"command": script(lines, place).replace(DANGER, "echo edited")} if said == "edit" else None
            answer = {
                "decision": "deny" if said == "deny" else "approve",
                "binding": card["binding"][:12],
                **({"args": args} if args else {}),
            }
            settled = await server.client.post(path, json=answer)
            assert settled.status_code == 200, settled.text
            assert settled.json()["changed"] == args
            ran = [] if said == "deny" else [argument_hash(args or card["args"])]
            assert await executed(server, card["run_id"]) == ran
            assert (await server.client.get(path)).json()["changed"] == args
