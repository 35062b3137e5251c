"""The llama-server that fabric owns: asked like every other model, and changed only between answers."""

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Unpack

from agent_fabric.application.ports.llm import ChatOptions, Notice, ProgressText
from agent_fabric.application.ports.models import ManagedStatus
from agent_fabric.config.folders import base_folder, temporary_folder
from agent_fabric.config.schema.models import ManagedLlamaConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, ModelUnreachable
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.models.chooser import MANAGED_URL
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.infrastructure.models.openai_compatible import OpenAICompatibleBackend
from agent_fabric.infrastructure.models.queue import Queues, ServerQueue
from agent_fabric.infrastructure.models.servers.llama_servers import quiet
from agent_fabric.infrastructure.models.servers.managed_llama import ManagedLlama
from agent_fabric.infrastructure.models.weights.gguf import card_of_file
from agent_fabric.infrastructure.threads import on_own_thread

_LOG: Final = logging.getLogger("agent_fabric.models")
_ONLY_CONFIGURED: Final = frozenset({"command", "extra_args"})
"""They decide which program runs, so that a file beside the configuration must not set them."""


class SwitchedModel:
    """What a person switched to, in a file of the user's own; a changed configuration counts for more."""

    def __init__(self, configured: ManagedLlamaConfig, root: Path, environ: Mapping[str, str]) -> None:
        """Take the switch of one fabric folder, `root`."""
        self._configured = configured
        state = base_folder(environ, "XDG_STATE_HOME", ".local", "state") or temporary_folder()
        told = json.dumps([str(root.absolute()), configured.model_dump(mode="json")], sort_keys=True)
        self._path = state / "switched-models" / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.json"

    def read(self) -> ManagedLlamaConfig:
        """Return what to start with: what was switched to last, else what is configured."""
        try:
            changes = json.loads(self._path.read_bytes())
            kept = {name: value for name, value in changes.items() if name not in _ONLY_CONFIGURED}
            return ManagedLlamaConfig.model_validate({**self._configured.model_dump(), **kept})
        except FileNotFoundError:
            return self._configured
        except (OSError, ValueError, AttributeError) as problem:
            _LOG.warning("The last switch of the model in %s cannot be used: %s", self._path, problem)
            return self._configured

    def write(self, now: ManagedLlamaConfig) -> None:
        """Keep what was switched to; that it cannot be kept is logged, since the switch itself has happened."""
        before: dict[str, Any] = self._configured.model_dump(mode="json")
        changes = {name: value for name, value in now.model_dump(mode="json").items() if value != before[name]}
        try:
            if not changes:
                self._path.unlink(missing_ok=True)
                return
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._path, json.dumps(changes).encode(), durable=False)
        except OSError as problem:
            _LOG.warning("The switch of the model is forgotten at the next start: %s", problem)


class ManagedBackend:
    """Backend of one llama-server, and the one place through which it is changed while runs use it."""

    def __init__(
        self,
        llama: ManagedLlama,
        session: HttpSession,
        queues: Queues,
        *,
        ensure: bool,
        switched: SwitchedModel | None = None,
    ) -> None:
        """Nothing is started yet; with `ensure` false nothing ever is, unless a person restarts or switches it.

        `switched` keeps a switch for the next start.
        """
        self._switched = switched
        self.llama = llama
        self._queues = queues
        self._ensure = ensure
        self._arriving = 0
        self._switching = asyncio.Lock()
        """So that each change builds on the one before."""
        self.clients = OpenAICompatibleBackend(session)

    async def card(self) -> ModelCard:
        config = self.llama.config
        card = await on_own_thread(lambda: _card_of(config.model))
        window = min(config.context_window, card.context_window or config.context_window)
        return replace(card, served_window=window)

    async def ready(self, settings: ModelSettings, notice: Notice) -> "ManagedClient":
        if not self._ensure and not self.llama.lives:
            raise ModelUnreachable(
                "The managed llama-server is not running, and nothing is to be started",
                hint="Leave out --no-ensure, or set `local_llm_ensure_available: true`.",
            )
        if self.llama.is_changing:
            notice(ProgressText("waiting until the model is switched"))
        self._arriving += 1
        try:
            await self.llama.start(notice)  # here, since the time that an answer may take does not run yet
        finally:
            self._arriving -= 1
        self._queue()
        return ManagedClient(self, settings, notice)

    def status(self) -> ManagedStatus:
        """Return how the server is, with all who wait for it; never waits."""
        status = self.llama.status()
        return replace(status, waiting=status.waiting + self._queue().waiting + self._arriving)

    async def switch(self, changes: Mapping[str, Any], notice: Notice = quiet) -> None:
        """Serve another model, or the same with other options, when all running answers are written.

        Args:
            changes: settings of `ManagedLlamaConfig` by name; what is not named stays as it is.
            notice: told what takes so long.

        Raises:
            ValidationError: the settings cannot be used, and nothing was done.
            ConfigError: the model's file is not there, and nothing was done; or as of `ManagedLlama.start`.
            ModelBusy: answers were still being written after `drain_timeout_s`; nothing was switched.
            ModelError: the new one does not start; the message says whether the old one runs again.
        """
        async with self._switching:
            config = ManagedLlamaConfig.model_validate({**self.llama.config.model_dump(), **changes})
            if not os.path.isfile(config.model):  # noqa: ASYNC240, PTH113 - it never raises
                raise ConfigError(
                    f"The model file {config.model} is not there; nothing was switched",
                    hint="Name a GGUF file by its absolute path on the server's machine.",
                )
            with self._line_held():
                await self.llama.switch(config, notice)
            if (switched := self._switched) is not None:
                await on_own_thread(lambda: switched.write(config))

    async def restart(self, notice: Notice = quiet) -> None:
        """End the server and start it as it was, when all running answers are written.

        Raises:
            ModelBusy: answers were still being written after `drain_timeout_s`; nothing was done.
            ModelError: it does not start again.
            ConfigError: as of `ManagedLlama.start`.
        """
        async with self._switching:
            with self._line_held():
                await self.llama.restart(notice)

    def _queue(self) -> ServerQueue:
        """Return the line before the server, with as many slots as that has now."""
        return self._queues.for_server(MANAGED_URL, self.llama.config.parallel)

    @contextmanager
    def _line_held(self) -> Iterator[None]:
        """Let no one's turn begin: who waits in line keeps its place, and the time for its answer does not run."""
        queue = self._queue()
        queue.pause()
        try:
            yield
        finally:
            self._queue()
            queue.resume()


@dataclass(frozen=True, slots=True)
class ManagedClient:
    """ChatClient of one turn. While it asks, the server is not switched."""

    backend: ManagedBackend
    settings: ModelSettings
    notice: Notice

    async def chat(self, messages: Sequence[Message], model: str, **options: Unpack[ChatOptions]) -> LLMResponse:
        llama = self.backend.llama
        async with llama.request(self.notice) as endpoint:
            serving = llama.config.model.stem
            if serving != model:
                self.notice(f"{model} was switched; {serving} answers now")
            answer = await self.backend.clients.client_at(endpoint, self.settings).chat(messages, serving, **options)
        return replace(answer, model=serving)  # llama-server repeats whatever name it was asked for


def _card_of(path: Path) -> ModelCard:
    """Return what the file says; one that cannot be read is told about by llama-server, when it is started."""
    try:
        return _read_card(path, path.stat().st_mtime_ns)
    except (OSError, ConfigError):
        return ModelCard(name=path.stem)


@lru_cache(maxsize=16)
def _read_card(path: Path, _changed_ns: int) -> ModelCard:
    return card_of_file(path)
