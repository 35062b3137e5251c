"""`fabric logs search --semantic` and `GET /runs/search`, as a person uses them."""

from pathlib import Path
from typing import Any

import pytest

from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.store import Store
from e2e.fabric_process import Fabric
from integration.embeddings.embedding_server import MODEL, embedding_server
from integration.embeddings.test_search_runs import add

TASKS = ("Write a script that resizes all photos in a folder", "Find out why the nightly backup takes six hours")


async def with_runs(folder: Path, *prompts: str, **run_index: Any) -> Fabric:
    fabric = Fabric(folder, {"run_index": run_index})
    fabric.root.mkdir(parents=True)
    store = Store(fabric.root / "fabric.db")
    SqlRunRepository(store, SystemClock())
    await add(store, *prompts)
    store.close()
    trusted = await fabric("config", "trust")
    assert trusted.code == 0, trusted.err
    return fabric


@pytest.mark.slow
@pytest.mark.proves("AF-147")
async def test_a_run_is_found_by_what_it_means_in_any_language_without_a_server(tmp_path: Path) -> None:
    fabric = await with_runs(tmp_path, *TASKS)
    for question, place in (("make pictures smaller", 0), ("langsame Datensicherung in der Nacht", 1)):
        found = (await fabric("logs", "search", "--semantic", question, "--json")).json["runs"]
        assert [run["prompt"] for run in found] == [TASKS[place], TASKS[1 - place]]
        assert found[0]["score"] > found[1]["score"]
    shown = await fabric("logs", "search", "--semantic", "photos", "--limit", "1")
    assert shown.out.count("\n") == 1
    assert TASKS[0] in shown.out
    assert shown.err == ""


@pytest.mark.proves("AF-147")
async def test_the_configured_server_is_asked_and_many_runs_show_progress(tmp_path: Path) -> None:
    async with embedding_server() as server:
        fabric = await with_runs(
            tmp_path,
            *(f"task {number}" for number in range(120)),
            embedding_model=MODEL,
            embedding_base_url=server.url,
            embedding_backend="ollama",
        )
        first = await fabric("logs", "search", "--semantic", "task 7", "--json")
        assert first.json["runs"][0]["prompt"] == "task 7"
        assert "Reading 120 runs" in first.err
        asked = len(server.asked)
        assert (await fabric("logs", "search", "--semantic", "task 8", "--json")).err == ""
        assert len(server.asked) == asked + 1


async def test_what_goes_wrong_is_explained(tmp_path: Path) -> None:
    async with embedding_server() as server:
        settings = {"embedding_model": "absent", "embedding_base_url": server.url, "embedding_backend": "ollama"}
        fabric = await with_runs(tmp_path / "one", "a task", **settings)
        ended = await fabric("logs", "search", "--semantic", "x")
    assert (ended.code, "ollama pull absent" in ended.err) == (1, True)
    gone = await fabric("logs", "search", "--semantic", "x", "--json")
    assert gone.json["error"]["code"] == "model_unreachable"
    blank = await fabric("logs", "search", "--semantic", "  ")
    assert blank.code == 2
    assert "hint:" in blank.err


async def test_where_there_are_no_runs_none_are_found(tmp_path: Path) -> None:
    ended = await Fabric(tmp_path, {})("logs", "search", "--semantic", "x", "--json")
    assert (ended.code, ended.json) == (0, {"runs": []})
