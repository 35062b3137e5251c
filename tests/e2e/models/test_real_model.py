"""A real model does real tasks: the embedded one, on llama.cpp, as anybody has it after installing.

These are the four tests that the specification names. `FABRIC_SKIP_REAL_LLM=1` leaves them out. The first runs per
commit, the others in `make soak` and `scripts/validate_full.py`.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers
from agent_fabric.infrastructure.models.weights.catalogue import find
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder, models_folder
from e2e.fabric_process import Fabric, read_lines
from e2e.loopback_site import LoopbackSite
from e2e.server_process import serving
from services import need

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("FABRIC_SKIP_REAL_LLM") == "1", reason="FABRIC_SKIP_REAL_LLM=1: no real model"),
]

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "verify_working_real.py"
PATIENCE_S = 900.0
"""Slow machines read seven words a second."""
PAGE = (
    "<html><head><title>Tea</title></head><body><article><h1>Tea</h1><p>A cup of black tea contains about forty "
    "milligrams of caffeine.</p></article></body></html>"
)


@pytest.fixture(scope="module")
def model_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a process needs to find the real model, and to share one server with the other tests."""
    try:
        asyncio.run(Weights(ModelFolder(models_folder(os.environ))).ensure(find("quality"), lambda _: None))
    except FabricError as problem:
        need(condition=False, reason=f"the real model cannot be had: {problem.message}")
    state = tmp_path_factory.mktemp("state")
    yield {"FABRIC_MODELS_DIR": str(models_folder(os.environ)), "XDG_STATE_HOME": str(state)}
    asyncio.run(LlamaServers(environ={"XDG_STATE_HOME": str(state)}).stop_all())


@pytest.fixture
def fabric(tmp_path: Path, model_environment: dict[str, str]) -> Fabric:
    """The program with the embedded model, told nothing else."""
    model = {"backend": "embedded", "temperature": 0.0}
    configured: dict[str, Any] = {"models": {"quality": model, "fast": model}, "embedded": {"idle_s": 120}}
    return Fabric(tmp_path, configured, environment=model_environment)


def require_worked(run_dir: Path) -> list[dict[str, Any]]:
    """Check that the model used tools and that they worked; return the log."""
    lines = read_lines(run_dir)
    kinds = [line["kind"] for line in lines]
    assert "tool_call" in kinds
    assert "tool_result" in kinds
    answers = [line["payload"] for line in lines if line["kind"] == "llm_response"]
    assert {answer["tool_dialect"] for answer in answers} == {"schema"}
    return lines


@pytest.mark.proves("AF-172")
async def test_execute_task_engineering_real_llm(fabric: Fabric) -> None:
    ended = await fabric(
        "run",
        "Write the text hello into the file greeting.txt, then show it with cat greeting.txt.",
        "--pack",
        "engineering",
        "--max-steps",
        "8",
        "--json",
        timeout_s=PATIENCE_S,
    )
    result = ended.json
    assert result["_meta"]["model"].startswith("qwen2.5-coder-1.5b")
    lines = require_worked(Path(result["_meta"]["run_dir"]))
    assert "hello" in (Path(result["_meta"]["workspace"]) / "greeting.txt").read_text().lower()
    assert (ended.code, result["_meta"]["status"]) == (0, "completed"), result
    # The prefix stays the same, so the server does not read it again.
    assert [line["payload"]["usage"]["cached_tokens"] for line in lines if line["kind"] == "llm_response"][-1] > 0


@pytest.mark.soak
@pytest.mark.proves("AF-172")
async def test_execute_task_research_pack_real_llm(fabric: Fabric) -> None:
    async with LoopbackSite({"/tea": PAGE}) as site:
        configured = {**fabric.configured, "web": {"search_url": site.url, "allow_hosts": ["127.0.0.1"]}}
        ended = await Fabric(fabric.folder, configured, environment=fabric.environment)(
            "run",
            f"How much caffeine is in a cup of black tea? Fetch {site.url}/tea and write the answer into answer.md.",
            "--pack",
            "research",
            "--max-steps",
            "8",
            "--json",
            timeout_s=PATIENCE_S,
        )
    meta = ended.json["_meta"]
    lines = require_worked(Path(meta["run_dir"]))
    returned = {line["payload"]["tool"] for line in lines if line["kind"] == "tool_result"}
    assert returned & {"web_search", "fetch_url"}
    assert list(Path(meta["workspace"]).iterdir())


@pytest.mark.soak
@pytest.mark.proves("AF-172")
async def test_api_post_run_real_llm(fabric: Fabric) -> None:
    async with serving(fabric) as server:
        answer = await server.client.post(
            "/run",
            json={"prompt": "Write the word done into the file state.txt.", "pack": "engineering", "max_steps": 8},
            timeout=httpx2.Timeout(PATIENCE_S),
        )
    assert answer.status_code == 200
    meta = answer.json()["_meta"]
    require_worked(Path(meta["run_dir"]))
    assert "done" in (Path(meta["workspace"]) / "state.txt").read_text().lower()


@pytest.mark.soak
@pytest.mark.proves("AF-172", "AF-173")
async def test_verify_working_real_script(fabric: Fabric) -> None:
    await fabric("config", "show")  # writes the configuration
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT),
        env={
            **os.environ,
            **fabric.environment,
            "FABRIC_CONFIG_PATH": str(fabric.folder / "fabric-config.json"),
            "TMPDIR": str(fabric.folder),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE_S):
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()


@pytest.mark.soak
@pytest.mark.proves("CO-10")
async def test_one_can_talk_with_the_embedded_model(fabric: Fabric) -> None:
    """It is held to calls by a schema, which must leave room for plain words."""
    async with serving(fabric) as server:
        session = (await server.client.post("/api/v1/sessions", json={})).json()["id"]
        for said in ("hello", "Which files are there?"):
            path = f"/api/v1/sessions/{session}/messages"
            run_id = (await server.client.post(path, json={"content": said})).json()["run_id"]
            async with asyncio.timeout(PATIENCE_S):
                while (await server.client.get(f"/runs/{run_id}/status")).json()["status"] in {"running", "waiting"}:
                    await asyncio.sleep(0.5)
            answers = (await server.client.get(path)).json()["messages"]
            assert (answers[-1]["role"], "error" in answers[-1]["metadata"]) == ("assistant", False), answers
            assert answers[-1]["content"].strip()
