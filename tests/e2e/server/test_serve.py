"""`fabric serve` as a process: it listens, stops in time whatever hangs, and goes on where it was killed."""

import asyncio
import datetime as dt
import ipaddress
import json
import signal
import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agent_fabric.client import FabricClient, ServerUnreachable
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.testing.scripted_model import Call, Entry, Hang, Script, ScriptedModel, Slow
from e2e.fabric_process import Fabric, Started, settings, until
from e2e.kill_loop import Findings, _check, script
from e2e.server_process import PATIENCE_S, in_background, require_log, serving
from free_ports import free_port
from integration.http.served import DONE, LOOK, SCRIPT, Stream, bearer, data_of, deaf_reader, ids, task


@pytest.mark.proves("AF-022", "AF-030")
async def test_serve_tells_its_address_answers_and_ends_when_told(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        for number in (signal.SIGTERM, signal.SIGINT):
            async with serving(fabric) as server:
                assert (await server.client.get("/health")).json()["ok"] is True
                assert (await server.client.post("/run", json=task())).json()["summary"] == "all done"
                ended = await server.stop(number)
            assert (ended.code, ended.out) == (0, "")
            require_log(ended)


@pytest.mark.proves("AF-022")
async def test_serve_listens_where_it_is_told_and_else_at_127_0_0_1_8787(tmp_path: Path) -> None:
    free = free_port()
    for options, port in ((("--host", "127.0.0.1", "--port", str(free)), free), ((), 8787)):
        fabric = Fabric(tmp_path, settings("http://127.0.0.1:1/v1"))
        started = await fabric.start("serve", *options)
        assert started.process.stdout is not None
        line = (await asyncio.wait_for(started.process.stdout.readline(), PATIENCE_S)).decode()
        if line:
            assert line.startswith(f"fabric serve: http://127.0.0.1:{port} ")
            async with httpx2.AsyncClient() as client:
                assert (await client.get(f"http://127.0.0.1:{port}/health")).json()["ok"] is True
            started.process.terminate()
            assert (await started.ended()).code == 0
        else:  # another program of this machine listens there
            assert f"127.0.0.1:{port}" in (await started.ended()).err


@pytest.mark.proves("AF-022")
async def test_serve_tells_people_the_address_in_one_line(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:1/v1"))
    started = await fabric.start("serve", "--port", "0", "--host", "localhost", "--max-running", "3")
    assert started.process.stdout is not None
    line = (await asyncio.wait_for(started.process.stdout.readline(), PATIENCE_S)).decode()
    assert line.startswith("fabric serve: http://127.0.0.1:")
    assert str(fabric.root) in line
    started.process.terminate()
    assert (await started.ended()).code == 0


@pytest.mark.proves("C08")
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_an_address_that_others_could_reach_is_refused_while_nobody_may_come_in(
    tmp_path: Path, host: str
) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:1/v1"))
    ended = await fabric("serve", "--host", host)
    assert ended.code == 2
    assert "no user or API key exists yet" in ended.err
    assert "fabric users add" in ended.err
    assert "Traceback" not in ended.err


async def test_a_taken_port_is_explained(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        fabric = Fabric(tmp_path, settings("http://127.0.0.1:1/v1"))
        ended = await fabric("serve", "--port", str(port))
        told = await fabric("serve", "--port", str(port), "--json")
    assert ended.code == 2
    assert f"Port {port} of 127.0.0.1 is taken" in ended.err
    assert "--port" in ended.err
    (line,) = told.out.splitlines()
    assert (told.code, json.loads(line)["error"]["code"]) == (2, "config_invalid")


async def test_a_folder_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:1/v1"))
    fabric.root.mkdir()
    (fabric.root / "fabric.db").write_bytes(b"this is no database, whatever its name says" * 100)
    unknown = await fabric("serve", "--port", "0")
    assert (unknown.code, "fabric config trust" in unknown.err) == (2, True), "somebody else may have made it"
    assert (await fabric("config", "trust")).code == 0
    ended = await fabric("serve", "--port", "0")
    assert ended.code == 1
    assert "not a usable database" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.slow
@pytest.mark.proves("AF-035", "C32")
async def test_told_to_stop_it_is_gone_in_time_whatever_hangs_and_the_next_one_goes_on(tmp_path: Path) -> None:
    turns: dict[str, Sequence[Entry]] = {
        "model": (Hang(), LOOK, DONE),
        "tool": (
            *(Call("write_file", {"path": f"{number}.txt", "content": "x" * 2_000}) for number in range(60)),
            Call("shell", {"command": "trap '' TERM INT; echo begun >> witness; sleep 600"}),
            DONE,
        ),
    }
    async with ScriptedModel(Script((LOOK, DONE), named={**SCRIPT.named, **turns})) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))

        def witnesses() -> list[Path]:
            return list(fabric.root.glob("runs/*/workspace/witness"))

        async with serving(fabric, "--max-running", "2") as server:
            await in_background(server, **task("model"))
            await in_background(server, **task("tool", max_steps=100))
            await in_background(server, **task("slow"))
            await until(witnesses, "the tool has begun")
            runs = [run["run_id"] for run in await server.runs()]
            deaf = [deaf_reader(server.port, server.token, run_id) for run_id in runs for _ in range(3)]
            listening = await Stream.send(server.port, "GET", f"/runs/{runs[0]}/events", headers=bearer(server.token))
            await listening.reader.readuntil(b"\r\n\r\n")  # else the server may end before it has taken the connection
            waiting = asyncio.create_task(server.client.post("/run", json=task()))
            await until(lambda: len(fabric.run_dirs()) == 4, "the fourth run waits for its turn")
            started = time.monotonic()
            ended = await server.stop()
            assert time.monotonic() - started < 10
            assert ended.code == 0
            require_log(ended)
            assert (await waiting).json()["code"] == "server_stopping"
            assert data_of((await listening.frames())[-1])["payload"]["error"]["code"] == "server_stopping"
            listening.close()
            for connection in deaf:
                connection.close()
        listed = (await fabric("logs", "list", "--json")).json["runs"]
        assert {run["status"] for run in listed} == {"interrupted"}

        async with serving(fabric) as server:
            settled = await server.until_settled()
            assert {run["status"] for run in settled} == {"completed"}
            events = (await server.client.get(f"/runs/{runs[2]}/events?limit=1000")).json()["events"]
            kinds = [event["kind"] for event in events]
            assert "run_interrupted" not in kinds, "nobody has to resume it by hand"
            assert next(event for event in events if event["kind"] == "run_resumed")["payload"]["by"] == "server"
            assert (await server.stop()).code == 0
        assert [witness.read_text() for witness in witnesses()] == ["begun\n"], (
            "what may have happened is not done again"
        )


def clinging_pack(workspace: str, network_allowed: bool) -> BaseSpecialistPack:
    """Build a pack that cannot be closed."""

    class Clinging(BaseSpecialistPack):
        async def aclose(self) -> None:
            await asyncio.Event().wait()

    finish = make_finish_tool_def({"summary": {"type": "string"}})
    return Clinging(system_prompt=f"Clinging to {workspace}, {network_allowed}.", tools=[], finish=finish)


CLINGING = {"clinging": {"description": "Cannot be closed.", "builder": "e2e.server.test_serve:clinging_pack"}}


@pytest.mark.slow
@pytest.mark.parametrize(("signals", "code", "within_s"), [(1, 0, 4.5), (2, 130, 2.5)])
async def test_what_cannot_be_stopped_is_left_behind_in_time_and_at_once_when_told_twice(
    tmp_path: Path, signals: int, code: int, within_s: float
) -> None:
    async with ScriptedModel(SCRIPT) as model:
        more: dict[str, Any] = {"specialists": CLINGING, "server": {"shutdown_timeout_s": 3.0}}
        async with serving(Fabric(tmp_path, settings(model.base_url, **more))) as server:
            await in_background(server, prompt="[[script=hang]]", pack="clinging")
            await model.wait_for_requests(1)
            started = time.monotonic()
            for _ in range(signals - 1):
                server.started.process.terminate()
                await until(lambda: not listens(server.url), "it has heard that")
            ended = await server.stop()
            assert ended.code == code
            require_log(ended)
            assert time.monotonic() - started < within_s


def listens(url: str) -> bool:
    """Tell whether somebody accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.proves("AF-131", "AF-134", "C31")
async def test_killed_in_the_middle_of_runs_the_next_server_completes_them_and_repeats_nothing(tmp_path: Path) -> None:
    async with ScriptedModel(script()) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        for life in range(4):
            async with serving(fabric, "--max-running", "4") as server:
                if life == 0:
                    for _ in range(6):
                        await in_background(server, prompt="Do all steps.", pack="engineering")
                await model.wait_for_requests(len(model.requests) + 12, timeout_s=20)
                await server.kill()
        async with serving(fabric) as server:
            settled = await server.until_settled()
            assert [run["status"] for run in settled] == ["completed"] * 6
            for run in settled:
                stream = await Stream.send(
                    server.port, "GET", f"/runs/{run['run_id']}/events", headers=bearer(server.token)
                )
                await stream.reader.readuntil(b"\r\n\r\n")
                *frames, end = await stream.frames()
                assert ids(frames) == list(range(len(frames)))
                assert data_of(end)["kind"] == "_run_done_"
                stream.close()
            assert (await server.stop()).code == 0
    findings = Findings()
    _check(fabric.root, findings)
    assert (findings.repeated, findings.lost) == ([], [])


@pytest.mark.slow
async def test_a_starting_server_takes_up_what_was_left_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    turns: dict[str, Sequence[Entry]] = {"once": (Slow(LOOK, 2.0), DONE)}
    async with ScriptedModel(Script(named={**SCRIPT.named, **turns})) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))

        async def run_of_the_command_line(name: str, number: int) -> tuple[Started, str]:
            before = set(fabric.run_dirs())
            started = await fabric.start("run", task(name)["prompt"], "--pack", "engineering")
            await model.wait_for_requests(number)
            (found,) = set(fabric.run_dirs()) - before
            return started, found.name

        killed, left = await run_of_the_command_line("once", 1)
        killed.process.kill()
        await killed.ended()
        homeless, gone = await run_of_the_command_line("once", 2)
        homeless.process.kill()
        await homeless.ended()
        (fabric.root / "runs" / gone / "workspace").rename(tmp_path / "elsewhere")
        stopped, person = await run_of_the_command_line("once", 3)
        stopped.process.terminate()
        assert (await stopped.ended()).code == 130
        living, held = await run_of_the_command_line("hang", 4)

        async with serving(fabric) as server:
            statuses = {run["run_id"]: run["status"] for run in await server.runs()}
            assert (statuses[left], statuses[held], statuses[person]) == ("running", "running", "interrupted")

            async with asyncio.timeout(PATIENCE_S):
                while (await server.client.get(f"/runs/{left}/status")).json()["status"] != "completed":
                    await asyncio.sleep(0.05)
            statuses = {run["run_id"]: run["status"] for run in await server.runs()}
            assert statuses == {left: "completed", gone: "interrupted", person: "interrupted", held: "running"}
            ended = await server.stop()
        assert f"Run {gone} was not resumed" in ended.err
        require_log(ended)
        living.process.kill()
        await living.ended()


@pytest.mark.slow
async def test_a_run_that_kills_its_server_again_and_again_is_left_to_a_person(tmp_path: Path) -> None:
    async with ScriptedModel(Script((Hang(times=99),))) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        for life in range(4):
            async with serving(fabric) as server:
                if life == 0:
                    await in_background(server, **task())
                if life < 3:
                    await model.wait_for_requests(life + 1)
                    await server.kill()
                else:
                    (run,) = await server.until_settled()
                    assert run["status"] == "interrupted"
                    assert len(model.requests) == 3


def certificate_for(folder: Path, name: str) -> dict[str, str]:
    """Make a certificate that only who has its file trusts; return how the server is told of it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = {"certificate": folder / "certificate.pem", "key": folder / "key.pem"}
    files["certificate"].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files["key"].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return {name: str(file) for name, file in files.items()}


async def test_it_speaks_https_when_it_has_a_certificate_and_its_own_doors_know_that(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        tls = certificate_for(tmp_path, "127.0.0.1")
        fabric = Fabric(tmp_path, settings(model.base_url, server={"tls": tls}))
        async with serving(fabric) as server:
            assert server.url.startswith("https://127.0.0.1:")
            trusting = ssl.create_default_context(cafile=tls["certificate"])
            async with httpx2.AsyncClient(base_url=server.url, verify=trusting, headers=bearer(server.token)) as client:
                done = await client.post("/run", json=task(), timeout=PATIENCE_S)
                assert done.json()["summary"] == "all done"
                transport = streamable_http_client(f"{server.url}/mcp", http_client=client)
                async with Client(transport) as tools:
                    found = await tools.call_tool("search_runs", {})
                    assert not found.is_error, found.content
            with pytest.raises(httpx2.ConnectError):
                await server.client.get("/health")
            async with FabricClient(server.url, token=server.token) as stranger:
                with pytest.raises(ServerUnreachable, match="is not trusted: self-signed certificate") as unknown:
                    await stranger.health()
                assert "SSL_CERT_FILE" in unknown.value.hint
            async with FabricClient(server.url.replace("https:", "http:"), token=server.token) as in_clear:
                with pytest.raises(ServerUnreachable, match="broke") as broken:
                    await in_clear.health()
                assert "https://" in broken.value.hint
            assert (await server.stop()).code == 0


async def test_a_certificate_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    tls = certificate_for(tmp_path, "127.0.0.1")
    for wrong in ({**tls, "key": tls["certificate"]}, {**tls, "certificate": str(tmp_path / "missing.pem")}):
        fabric = Fabric(tmp_path, settings("http://127.0.0.1:1/v1", server={"tls": wrong}))
        ended = await fabric("serve", "--port", "0")
        assert ended.code == 2
        assert "`server.tls` cannot be used" in ended.err
    assert f"the certificate {tmp_path / 'missing.pem'} cannot be read" in ended.err
