"""Two servers that share runs and wake each other over a real NATS."""

import json
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.cluster.nats.bus import JetStreamBus
from agent_fabric.infrastructure.cluster.nats.wake_ups import NatsWakeUps
from agent_fabric.infrastructure.persistence.runs import inbox
from agent_fabric.interfaces.http.runs import watch
from agent_fabric.testing.scripted_model import Script, Slow
from contract.durable_bus_contract import Inboxes
from e2e.fabric_process import until
from free_ports import free_port
from integration.http.served import DONE, LOOK, Served, data_of, served
from own_services import OwnService, run_nats

pytestmark = pytest.mark.proves("SC-8", "SC-10")
POLL_S = 60.0
TURNS = Script(turns=(*(Slow(LOOK, 0.2) for _ in range(12)), DONE))


@asynccontextmanager
async def two_servers(folder: Path, nats: OwnService) -> AsyncIterator[tuple[Served, Served]]:
    also = {"nats": {"url": nats.url}}
    async with served(folder, TURNS, also=also) as one, served(folder, TURNS, also=also) as other:
        for server in (one, other):
            wake_ups = server.fabric.wake_ups
            assert isinstance(wake_ups, NatsWakeUps)
            await until(partial(getattr, wake_ups, "connected"), "a connection to NATS")
        yield one, other


async def lags_at(reader: Served, driver: Served) -> list[float]:
    """Return how long after each event a reader at another server had it; nothing is missing, nothing comes twice."""
    run_id = (await driver.start()).run_id
    stream = await reader.watch(run_id)
    lags, seqs = [], []
    while (frame := await stream.frame()).startswith("id: "):
        event = data_of(frame)
        lags.append(time.time() - event["ts"])
        seqs.append(event["seq"])
    assert seqs == list(range(len(seqs)))
    return lags[4:]  # without what was there when it came


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll so seldom that only hints can be the reason that something is known."""
    for module, name in ((watch, "POLL_S"), (watch, "SHARED_POLL_S"), (inbox, "POLL_S")):
        monkeypatch.setattr(module, name, POLL_S)


@pytest.mark.slow
async def test_a_reader_elsewhere_has_each_event_also_without_nats_at_the_next_poll(tmp_path: Path) -> None:
    with run_nats() as nats:
        async with two_servers(tmp_path, nats) as (one, other):
            nats.kill()
            assert await lags_at(other, one)


@pytest.mark.slow
@pytest.mark.usefixtures("seldom")
async def test_an_event_or_a_cancellation_at_another_server_is_known_at_once(tmp_path: Path) -> None:
    with run_nats() as nats:
        async with two_servers(tmp_path, nats) as (one, other):
            assert statistics.median(lags := await lags_at(other, one)) < POLL_S / 4, lags
            took = []
            for _ in range(3):
                stream = await one.start()
                await until(partial(one.fabric.runs.dispatch.__contains__, RunId(stream.run_id)), "a driver")
                begin = time.time()
                assert (await other.client.post(f"/runs/{stream.run_id}/cancel")).status_code == 200
                told = [data_of(frame) for frame in await stream.frames()]
                (cancelled,) = [event for event in told if event["kind"] == "run_cancelled"]
                took.append(cancelled["ts"] - begin)
            assert statistics.median(took) < POLL_S / 4, took


async def test_a_server_starts_and_works_without_nats_and_says_so(tmp_path: Path) -> None:
    url = f"nats://ada:pass-1@127.0.0.1:{free_port()}"
    async with served(tmp_path, also={"nats": {"url": url}}) as server:
        assert (await server.client.post("/run", json={"prompt": "do it", "pack": "engineering"})).status_code == 200
        told = (await server.client.get("/api/v1/doctor")).json()
        (finding,) = [each for each in told["findings"] if each["about"] == "nats"]
        assert finding["level"] == "warn"
        assert "at their next poll" in finding["text"]
        assert "pass-1" not in str(told)


async def test_the_doctor_says_that_nats_is_there(tmp_path: Path) -> None:
    with run_nats() as nats:
        async with served(tmp_path, also={"nats": {"url": nats.url}}) as server:
            findings = (await server.client.get("/api/v1/doctor")).json()["findings"]
            (finding,) = [each for each in findings if each["about"] == "nats"]
            assert finding["level"] == "ok"


@pytest.mark.slow
@pytest.mark.proves("A33-090", "A33-091", "A33-092")
async def test_another_system_hears_of_every_workflow_whatever_was_gone_meanwhile(tmp_path: Path) -> None:
    step = {"id": "greet", "action": "run-command", "command": "echo hello"}
    hello = {"name": "hello", "version": "1.0.0", "steps": [step]}
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "hello.json").write_text(json.dumps(hello))

    async def execute(server: Served) -> str:
        answer = await server.client.post("/api/v1/workflows/hello/execute", json={})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["_meta"]["run_id"])

    with run_nats() as nats:
        async with served(tmp_path, also={"nats": {"url": nats.url}}) as server:
            runs = [await execute(server)]
            nats.kill()
            runs.append(await execute(server))
        nats.start()
        async with served(tmp_path, also={"nats": {"url": nats.url}}) as server:
            runs.append(await execute(server))
            inboxes, elsewhere = Inboxes(), JetStreamBus(nats.url)
            elsewhere.attend("billing", "agent33.workflow.*", inboxes.subscriber("billing"))
            await inboxes.wait_for("billing", 6)
            await elsewhere.aclose()
    heard = {(told.subject.rpartition(".")[2], told.payload["run_id"]) for told in inboxes.taken["billing"]}
    assert heard == {(what, run_id) for what in ("started", "completed") for run_id in runs}
