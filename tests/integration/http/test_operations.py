"""What those see who run a server: whether it is ready, numbers that agree with the store, alerts, backups."""

import asyncio
import hmac
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent_fabric.application.audit.collect_garbage import ApplyRetention
from agent_fabric.bootstrap.records import folder_backups, owner_here
from agent_fabric.bootstrap.runs import collect_garbage
from agent_fabric.client import FabricClient
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.observability.operations_log import operations_log
from agent_fabric.testing.scripted_model import Call, Script, Status
from agent_fabric.wire.operations import STORE
from e2e.workflows.test_workflows import GREET
from integration.http.served import DONE, LOOK, PATIENCE_S, SCRIPT, Served, served, task
from integration.http.test_workflows import define
from integration.persistence.opened_store import store_of

Sample = dict[tuple[str, ...], float]


def numbers(text: str) -> dict[str, Sample]:
    """Return all samples, by name and by the values of their labels."""
    found: dict[str, Sample] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def scraped(server: Served) -> dict[str, Sample]:
    answer = await server.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return numbers(answer.text)


def counted(server: Served, query: str) -> Any:
    storage: Any = server.fabric.records.storage
    return storage._store.read_now(lambda connection: connection.execute(query).fetchall())


async def done(server: Served, script: str = "") -> str:
    answer = await server.client.post("/run", json=task(script))
    return str(answer.json()["_meta"]["run_id"])


@pytest.mark.proves("A33-110")
async def test_metrics_agree_with_the_store_after_real_runs(tmp_path: Path) -> None:
    bad = Script(turns=SCRIPT.turns, named={**SCRIPT.named, "bad": (Call("no_such_tool", {}), LOOK, DONE)})
    async with served(tmp_path, bad) as server:
        for script in ("", "", "bad"):
            await done(server, script)
        stream = await server.start("hang")
        cancelled = await server.client.post(f"/runs/{stream.run_id}/cancel", json={"reason": "enough"})
        assert cancelled.status_code < 300
        await server.settled(stream.run_id)
        seen = await scraped(server)

        (by_status,) = [dict(counted(server, "SELECT status, count(*) FROM runs GROUP BY status"))]
        assert sum(seen["fabric_runs_started_total"].values()) == sum(by_status.values()) == 4
        assert {labels[0]: value for labels, value in seen["fabric_runs_settled_total"].items()} == by_status
        kinds = dict(counted(server, "SELECT kind, count(*) FROM events GROUP BY kind"))
        assert seen["fabric_turns_total"][()] == kinds["llm_response"]
        calls = seen["fabric_tool_calls_total"]
        assert sum(calls.values()) == kinds["tool_result"] + kinds["tool_error"]
        assert calls["error", "no_such_tool"] == 1
        assert seen["fabric_model_request_seconds_count"][("scripted",)] == kinds["llm_response"]
        assert seen["fabric_tokens_in_total"][("scripted",)] > 0
        assert (seen["fabric_runs_running"][()], seen["fabric_runs_queued"][()]) == (0, 0)
        assert seen["fabric_approvals_waiting"][()] == 0
        assert seen["fabric_store_unavailable"][()] == 0
        assert seen["process_resident_memory_bytes"][()] > 0
        assert seen["fabric_build_info"]


async def test_runs_that_work_for_a_workflow_are_counted_too(tmp_path: Path) -> None:
    inner = {"id": "inner", "action": "workflow", "workflow": "greet", "inputs": {"who": "Ada"}}
    define(tmp_path, GREET, {"name": "outer", "version": "1.0.0", "steps": [inner]})
    async with served(tmp_path) as server:
        answer = await server.client.post("/api/v1/workflows/outer/execute", json={})
        assert answer.status_code == 200, answer.text
        seen = await scraped(server)
        ((runs,),) = counted(server, "SELECT count(*) FROM runs")
        assert runs > 1
        assert seen["fabric_runs_started_total"][()] == seen["fabric_runs_settled_total"]["completed",] == runs
        ((steps,),) = counted(server, "SELECT count(*) FROM events WHERE kind = 'step_finished'")
        assert sum(seen["fabric_workflow_steps_total"].values()) == steps


async def test_queue_and_streams_are_seen_while_they_last(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1) as server:
        await server.start("hang")
        await server.model.wait_for_requests(1, timeout_s=PATIENCE_S)
        await server.start("hang")
        seen = await scraped(server)
        assert (seen["fabric_runs_running"][()], seen["fabric_runs_queued"][()]) == (1, 1)
        assert seen["fabric_queue_oldest_age_seconds"][()] > 0
        assert seen["fabric_streams_open"][()] == 2


async def test_names_that_a_model_makes_up_do_not_become_endless_labels(tmp_path: Path) -> None:
    made_up = tuple(Call(f"tool_{number}", {}) for number in range(140))
    async with served(tmp_path, Script(turns=(*made_up, DONE)), also={"budget": {"max_steps": 200}}) as server:
        await done(server)
        calls = (await scraped(server))["fabric_tool_calls_total"]
        assert len(calls) <= 101
        assert calls["other", "other"] > 0


@pytest.mark.sqlite
@pytest.mark.proves("A33-110")
async def test_ready_tells_what_is_wrong_to_anybody_but_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        stranger = {"Authorization": ""}
        answer = await server.client.get("/ready", headers=stranger)
        assert (answer.status_code, answer.json()) == (200, {"ready": True, "failing": []})
        assert (await server.client.head("/ready")).status_code == 200

        database = server.fabric.records.layout.database
        database.rename(database.with_name("gone"))
        async with asyncio.timeout(PATIENCE_S):  # a look is good for one second
            while (answer := await server.client.get("/ready", headers=stranger)).status_code == 200:
                await asyncio.sleep(0.05)
        assert (answer.status_code, answer.json()) == (503, {"ready": False, "failing": ["store"]})
        assert str(tmp_path) not in answer.text
        assert (await server.client.head("/ready")).status_code == 503
        assert (await server.fabric.operations.measure())["store_unavailable"] == 1
        assert (await scraped(server))["fabric_store_unavailable"][()] == 1
        database.with_name("gone").rename(database)

        await server.fabric.stop()
        assert (await server.client.get("/ready")).json() == {"ready": False, "failing": ["stopping"]}


async def test_asking_often_whether_it_is_ready_writes_once_a_second_at_most(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        store = store_of(server.fabric.records)
        before = store.read_now(lambda connection: connection.execute("PRAGMA data_version").get)
        answers = await asyncio.gather(*(server.client.get("/ready") for _ in range(50)))
        assert {answer.status_code for answer in answers} == {200}
        after = store.read_now(lambda connection: connection.execute("PRAGMA data_version").get)
        assert int(str(after)) - int(str(before)) <= 2


@pytest.mark.sqlite
async def test_a_backup_made_by_the_server_while_runs_go_on_can_be_restored(tmp_path: Path) -> None:
    async with served(tmp_path, also={"retention": {"backups": 1}}) as server:
        await done(server)
        streams = [await server.start("long") for _ in range(3)]
        made = await server.client.post("/api/v1/db/backup")
        assert made.status_code == 201, made.text
        path = Path(made.json()["path"])
        assert path.parent == tmp_path / ".fabric" / "backups"
        assert path.stat().st_size == made.json()["size_bytes"]
        refused = await server.client.post("/api/v1/db/backup", json={"workspaces": "yes"})
        assert refused.status_code == 422
        for stream in streams:
            await stream.frames()

        restored = folder_backups(tmp_path / "restored").restore(
            path, by=owner_here(), force=False, tell=lambda _: None
        )
        assert restored.manifest.ours
        assert (tmp_path / "restored" / "fabric.db").exists()
        assert not list((tmp_path / "restored").rglob("token"))

        status = (await server.client.get("/api/v1/db?check=true")).json()
        assert (status["damage"], status["served"]) == ([], True)
        assert status["runs"]["completed"] == 4


@pytest.mark.sqlite
@pytest.mark.proves("C15")
async def test_the_client_tells_the_same_about_the_store_as_the_server_itself(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as server,
        FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client,
    ):
        await done(server)
        shown = STORE.load(await client.store.status(check=True))
        own = await server.fabric.operations.status(check=True)
        # Other programs write to the same disk between the two readings.
        assert replace(shown, free_bytes=own.free_bytes) == own
        made = await client.store.back_up(workspaces=False)
        assert Path(made["path"]).exists()


async def test_retention_removes_what_is_too_old_and_the_chain_holds(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await done(server)
        records, clock = server.fabric.records, SystemClock()
        apply = ApplyRetention(collect_garbage(records), 1.0, 0, clock, operations_log("retention"))
        await apply.once()
        assert counted(server, "SELECT count(*) FROM runs") == [(1,)]
        await ApplyRetention(collect_garbage(records), 1e-9, 0, clock, operations_log("retention")).once()
        assert counted(server, "SELECT count(*) FROM runs") == [(0,)]
        ended = await (await server.command.start("audit", "verify", "--json")).ended()
        assert ended.json.get("holds") is True, ended


class Receiver:
    """A webhook on a loopback port: refuses at first, then takes what comes."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.got: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])
            }
            body = await reader.readexactly(int(headers["content-length"]))
            if self.refusals:
                self.refusals -= 1
                writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
            else:
                self.got.put_nowait((headers, body))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()
        writer.close()


@asynccontextmanager
async def receiver(refusals: int = 0) -> AsyncIterator[tuple[Receiver, str]]:
    made = Receiver(refusals)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        yield made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/alert"


@pytest.mark.proves("A33-110")
async def test_an_alert_reaches_bus_list_and_a_signed_webhook_that_was_busy_at_first(tmp_path: Path) -> None:
    os.environ["ALERT_SECRET_OF_TEST"] = "s3cret-of-the-hook"
    async with receiver(refusals=1) as (hook, url):
        alert = {
            "name": "a-run-failed",
            "when": "event run_failed",
            "notify": ["bus", url],
            "secret": "env:ALERT_SECRET_OF_TEST",
            "severity": "critical",
        }
        failing = Script(turns=(Status(400, times=99),))
        async with served(tmp_path, failing, also={"alerts": [alert]}) as server:
            heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
            server.fabric.outgoing.bus.subscribe("agent33.alert.*", lambda *told: heard.put_nowait(told))
            run_id = await done(server)
            async with asyncio.timeout(PATIENCE_S):
                subject, message = await heard.get()
                headers, body = await hook.got.get()
            assert (subject, message["run_id"]) == ("agent33.alert.a-run-failed", run_id)
            told = json.loads(body)
            assert (told["alert"], told["status"], told["severity"]) == ("a-run-failed", "firing", "critical")
            at, _, signed = headers["x-fabric-signature"].partition(",v1=")
            expected = hmac.digest(b"s3cret-of-the-hook", at.removeprefix("t=").encode() + b"." + body, "sha256")
            assert signed == expected.hex()
            listed = (await server.client.get("/api/v1/alerts")).json()["alerts"]
            assert (listed[0]["name"], listed[0]["status"]) == ("a-run-failed", "firing")
            assert {"disk-nearly-full", "store-unavailable"} <= {each["name"] for each in listed}
            assert (await scraped(server))["fabric_alert_firing"][("a-run-failed",)] == 1
