"""Documents and facts over HTTP: each for its owner, and nothing for a run that asks in the name of one."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent_fabric.application.memory.embed_uploads import EmbedUploads
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.client import FabricClient
from agent_fabric.domain.errors import FactRefused, MemoryNotFound, MissingExtra, StoreUnavailable
from agent_fabric.domain.identity.principals import RUN_HEADER, Scope
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector
from agent_fabric.testing.scripted_model import Answer, Say
from integration.http.served import Served, bearer, served
from integration.http.test_sessions import answered, new_session, say
from integration.policy.obedient import outside
from services import need
from unit.infrastructure.memory.test_document_files import pdf

HANDBOOK = "# Handbook\n\nThe pool opens at nine.\n"
SEARCH = "/api/v1/memory/search"


@pytest.fixture(autouse=True)
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the encoder would take longer than all of this."""

    def missing(_: object) -> None:
        raise MissingExtra("embeddings", needed_for="Search by meaning")

    monkeypatch.setattr(SentenceEncoder, "__init__", missing)


async def person(server: Served, name: str) -> dict[str, str]:
    made = {"name": name, "role": "viewer", "scopes": [Scope.RUNS.value]}
    assert (await server.client.post("/api/v1/users", json=made)).status_code == 201
    return bearer((await server.fabric.identity.issue(name, by=owner_here())).token)


async def test_where_all_runs_are_encrypted_the_answer_says_that_documents_are_not(tmp_path: Path) -> None:
    async with served(tmp_path, also={"encryption": "all"}) as server:
        body = {"source": "handbook.md", "text": HANDBOOK}
        added = (await server.client.post("/api/v1/documents", json=body)).json()
        assert added["notes"] == ["stored unencrypted: `encryption: all` seals runs, not what is added to memory"]


async def test_documents_and_facts_belong_to_who_added_them(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        ada, eve = await person(server, "ada"), await person(server, "eve")
        ask = server.client

        async def found(who: dict[str, str]) -> list[Any]:
            answer = await ask.get(SEARCH, params={"q": "When does the pool open?"}, headers=who)
            assert answer.status_code == 200, answer.text
            return list(answer.json()["found"])

        body: dict[str, Any] = {"source": "handbook.md", "content": b64encode(HANDBOOK.encode()).decode()}
        added = await ask.post("/api/v1/documents", json=body, headers=ada)
        assert (added.status_code, added.json()["title"]) == (201, "Handbook")
        one = f"/api/v1/documents/{added.json()['id']}"
        assert [each["passage"] for each in await found(ada)] == [HANDBOOK]
        assert await found(eve) == []
        assert (await ask.get(one, headers=ada)).json()["text"] == HANDBOOK
        for method in ("GET", "DELETE"):
            assert (await ask.request(method, one, headers=eve)).status_code == 404
        shared = await ask.post("/api/v1/documents", json={**body, "visibility": "team"}, headers=ada)
        assert shared.json()["id"] == added.json()["id"]
        assert await found(eve)
        assert (await ask.delete(one, headers=eve)).status_code == 403
        assert [each["text"] for each in (await ask.get(f"{one}/passages", headers=eve)).json()["passages"]] == [
            HANDBOOK
        ]
        left = await ask.delete(one, headers=ada)
        assert (left.status_code, left.json()["status"], left.json()["logs"]) == (200, "erased", [])
        assert await found(ada) == []

        fact = (await ask.post("/api/v1/memory/facts", json={"text": "The sauna opens at 10"}, headers=ada)).json()
        assert (fact["status"], fact["owner"]) == ("active", "user:ada")
        assert (await ask.get("/api/v1/memory/facts", headers=eve)).json() == {"facts": []}
        for_run = {**ada, RUN_HEADER: "some-run"}
        refused = await ask.post("/api/v1/memory/facts", json={"text": "Runs decide"}, headers=for_run)
        assert refused.status_code == 403
        wrong = await ask.post("/api/v1/documents", json={"source": "x", "content": "%"}, headers=ada)
        assert (wrong.status_code, wrong.json()["code"]) == (422, "inputs_invalid")


async def test_the_client_says_the_same_as_the_folder(tmp_path: Path) -> None:
    async with served(tmp_path) as server, FabricClient(str(server.client.base_url), token=server.token) as client:
        memory = client.memory
        document = await memory.add("handbook.md", HANDBOOK.encode(), labels=["team"])
        assert [each["id"] for each in await memory.documents()] == [document["id"]]
        assert (await memory.search("pool", labels=["team"]))[0]["document"] == document["id"]
        assert await memory.search("pool", labels=["other"]) == []
        fact = await memory.remember("The pool opens at 9", pinned=True)
        with pytest.raises(FactRefused):
            await memory.remember("The pool opens at 9")
        newer = await memory.change(fact["id"], {"text": "The pool opens at 10"})
        assert (await memory.why(fact["id"]))["superseded_by"] == newer["id"]
        assert (await memory.review(newer["id"], "confirm"))["status"] == "active"
        exported = await memory.export()
        assert newer["text"] in exported
        assert (await memory.forget(newer["id"], erase=True))["status"] == "erased"
        back = await memory.import_(exported, source="facts.md", accept=True)
        assert [each["id"] for each in back["facts"]] == [newer["id"]], "the older one was not erased"
        assert (await memory.import_(exported, source="facts.md"))["facts"] == []
        assert (await memory.forget(newer["id"], erase=True, runs=True))["removed"] == []
        with pytest.raises(MemoryNotFound):
            await memory.why(newer["id"])
        await memory.erase_document(document["id"])
        with pytest.raises(MemoryNotFound):
            await memory.document(document["id"])


@pytest.mark.proves("ME-7", "A33-070")
async def test_an_answer_in_a_session_shows_the_passages_that_it_rests_on(tmp_path: Path) -> None:
    read: list[dict[str, Any]] = []

    def answering(request: dict[str, Any], _: int) -> Answer:
        read.append(request)
        return Say("The pool opens at nine, says the handbook.")

    async with served(tmp_path, answering) as server:
        ask = server.client
        fact = {"text": "Answers are short", "kind": "preference", "pinned": True}
        await ask.post("/api/v1/memory/facts", json=fact)
        added = (await ask.post("/api/v1/documents", json={"source": "handbook.md", "text": HANDBOOK})).json()
        session = await new_session(server, pack="engineering")
        for question in ("When does the pool open?", "And on Sundays?"):
            sent = await say(server, session, question)
            answer = await answered(server, session, sent["run_id"])
        (passage,) = answer["metadata"]["passages"]
        assert (passage["title"], passage["shown"], passage["used"]) == ("Handbook", "whole", True)
        assert passage["text"] == HANDBOOK
        last = read[-1]["messages"]
        assert [each["role"] for each in last if each["role"] == "system"] == ["system"]
        assert "nine" not in str(last[0]["content"]), "never as system text"
        told = [str(each["content"]) for each in last if each["role"] == "tool"]
        assert sum("Answers are short" in each for each in told) == 1, "told once, and kept as it was"
        assert sum("opens at nine" in each for each in told) == 2
        left = (await ask.delete(f"/api/v1/documents/{added['id']}")).json()
        assert len(left["logs"]) == 2


@pytest.mark.proves("ME-1")
async def test_a_page_is_fetched_by_a_run_as_far_as_the_policy_lets_it(tmp_path: Path) -> None:
    async with outside() as world:
        world.pages["/page"] = (
            "<html><title>Pool</title><body><p>The pool opens at nine o'clock sharp.</p></body></html>"
        )
        async with served(tmp_path, also={"web": {"allow_hosts": [world.host]}}) as server:
            added = await server.client.post("/api/v1/documents", json={"url": world.url("/page")})
            assert added.status_code == 201, added.text
            assert (added.json()["title"], added.json()["source"]) == ("Pool", world.url("/page"))
            assert (await server.client.get(f"/runs/{added.json()['run_id']}")).status_code == 200
            missing = await server.client.post("/api/v1/documents", json={"url": world.url("/nowhere")})
            assert missing.status_code == 422, missing.text
            elsewhere = await server.client.post("/api/v1/documents", json={"url": "http://127.0.0.1:1/"})
            assert elsewhere.status_code == 422, elsewhere.text


@pytest.mark.proves("ME-1")
async def test_a_pdf_is_fetched_like_a_page_and_read_like_a_file(tmp_path: Path) -> None:
    need(find_spec("pypdf"), "needs pypdf: pip install 'agent-fabric[documents]'")
    async with outside() as world:
        body = pdf("The sauna opens at ten.")
        world.pages["/hours.pdf"] = web.Response(body=body, content_type="application/pdf")
        world.pages["/unnamed"] = web.Response(body=body, content_type="application/octet-stream")
        world.pages["/picture"] = web.Response(body=b"\x89PNG", content_type="image/png")
        async with served(tmp_path, also={"web": {"allow_hosts": [world.host]}}) as server:
            for path in ("/hours.pdf", "/unnamed"):
                added = await server.client.post("/api/v1/documents", json={"url": world.url(path)})
                assert added.status_code == 201, added.text
            found = (await server.client.get(SEARCH, params={"q": "When does the sauna open?"})).json()["found"]
            assert "opens at ten" in found[0]["passage"]
            picture = await server.client.post("/api/v1/documents", json={"url": world.url("/picture")})
            assert picture.status_code == 422, picture.text


class Letters:
    """An embedder that counts letters, slowly."""

    name, dimensions = "letters/26", 26
    busy = asyncio.Event()

    def __init__(self) -> None:
        self.busy.clear()

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if len(texts) > 1 or len(texts[0]) > 100:
            await self.busy.wait()
        return [pack_vector([1.0 + each.lower().count(chr(97 + at)) for at in range(26)]) for each in texts]


@pytest.mark.proves("ME-1", "ME-2")
async def test_an_upload_is_found_by_words_at_once_and_a_run_makes_its_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = Letters()
    monkeypatch.setattr("agent_fabric.bootstrap.memory._embedder", lambda *_: embedder)
    async with served(tmp_path) as server:
        ask = server.client
        texts = [HANDBOOK + "Otters sleep in the river. " * 10, HANDBOOK + "Beavers build dams of wood. " * 10]
        added = [
            (await ask.post("/api/v1/documents", json={"source": f"{at}.md", "text": text})).json()
            for at, text in enumerate(texts)
        ]
        assert [each["state"] for each in added] == ["words_ready", "words_ready"]
        assert added[0]["run_id"] == added[1]["run_id"], "one run makes the vectors of both"
        assert (await ask.get(SEARCH, params={"q": "pool"})).json()["found"]
        embedder.busy.set()
        async with asyncio.timeout(30):
            while {(await ask.get(f"/api/v1/documents/{each['id']}")).json()["state"] for each in added} != {"ready"}:
                await asyncio.sleep(0.05)
        run = (await ask.get(f"/runs/{added[0]['run_id']}/status")).json()
        assert run["status"] in ("running", "completed")
        again = (await ask.post("/api/v1/documents", json={"source": "0.md", "text": texts[0]})).json()
        assert again["state"] == "ready"


@pytest.mark.proves("ME-1", "ME-2")
async def test_vectors_of_an_upload_that_no_run_knows_of_are_made_by_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = Letters()
    embedder.busy.set()
    monkeypatch.setattr("agent_fabric.bootstrap.memory._embedder", lambda *_: embedder)

    async def killed(*_: object) -> None:
        raise StoreUnavailable("as if the server were killed here")

    with monkeypatch.context() as until_then:
        until_then.setattr(EmbedUploads, "__call__", killed)
        async with served(tmp_path) as server:
            added = await server.client.post("/api/v1/documents", json={"source": "0.md", "text": HANDBOOK})
            assert added.status_code == 503
            (left,) = (await server.client.get("/api/v1/documents")).json()["documents"]
            assert left["state"] == "words_ready"
            assert (await server.client.get("/runs")).json()["runs"] == []
    async with served(tmp_path) as server, asyncio.timeout(30):
        while (await server.client.get(f"/api/v1/documents/{left['id']}")).json()["state"] != "ready":
            await asyncio.sleep(0.05)
        (run,) = (await server.client.get("/runs")).json()["runs"]
        assert run["prompt"].startswith("workflow add-documents")
