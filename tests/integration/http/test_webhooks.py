"""What others send us: checked, told, and carried out once."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from agent_fabric.application.ports.webhooks import Delivery
from agent_fabric.domain.errors import ConfigError, ServerBusy
from integration.http.served import Served, served

pytestmark = pytest.mark.proves("A33-006")

SECRET = "a secret that nobody else knows"
WORKFLOW = {
    "name": "on-push",
    "version": "1.0.0",
    "triggers": {"manual": False},
    "inputs": {
        "event": {"type": "string", "required": True},
        "payload": {"type": "object", "required": True},
    },
    "outputs": {"said": {"type": "string"}},
    "steps": [
        {
            "id": "tell",
            "action": "transform",
            "inputs": {"said": "{{ inputs.event }} of {{ inputs.payload.ref }}"},
        }
    ],
}


def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> dict[str, Any]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    folder = tmp_path / "workflow-definitions"
    folder.mkdir(exist_ok=True)
    (folder / "on-push.json").write_text(json.dumps(WORKFLOW))
    hook = {"scheme": "github", "secret": "env:HOOK_SECRET"}
    return {"webhooks": {"code": {**hook, "workflow": "on-push", **more}, "plain": hook}}


def signed(body: bytes, secret: str = SECRET, **headers: str) -> dict[str, str]:
    digest = hmac.digest(secret.encode(), body, "sha256").hex()
    return {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={digest}", **headers}


async def deliver(server: Served, name: str, body: bytes, headers: Mapping[str, str]) -> httpx2.Response:
    """Deliver something, without any credentials."""
    async with httpx2.AsyncClient(base_url=server.client.base_url, timeout=30) as stranger:
        return await stranger.post(f"/api/v1/webhooks/{name}", content=body, headers=dict(headers))


async def test_a_delivery_starts_its_workflow_once_and_is_told_on_the_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, also=configured(tmp_path, monkeypatch)) as server:
        told: list[tuple[str, Mapping[str, Any]]] = []
        server.fabric.outgoing.bus.subscribe(
            "agent33.webhook.*", lambda subject, message: told.append((subject, message))
        )
        body = b'{"ref": "refs/heads/main"}'
        first = await deliver(server, "code", body, signed(body, **{"X-GitHub-Event": "push"}))
        assert first.status_code == 202, first.text
        run_id = first.json()["run_id"]
        assert first.headers["location"] == f"/runs/{run_id}"
        assert first.json()["repeated"] is False
        done = await server.settled(run_id)
        assert done["_meta"]["status"] == "completed", done
        again = await deliver(server, "code", body, signed(body, **{"X-GitHub-Event": "push"}))
        assert again.status_code == 202
        assert again.json() == {**first.json(), "repeated": True}
        assert len((await server.client.get("/runs")).json()["runs"]) == 1
        ((subject, message),) = told
        assert subject == "agent33.webhook.code"
        assert message["payload"] == {"ref": "refs/heads/main"}
        assert message["event"] == "push"
        assert message["run_id"] == run_id
        assert "x-hub-signature-256" not in message["headers"]
        events = (await server.client.get(f"/runs/{run_id}/events")).json()["events"]
        created = events[0]["payload"]
        assert created["requested_by"] == "webhook code"
        assert created["workflow"]["inputs"] == {"event": "push", "payload": {"ref": "refs/heads/main"}}
        assert created["workflow"]["untrusted"] == ["webhook code"]


async def test_twenty_of_the_same_at_once_start_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, also=configured(tmp_path, monkeypatch)) as server:
        body = b'{"ref": "x"}'
        answers = await asyncio.gather(
            *(deliver(server, "code", body, signed(body, **{"X-GitHub-Event": "push"})) for _ in range(20))
        )
        assert {each.status_code for each in answers} == {202}
        assert len({each.json()["run_id"] for each in answers}) == 1
        assert len((await server.client.get("/runs")).json()["runs"]) == 1


async def test_a_delivery_that_came_before_a_restart_is_still_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, settings = b'{"ref": "x"}', configured(tmp_path, monkeypatch)
    async with served(tmp_path, also=settings) as server:
        first = (await deliver(server, "code", body, signed(body, **{"X-GitHub-Event": "push"}))).json()
    async with served(tmp_path, also=settings) as server:
        again = (await deliver(server, "code", body, signed(body, **{"X-GitHub-Event": "push"}))).json()
        assert again == {**first, "repeated": True}


async def test_who_receives_a_delivery_gets_it_once_and_may_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Channel:
        def __init__(self) -> None:
            self.got: list[Delivery] = []

        async def receive(self, source: str, delivery: Delivery) -> Mapping[str, Any] | None:
            self.got.append(delivery)
            if delivery.payload.get("fails") and len(self.got) == 1:
                raise ServerBusy("not now")
            await asyncio.sleep(0)
            return {"text": f"hello from {source}"}

    async with served(tmp_path, also=configured(tmp_path, monkeypatch)) as server:
        channel = server.fabric.webhooks.receivers["plain"] = Channel()
        assert (await deliver(server, "plain", b'{"fails": 1}', signed(b'{"fails": 1}'))).status_code == 503
        answers = await asyncio.gather(
            *(deliver(server, "plain", b'{"fails": 1}', signed(b'{"fails": 1}')) for _ in range(5))
        )
        assert sorted(each.status_code for each in answers) == [200, 202, 202, 202, 202]
        assert [each.json() for each in answers if each.status_code == 200] == [{"text": "hello from plain"}]
        assert len(channel.got) == 2, "once in vain, and once"


async def test_without_a_workflow_a_delivery_is_only_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = configured(tmp_path, monkeypatch, events=["release"])
    async with served(tmp_path, also=settings) as server:
        for name in ("plain", "code"):
            taken = await deliver(server, name, b"{}", signed(b"{}", **{"X-GitHub-Event": "push"}))
            assert taken.status_code == 202
            assert taken.json()["run_id"] is None
        assert (await server.client.get("/runs")).json()["runs"] == []


async def test_strangers_learn_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, also=configured(tmp_path, monkeypatch)) as server:
        body = b'{"ref": "x"}'
        wrong = signed(body, "guessed")
        refused = [
            await deliver(server, "code", body, wrong),
            await deliver(server, "nowhere", body, wrong),
            await deliver(server, "code", body, {"Content-Type": "application/json"}),
            await deliver(server, "code", body + b" ", signed(body)),
            await deliver(server, "code", b"", {}),
            await deliver(server, "code", b"\xff\x00 no json", {"Content-Type": "text/plain"}),
        ]
        assert {each.status_code for each in refused} == {401}
        assert len({each.content for each in refused}) == 1
        assert (await server.client.get("/runs")).json()["runs"] == []


async def test_a_local_token_is_no_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, also=configured(tmp_path, monkeypatch)) as server:
        assert (await server.client.post("/api/v1/webhooks/code", json={})).status_code == 401


async def test_a_secret_that_is_not_set_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = configured(tmp_path, monkeypatch)
    monkeypatch.delenv("HOOK_SECRET")
    async with served(tmp_path, also=settings) as server:
        assert (await deliver(server, "code", b"{}", signed(b"{}", ""))).status_code == 401


async def test_forms_are_understood_and_what_is_nothing_is_refused_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, also=configured(tmp_path, monkeypatch)) as server:
        told: list[Mapping[str, Any]] = []
        server.fabric.outgoing.bus.subscribe("agent33.webhook.plain", lambda _, message: told.append(message))
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for fields in ({"command": "/deploy", "text": ""}, {"payload": '{"ref": "x"}'}):
            body = urlencode(fields).encode()
            assert (await deliver(server, "plain", body, {**signed(body), **form})).status_code == 202
        assert [each["payload"] for each in told] == [{"command": "/deploy", "text": ""}, {"ref": "x"}]
        for body in (b"{", b"\xff", b"[" * 5_000 + b"]" * 5_000):
            refused = await deliver(server, "plain", body, signed(body))
            assert refused.status_code == 422, body[:20]
            assert refused.json()["hint"]


async def test_a_sender_cannot_have_secrets_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, also=configured(tmp_path, monkeypatch)) as server:
        body = b'{"ref": "${secret:HOOK_SECRET}"}'
        taken = await deliver(server, "code", body, signed(body, **{"X-GitHub-Event": "push"}))
        await server.settled(taken.json()["run_id"])
        events = await server.client.get(f"/runs/{taken.json()['run_id']}/events")
        assert SECRET not in events.text
        assert "${secret:HOOK_SECRET}" not in events.text


async def test_a_source_delivers_only_so_often_and_strangers_do_not_use_that_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = configured(tmp_path, monkeypatch)
    settings["webhooks"]["plain"] = {**settings["webhooks"]["plain"], "rate": "2/minute"}
    async with served(tmp_path, also=settings) as server:
        for _ in range(5):
            assert (await deliver(server, "plain", b"{}", signed(b"{}", "guessed"))).status_code == 401
        bodies = [b'{"n": %d}' % number for number in range(3)]
        statuses = [(await deliver(server, "plain", body, signed(body))).status_code for body in bodies]
        assert statuses == [202, 202, 429]


async def test_a_delivery_whose_workflow_is_gone_is_kept_and_can_be_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = configured(tmp_path, monkeypatch)
    (tmp_path / "workflow-definitions" / "on-push.json").unlink()
    async with served(tmp_path, also=settings) as server:
        body, headers = b'{"ref": "x"}', {"X-GitHub-Event": "push"}
        kept = await deliver(server, "code", body, signed(body, **headers))
        assert (kept.status_code, kept.json()["run_id"]) == (202, None)
        (tmp_path / "workflow-definitions" / "on-push.json").write_text(json.dumps(WORKFLOW))
        assert (await deliver(server, "code", body, signed(body, **headers))).json()["repeated"] is True
        (letter,) = (await server.client.get("/api/v1/dead-letters")).json()["dead_letters"]
        replayed = (await server.client.post(f"/api/v1/dead-letters/{letter['id']}/replay")).json()
        await server.settled(replayed["outcome"])


async def test_senders_of_all_kinds_come_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    schemes = ("slack", "stripe", "telegram", "hmac-sha256")
    hooks = {scheme: {"scheme": scheme, "secret": "env:HOOK_SECRET"} for scheme in schemes}
    async with served(tmp_path, also={"webhooks": hooks}) as server:
        now, body = int(time.time()), b"{}"

        def over(text: bytes) -> str:
            return hmac.digest(SECRET.encode(), text, "sha256").hex()

        shown = {
            "slack": {"X-Slack-Request-Timestamp": str(now), "X-Slack-Signature": f"v0={over(b'v0:%d:{}' % now)}"},
            "stripe": {"Stripe-Signature": f"t={now},v1={over(b'%d.{}' % now)}"},
            "telegram": {"X-Telegram-Bot-Api-Secret-Token": SECRET},
            "hmac-sha256": {"X-Signature-256": over(body)},
        }
        for scheme, headers in shown.items():
            answer = await deliver(server, scheme, body, {"Content-Type": "application/json", **headers})
            assert answer.status_code == 202, scheme
        greeting = b'{"type": "url_verification", "challenge": "are you there?"}'
        signature = f"v0={over(b'v0:%d:%b' % (now, greeting))}"
        headers = {**shown["slack"], "X-Slack-Signature": signature, "Content-Type": "application/json"}
        answer = await deliver(server, "slack", greeting, headers)
        assert answer.json() == {"challenge": "are you there?"}, "Slack asks so before it sends anything"


@pytest.mark.proves("WA-8")
@pytest.mark.parametrize("weak", ["x", "short", "a" * 40, "ab" * 20])
async def test_a_secret_that_can_be_guessed_is_refused_at_the_start_and_signs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: str
) -> None:
    monkeypatch.setenv("HOOK_SECRET", weak)
    hook = {"scheme": "hmac-sha256", "secret": "env:HOOK_SECRET"}
    async with served(tmp_path, also={"webhooks": {"mine": hook}}) as server:
        with pytest.raises(ConfigError, match="'mine'") as raised:
            await server.fabric.webhooks.require_strong_secrets()
        assert "openssl rand" in raised.value.hint
        signature = hmac.new(weak.encode(), b"{}", hashlib.sha256).hexdigest()
        headers = {"X-Signature-256": signature, "Content-Type": "application/json"}
        answer = await server.client.post("/api/v1/webhooks/mine", content=b"{}", headers=headers)
        assert answer.status_code == 401
