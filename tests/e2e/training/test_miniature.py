"""Every step of the training in miniature: a tiny random model, ten tasks, and llama.cpp with the adapter."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers, ServerSpec
from agent_fabric.infrastructure.models.weights.adapter import Base, check_adapter
from integration.llm.processes import said

ROOT = Path(__file__).parents[3]


def step(name: str, *arguments: object) -> bytes:
    """Run one step as a person does; return what it prints."""
    ended = subprocess.run(
        [sys.executable, "-m", f"training.{name}", *map(str, arguments)], cwd=ROOT, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    return ended.stdout


@pytest.mark.soak
@pytest.mark.proves("SM-4")
async def test_ten_tasks_become_an_adapter_that_llama_cpp_loads(tmp_path: Path) -> None:
    for library in ("torch", "tokenizers", "gguf", "xllamacpp"):
        pytest.importorskip(library, reason=f"{library} is not installed: pip install -r training/requirements.txt")
    base, other = tmp_path / "tiny.gguf", tmp_path / "other.gguf"
    tasks, conversations = tmp_path / "tasks.jsonl", tmp_path / "conversations.jsonl"
    tokens, learned, adapter = tmp_path / "tokens.npz", tmp_path / "adapter.npz", tmp_path / "adapter.gguf"
    step("tiny", base)
    tasks.write_bytes(step("generate", 10, "--seed", 3))
    assert len(tasks.read_text().splitlines()) == 10
    conversations.write_bytes(step("record", tasks))
    assert conversations.stat().st_size > 10_000
    step("tokens", base, conversations, tokens)
    losses = [
        float(line.split("loss ")[1].split(",")[0])
        for line in step("train", base, tokens, learned, "--epochs", 4, "--rank", 4, "--tell", 1).decode().splitlines()
        if "loss " in line
    ]
    assert sum(losses[-3:]) < sum(losses[:3]), losses
    step("to_gguf", base, learned, adapter)
    check_adapter(adapter, Base(base, None))
    other.write_bytes(base.read_bytes() + b"\0")
    with pytest.raises(ConfigError, match="trained on another file"):
        check_adapter(adapter, Base(other, None))
    servers = LlamaServers(tmp_path / "servers")
    try:
        endpoint = await servers.ensure(ServerSpec(model=base, adapter=adapter, context_window=512, idle_s=1.0))
        await said(endpoint, "hello")
    finally:
        await servers.stop_all()
