"""Asking the llama-server that fabric owns, as runs do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.schema.models import ManagedLlamaConfig
from agent_fabric.domain.errors import ConfigError, ModelUnreachable
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, Role
from agent_fabric.domain.runs.task import Priority
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.models.chooser import MANAGED_URL
from agent_fabric.infrastructure.models.managed import ManagedBackend
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.infrastructure.models.queue import Queues
from agent_fabric.infrastructure.models.servers.managed_llama import ManagedLlama
from agent_fabric.infrastructure.models.stack import BackendClients
from agent_fabric.testing.fakes import quiet
from integration.llm.processes import until
from integration.llm.test_servers_managed import PROGRAM, config_of


@asynccontextmanager
async def backend_of(
    tmp_path: Path, config: ManagedLlamaConfig, *, ensure: bool = True
) -> AsyncIterator[tuple[ManagedBackend, BackendClients]]:
    session, queues = HttpSession(), Queues(SystemClock())
    llama = ManagedLlama(config, folder=tmp_path / "state" / "servers")
    backend = ManagedBackend(llama, session, queues, ensure=ensure)
    try:
        yield backend, BackendClients({"managed": backend}, queues)
    finally:
        await llama.aclose()
        await session.aclose()


def settings_for(model: str) -> ModelSettings:
    return ModelSettings(
        key="quality",
        backend="managed",
        base_url=MANAGED_URL,
        model=model,
        temperature=0.0,
        top_p=1.0,
        max_tokens=16,
        timeout_s=60.0,
        connect_timeout_s=5.0,
    )


async def ask(clients: BackendClients, model: str, told: list[str] | None = None) -> LLMResponse:
    notice = quiet if told is None else told.append
    async with clients.turn(settings_for(model), priority=Priority.INTERACTIVE, notice=notice) as client:
        messages = [Message(Role.USER, "Say yes.")]
        return await client.chat(messages, model, tools=(), temperature=0.0, top_p=1.0, max_tokens=16)


async def test_a_run_that_began_with_another_model_hears_who_answers_now(tmp_path: Path) -> None:
    async with backend_of(tmp_path, config_of(tmp_path)) as (backend, clients):
        assert (await ask(clients, "first")).model == "first"
        await backend.switch({"model": str(config_of(tmp_path, "second").model)})
        told: list[str] = []
        assert (await ask(clients, "first", told)).model == "second"
        assert "first was switched; second answers now" in told


@pytest.mark.proves("C44")
async def test_who_waits_in_line_is_not_asked_about_until_the_switch_is_over(tmp_path: Path) -> None:
    async with backend_of(tmp_path, config_of(tmp_path)) as (backend, clients):
        await backend.llama.start()
        slow = config_of(tmp_path, "slow", {"load_s": 1})
        switching = asyncio.create_task(backend.switch({"model": str(slow.model), "parallel": 2}))
        await until(lambda: backend.status().stage == "switching")
        told: list[str] = []
        asking = [asyncio.create_task(ask(clients, "first", told)) for _ in range(3)]
        await until(lambda: backend.status().waiting == 3)
        assert backend.status().running == 0
        await switching
        assert {answer.model for answer in await asyncio.gather(*asking)} == {"slow"}
        assert "waiting until the model is switched" in told


async def test_who_gives_up_while_the_model_is_switched_takes_nothing_with_it(tmp_path: Path) -> None:
    async with backend_of(tmp_path, config_of(tmp_path)) as (backend, clients):
        await backend.llama.start()
        switching = asyncio.create_task(
            backend.switch({"model": str(config_of(tmp_path, "slow", {"load_s": 1}).model)})
        )
        await until(lambda: backend.status().stage == "switching")
        asking = asyncio.create_task(ask(clients, "first"))
        await until(lambda: backend.status().waiting == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert backend.status().waiting == 0
        await switching
        assert (await ask(clients, "first")).model == "slow"


async def test_a_switch_that_is_given_up_leaves_the_old_model_to_the_next_request(tmp_path: Path) -> None:
    async with backend_of(tmp_path, config_of(tmp_path)) as (backend, clients):
        await backend.llama.start()
        switching = asyncio.create_task(
            backend.switch({"model": str(config_of(tmp_path, "slow", {"load_s": 30}).model)})
        )
        await until(lambda: backend.status().stage == "switching")
        switching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await switching
        assert (await ask(clients, "first")).model == "first"


async def test_nothing_is_started_where_nothing_is_to_be_started(tmp_path: Path) -> None:
    async with backend_of(tmp_path, config_of(tmp_path), ensure=False) as (backend, clients):
        with pytest.raises(ModelUnreachable, match="nothing is to be started"):
            await ask(clients, "first")
        await backend.restart()  # a person may
        assert (await ask(clients, "first")).model == "first"


async def test_a_file_that_is_not_there_does_not_cost_the_model_that_runs(tmp_path: Path) -> None:
    async with backend_of(tmp_path, config_of(tmp_path)) as (backend, _):
        old = await backend.llama.start()
        with pytest.raises(ConfigError, match="nothing was switched"):
            await backend.switch({"model": str(tmp_path / "gone.gguf")})
        assert await backend.llama.start() == old


async def test_a_file_that_says_nothing_about_itself_still_has_a_name_and_a_window(tmp_path: Path) -> None:
    async with backend_of(tmp_path, config_of(tmp_path, context_window=4096)) as (backend, _):
        card = await backend.card()
        assert (card.name, card.parameters_b, card.served_window) == ("first", None, 4096)


@pytest.mark.soak
@pytest.mark.proves("FC-003", "FC-006", "FC-007", "C44")
async def test_a_real_model_is_asked_switched_between_two_answers_and_asked_again(
    tmp_path: Path, fast_weights: Path
) -> None:
    pytest.importorskip("xllamacpp")
    config = ManagedLlamaConfig.model_validate({"command": PROGRAM, "model": fast_weights, "context_window": 512})
    async with backend_of(tmp_path, config) as (backend, clients):
        card = await backend.card()
        assert card.parameters_b is not None
        assert 0.3 < card.parameters_b < 0.8
        await backend.llama.start()
        first = asyncio.create_task(ask(clients, card.name))
        await until(lambda: backend.status().running == 1)
        changes: dict[str, Any] = {"flash_attention": "on", "cache_type_k": "q8_0", "cache_type_v": "q8_0"}
        await backend.switch(changes)
        assert first.done()  # the switch has waited for it
        assert (await first).content
        assert (await ask(clients, card.name)).content
        assert backend.llama.config.cache_type_k == "q8_0"
