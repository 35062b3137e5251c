"""The embedded server with the real llama.cpp and a real model."""

import hashlib
import os
import signal
import struct
from pathlib import Path

import aiohttp
import pytest

from agent_fabric.domain.errors import MissingExtra, ModelError
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers, ServerSpec
from agent_fabric.infrastructure.models.servers.processes import EMBEDDED
from agent_fabric.infrastructure.models.weights.adapter import Base, check_adapter
from agent_fabric.infrastructure.models.weights.catalogue import find
from integration.llm.processes import PATIENCE_S, gone, said
from integration.llm.weights_mirrors import Fetched
from unit.infrastructure.models.weights.test_gguf import pair, text

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


def adapter_of(base: Path, amount: float) -> bytes:
    """Return an adapter for the smallest model that adds one number to all that its first layer asks for."""
    width, rank = 896, 8
    tensors = [("blk.0.attn_q.weight.lora_a", width, rank), ("blk.0.attn_q.weight.lora_b", rank, width)]
    size = width * rank * 4
    described = b"".join(
        text(name) + struct.pack("<IQQIQ", 2, *shape, 0, at * size) for at, (name, *shape) in enumerate(tensors)
    )
    with base.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    pairs = [
        pair("general.architecture", 8, text("qwen2")),
        pair("general.type", 8, text("adapter")),
        pair("adapter.type", 8, text("lora")),
        pair("adapter.lora.alpha", 6, struct.pack("<f", rank)),
        pair("agent_fabric.base_sha256", 8, text(digest)),
    ]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)) + b"".join(pairs) + described
    return head + b"\0" * (-len(head) % 32) + struct.pack("<f", amount) * (size // 4 * len(tensors))


@pytest.mark.soak
@pytest.mark.proves("SM-1")
async def test_an_adapter_changes_what_the_real_model_says(tmp_path: Path, fast_weights: Path) -> None:
    adapter = tmp_path / "adapter.gguf"
    servers = LlamaServers(tmp_path / "servers")
    answers = []
    try:
        for amount in (None, 0.0, 5.0):
            if amount is not None:
                adapter.write_bytes(adapter_of(fast_weights, amount))
                check_adapter(adapter, Base(fast_weights, find("fast").sha256))
            spec = ServerSpec(
                model=fast_weights, adapter=None if amount is None else adapter, context_window=1024, idle_s=1.0
            )
            answers.append(await said(await servers.ensure(spec), "Say yes."))
            await servers.stop(spec)
    finally:
        await servers.stop_all()
    bare, nothing, much = answers
    assert bare == nothing != much


async def test_a_file_that_is_no_adapter_is_told_in_the_end(tmp_path: Path, fast_weights: Path) -> None:
    adapter = tmp_path / "adapter.gguf"
    adapter.write_text("hello")
    servers = LlamaServers(tmp_path / "servers", load_timeout_s=PATIENCE_S)
    with pytest.raises(ModelError):
        await servers.ensure(ServerSpec(model=fast_weights, adapter=adapter))


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
