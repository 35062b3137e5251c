"""The embedded server with the real llama.cpp and a real model."""

import os
import signal
from pathlib import Path

import aiohttp
import pytest

from agent_fabric.domain.errors import MissingExtra, ModelError
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers, ServerSpec
from agent_fabric.infrastructure.models.servers.processes import EMBEDDED
from integration.llm.processes import PATIENCE_S, gone, said
from integration.llm.weights_mirrors import Fetched

pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")

WITHOUT_LLAMA = (
    *EMBEDDED[:2],
    "-c",
    "import sys; sys.modules['xllamacpp'] = None\n"
    "from agent_fabric.infrastructure.models.servers.embedded_child import main; sys.exit(main())",
)


@pytest.mark.soak
async def test_a_real_model_answers_survives_a_kill_and_ends_when_nobody_needs_it(
    tmp_path: Path, fast_weights: Path
) -> None:
    servers = LlamaServers(tmp_path / "servers")
    spec = ServerSpec(model=fast_weights, label="the fast one", context_window=1024, slots=2, idle_s=1.0)
    told: list[str] = []
    try:
        endpoint = await servers.ensure(spec, told.append)
        assert told[0] == "loading the fast one …"
        assert (endpoint.slots, endpoint.context_window) == (2, 1024)
        assert await said(endpoint, "Say yes.")
        async with aiohttp.ClientSession() as session, session.get(f"{endpoint.origin}/v1/models") as refused:
            assert refused.status == 401

        os.kill(endpoint.pid, signal.SIGKILL)
        await gone(endpoint.pid)
        second = await servers.ensure(spec, told.append)
        assert await said(second, "Say yes.")

        assert endpoint.api_key not in "".join(file.read_text() for file in (tmp_path / "servers").glob("*.log*"))
        await servers.aclose()
        await gone(second.pid)
        assert servers.running() == []
    finally:
        await servers.stop_all()


async def test_a_file_that_is_no_model_is_told_from_one(tmp_path: Path) -> None:
    model = tmp_path / "notes.gguf"
    model.write_text("hello")
    servers = LlamaServers(tmp_path / "servers", load_timeout_s=PATIENCE_S)
    with pytest.raises(ModelError, match="damaged or not a GGUF file") as caught:
        await servers.ensure(ServerSpec(model=model))
    assert "invalid magic characters" in caught.value.message
    await servers.aclose()


@pytest.mark.slow
async def test_a_model_that_was_cut_off_is_told_from_a_whole_one(tmp_path: Path, fetched_weights: Fetched) -> None:
    model = tmp_path / "half.gguf"
    with fetched_weights.path.open("rb") as whole:
        model.write_bytes(whole.read(3_000_000))
    servers = LlamaServers(tmp_path / "servers", load_timeout_s=PATIENCE_S)
    with pytest.raises(ModelError, match="damaged or not a GGUF file"):
        await servers.ensure(ServerSpec(model=model))
    await servers.aclose()


async def test_without_llama_cpp_the_extra_is_named(tmp_path: Path) -> None:
    model = tmp_path / "any.gguf"
    model.write_text("GGUF")
    servers = LlamaServers(tmp_path / "servers", command=WITHOUT_LLAMA)
    with pytest.raises(MissingExtra) as caught:
        await servers.ensure(ServerSpec(model=model))
    assert "agent-fabric[embedded]" in caught.value.hint
    await servers.aclose()
