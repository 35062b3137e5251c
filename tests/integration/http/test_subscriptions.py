"""Messages to other systems: signed, in order, tried again, given up."""

import asyncio
import hmac
import json
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent_fabric.application.automation.send_messages import SendMessages
from agent_fabric.application.ports.automation import SendOutcome
from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.domain.automation.outgoing import RETRIES_S, Subscription, signed_headers
from agent_fabric.testing.fakes import FrozenClock, MemoryRuns
from integration.http.served import PATIENCE_S, served
from integration.http.test_triggers import define
from integration.web.site import site
from memory_automation import MemoryAutomation

SECRET = "whsec_" + b64encode(b"k" * 32).decode()


class Receiver:
    """MessageSender that answers as it is told."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    async def send(self, url: str, headers: Any, body: bytes) -> SendOutcome:
        self.sent.append((url, dict(headers), json.loads(body)))
        return SendOutcome(self.answers.pop(0) if self.answers else 204)

    async def aclose(self) -> None:
        pass


def sending(receiver: Receiver, clock: FrozenClock) -> tuple[SendMessages, MemoryAutomation]:
    store = MemoryAutomation.over(MemoryRuns())

    async def resolve(reference: str) -> str:
        return {"env:ONE": SECRET, "env:TWO": "another secret"}[reference]

    def fits(pattern: str, subject: str) -> bool:
        return subject.startswith(pattern.removesuffix(">"))

    return SendMessages(store.subscriptions, store.outgoing, receiver, resolve, store.letters, clock, fits), store


def message(key: str) -> BusMessage:
    return BusMessage(key, "agent33.workflow.completed", {"run_id": key.partition(":")[0]})


@pytest.mark.proves("AU-10")
async def test_a_message_is_signed_by_the_standard_and_sent_once() -> None:
    receiver, clock = Receiver(), FrozenClock()
    messages, _ = sending(receiver, clock)
    await messages.add("ops", ["agent33.>"], "https://example.com/hook", "env:ONE", by=owner_here())
    for _ in range(2):
        await messages.take(message("a:1"))
    assert [await messages.send_next("ops") for _ in range(2)] == [True, False]
    ((url, headers, told),) = receiver.sent
    assert (url, told["type"], told["data"]) == (
        "https://example.com/hook",
        "agent33.workflow.completed",
        {"run_id": "a"},
    )
    body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    signed = b"a:1." + headers["webhook-timestamp"].encode() + b"." + body
    right = b64encode(hmac.digest(b64decode(SECRET.removeprefix("whsec_")), signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{right}"
    assert headers["webhook-id"] == "a:1"


async def test_a_rotated_secret_signs_beside_the_old_one_for_a_day() -> None:
    receiver, clock = Receiver(), FrozenClock()
    messages, _ = sending(receiver, clock)
    await messages.add("ops", ["agent33.>"], "https://example.com/hook", "env:ONE", by=owner_here())
    await messages.rotate("ops", "env:TWO")
    await messages.test("ops")
    clock.time += 86_401
    await messages.test("ops")
    assert [len(headers["webhook-signature"].split()) for _, headers, _ in receiver.sent] == [2, 1]


async def test_what_is_not_taken_is_tried_again_later_and_at_last_a_dead_letter() -> None:
    receiver, clock = Receiver(*[500] * 8), FrozenClock()
    messages, store = sending(receiver, clock)
    await messages.add("ops", ["agent33.>"], "https://example.com/hook", "", by=owner_here())
    await messages.take(message("a:1"))
    for wait in (*RETRIES_S, 0.0):
        assert await messages.send_next("ops")
        assert not await messages.send_next("ops")
        clock.time += wait
    (letter,) = await store.letters.list(limit=5)
    assert (letter.kind, letter.reason) == ("delivery_out", "given up after 8 attempts: answered 500")
    assert await messages.replay(letter, owner_here(), False) == "a:1"
    assert await messages.send_next("ops")
    assert [headers["webhook-id"] for _, headers, _ in receiver.sent] == ["a:1"] * 9
    assert (await messages.find("ops")).failing_since is None


async def test_a_receiver_that_is_gone_or_fails_for_days_is_disabled() -> None:
    receiver, clock = Receiver(410, 500), FrozenClock()
    messages, store = sending(receiver, clock)
    await messages.add("ops", ["agent33.>"], "https://example.com/hook", "", by=owner_here())
    await messages.take(message("a:1"))
    await messages.send_next("ops")
    assert (await messages.find("ops")).disabled_because == "the receiver answered 410"
    old = replace(await messages.find("ops"), is_active=True, failing_since=clock.time - 5 * 86_400)
    await store.subscriptions.save(old)
    await messages.take(message("b:1"))
    await messages.send_next("ops")
    assert (await messages.find("ops")).disabled_because == "it has failed for five days"


def test_without_a_secret_nothing_is_signed() -> None:
    assert set(signed_headers((), "a", 1, b"{}")) == {"webhook-id", "webhook-timestamp"}
    assert Subscription(name="a", subjects=(), url="").secrets(0.0) == ()


async def test_a_server_tells_a_receiver_that_a_workflow_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a secret of ours 4711 4711")
    define(tmp_path, "first", "manual: true")
    came: asyncio.Queue[Any] = asyncio.Queue()

    async def take(request: web.BaseRequest) -> web.Response:
        came.put_nowait((request.headers.get("webhook-signature"), await request.json()))
        return web.Response(status=204)

    async with site({"/hook": take}) as there:
        allowed = {"web": {"allow_hosts": [there.host]}}
        async with served(tmp_path, also=allowed) as server, asyncio.timeout(PATIENCE_S):
            wish = {"name": "ops", "url": there.url("/hook"), "subjects": ["agent33.workflow.completed"]}
            made = await server.client.post("/api/v1/subscriptions", json={**wish, "secret": "env:HOOK_SECRET"})
            assert made.status_code == 201, made.text
            tested = (await server.client.post("/api/v1/subscriptions/ops/test")).json()
            assert tested["status"] == 204, tested
            await came.get()
            run = (await server.client.post("/api/v1/workflows/first/execute", json={})).json()["run_id"]
            signature, told = await came.get()
            assert signature.startswith("v1,")
            assert (told["type"], told["data"]["run_id"]) == ("agent33.workflow.completed", run)
            inner = {**wish, "name": "inner", "url": "http://10.0.0.1/hook"}
            await server.client.post("/api/v1/subscriptions", json=inner)
            refused = (await server.client.post("/api/v1/subscriptions/inner/test")).json()
            assert refused["status"] == 0
            assert "web.allow_hosts" in refused["problem"]
            assert (await server.client.delete("/api/v1/subscriptions/inner")).status_code == 200
