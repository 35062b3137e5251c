"""What a real model has read of its instructions is kept, and given to the next server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.domain.models.messages import Message, Role, Usage
from agent_fabric.infrastructure.models import embedded_client
from agent_fabric.infrastructure.models.embedded import EmbeddedBackend
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.testing.fakes import quiet
from agent_fabric.testing.workbench import SETTINGS

pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")

INSTRUCTIONS = "You name a colour in one word. " * 6


@asynccontextmanager
async def started_anew(folder: Path, *, keep: bool = True) -> AsyncIterator[EmbeddedBackend]:
    """A process of its own, with a server of its own."""
    environ = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
    async with HttpSession() as session:
        backend = EmbeddedBackend(
            environ=environ,
            session=session,
            ensure=True,
            download=False,
            idle_s=30.0,
            threads=None,
            caches_prompts=keep,
        )
        try:
            yield backend
        finally:
            await backend.servers.stop_all()
            await backend.aclose()


async def ask(backend: EmbeddedBackend, weights: Path, question: str, notice: Notice = quiet) -> Usage:
    settings = replace(SETTINGS, backend="embedded", base_url="embedded:", model=str(weights), context_window=1024)
    client = await backend.ready(settings, notice)
    messages = [Message(Role.SYSTEM, INSTRUCTIONS), Message(Role.USER, question)]
    answer = await client.chat(messages, str(weights), tools=(), temperature=0, top_p=1, max_tokens=2)
    assert answer.content
    assert answer.usage is not None
    return answer.usage


@pytest.mark.proves("SM-7")
async def test_a_new_server_begins_where_another_one_ended(
    tmp_path: Path, fast_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_client, "TELL_EVERY_S", 0.05)
    folder = tmp_path / "cache" / "agent-fabric" / "prompts"
    told: list[str] = []
    async with started_anew(tmp_path) as backend:
        await ask(backend, fast_weights, "What does grass look like?", told.append)
        (kept,) = folder.iterdir()
        assert kept.stat().st_mode & 0o777 == 0o600
    assert any(isinstance(text, ProgressText) and "is reading" in text for text in told)

    async with started_anew(tmp_path) as backend:
        usage = await ask(backend, fast_weights, "And the sky?")
        assert usage.cached_tokens > 0.6 * usage.prompt_tokens
        again = await ask(backend, fast_weights, "And snow?")  # the server knows what it has read
        assert again.cached_tokens > 0.6 * again.prompt_tokens
        assert list(folder.iterdir()) == [kept]


async def test_what_is_no_kept_beginning_is_written_anew(tmp_path: Path, fast_weights: Path) -> None:
    folder = tmp_path / "cache" / "agent-fabric" / "prompts"
    async with started_anew(tmp_path) as backend:
        await ask(backend, fast_weights, "What does grass look like?")
        (kept,) = folder.iterdir()
    size = kept.stat().st_size
    kept.write_bytes(kept.read_bytes()[:1000])
    async with started_anew(tmp_path) as backend:
        await ask(backend, fast_weights, "And the sky?")
    assert [path.stat().st_size for path in folder.iterdir()] == [size]


@pytest.mark.soak
async def test_nothing_is_kept_where_everything_is_encrypted(tmp_path: Path, fast_weights: Path) -> None:
    async with started_anew(tmp_path, keep=False) as backend:
        await ask(backend, fast_weights, "What does grass look like?")
    assert not (tmp_path / "cache").exists()
