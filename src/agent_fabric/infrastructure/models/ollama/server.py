"""An Ollama server, asked about itself and its models over its own API."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.errors import ModelAnswerUnusable, ModelError, ModelRefused
from agent_fabric.domain.models.addresses import is_local_url
from agent_fabric.domain.models.found_models import ModelCard, find_model
from agent_fabric.infrastructure.models.http_answer import HttpAnswer
from agent_fabric.infrastructure.models.model_http import (
    HttpSession,
    ModelHttp,
    ServerAddress,
    environment_only,
    lines_of,
    whole_body,
)
from agent_fabric.infrastructure.models.ollama.model_wire import (
    ListedModel,
    PullFailed,
    PullStep,
    card_of,
    read_pull,
    read_running,
    read_show,
    read_tags,
    read_version,
)
from agent_fabric.infrastructure.models.weights.mirrors import amount

_PAUSE_S = 0.25
"""Time between two texts about the same part."""


class PullNotices:
    """Tells a person how far a pull is."""

    def __init__(self, name: str, notice: Notice, *, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._notice = notice
        self._now = now
        self._said_at = float("-inf")
        self._status = ""

    def show(self, step: PullStep) -> None:
        """Show a step, unless one of the same part was shown a moment ago."""
        now = self._now()
        begun = step.status != self._status
        complete = 0 < step.total <= step.completed
        if not (begun or complete) and now - self._said_at < _PAUSE_S:
            return
        self._said_at, self._status = now, step.status
        text = amount(min(step.completed, step.total), step.total) if step.total else step.status
        self._notice(ProgressText(f"Pulling {self._name}: {text}"))


_QUICK_S = 5.0
"""For what a living server knows by heart."""
_LOOK_UP_S = 20.0
"""For what it has to read from disk: the list of its models, and then all of them together."""
_SILENT_PULL_S = 600.0
"""A pull may say nothing for minutes while it checks what it fetched."""
_AT_ONCE = 4
"""Questions about models asked at the same time."""


class OllamaServer:
    """One server; what it told about a model is kept for as long as the model stays the same.

    Making it raises:
        ConfigError: a key or a certificate that the address names does not exist.
    """

    def __init__(
        self,
        session: HttpSession,
        address: ServerAddress,
        *,
        look_up_s: float = _LOOK_UP_S,
        resolve: Resolve = environment_only,
    ) -> None:
        self._look_up_s = look_up_s
        self._http = ModelHttp(session, address, resolve)
        self.base_url = address.base_url
        self.root = native_root(address.base_url)
        """Where its own API is: beside `/v1`."""
        self._shown: dict[str, Mapping[str, Any]] = {}

    @property
    def is_here(self) -> bool:
        """Whether its address means this machine."""
        return is_local_url(self.root)

    async def reachable(self) -> bool:
        """Return whether anyone answers there; it may be another kind of server."""
        return await self._http.answers(f"{self.root}/api/version", timeout_s=_QUICK_S)

    async def version(self) -> str | None:
        """Return the version of the server; None when no one answers, or it is no Ollama."""
        try:
            return read_version(await self._http.get(f"{self.root}/api/version", timeout_s=_QUICK_S))
        except ModelError:
            return None

    async def names(self) -> list[str]:
        """Return the names of its models.

        Raises:
            ModelError: it cannot be asked.
        """
        return [listed.name for listed in await self._list_models()]

    async def cards(self) -> Sequence[ModelCard]:
        """Return what is known of each of its models.

        Raises:
            ModelError: it cannot be asked.
        """
        listed = await self._list_models()
        running = await self.running()
        few = asyncio.Semaphore(_AT_ONCE)
        deadline = asyncio.get_running_loop().time() + self._look_up_s

        async def card(model: ListedModel) -> ModelCard:
            shown: Mapping[str, Any] = {}  # a server that is too slow does not tell; the name still does
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline), few:
                    shown = await self._show(model)
            return card_of(model, shown, running.get(model.name))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(card(model)) for model in listed]
        return [task.result() for task in tasks]

    async def card(self, name: str) -> ModelCard | None:
        """Return what is known of one model; None when it is not there.

        Raises:
            ModelError: the server cannot be asked.
        """
        listed = await self._list_models()
        found = find_model([ModelCard(name=model.name) for model in listed], name)
        if found is None:
            return None
        model = next(model for model in listed if model.name == found.name)
        return card_of(model, await self._show(model), (await self.running()).get(model.name))

    async def running(self) -> Mapping[str, int | None]:
        """Return the models that are loaded, with their windows where it tells; nothing when it does not tell."""
        try:
            return read_running(await self._http.get(f"{self.root}/api/ps", timeout_s=_QUICK_S))
        except ModelError:
            return {}

    async def pull(self, name: str, notice: Notice) -> None:
        """Let the server fetch a model; it continues where an earlier attempt stopped.

        Raises:
            ModelRefused: there is no such model, or it cannot be kept.
            ModelError: the server cannot be asked, or broke off.
        """
        data = orjson.dumps({"model": name, "stream": True})
        progress = PullNotices(name, notice)

        async def follow(response: HttpAnswer) -> str:
            status = ""
            async for line in lines_of(response):
                step = read_pull(line)
                if step is not None:
                    status = step.status
                    progress.show(step)
            return status

        try:
            status = await self._http.post(f"{self.root}/api/pull", data, follow, model=name, silent_s=_SILENT_PULL_S)
        except PullFailed as problem:
            raise ModelRefused(
                f"Ollama could not pull {name!r}: {problem}",
                hint=f"Check the name, the network and the disk, then try: ollama pull {name}",
            ) from None
        if status != "success":
            raise ModelAnswerUnusable(
                f"Ollama broke off pulling {name!r}",
                hint=f"It continues where it stopped: try again, or run: ollama pull {name}",
            )
        notice(f"{name} is there")

    async def _list_models(self) -> list[ListedModel]:
        return read_tags(await self._http.get(f"{self.root}/api/tags", timeout_s=_LOOK_UP_S))

    async def _show(self, model: ListedModel) -> Mapping[str, Any]:
        known = self._shown.get(model.digest)
        if known is not None:
            return known
        # Both names of the field: servers before 0.1.45 know only the second.
        data = orjson.dumps({"model": model.name, "name": model.name})
        try:
            shown = await self._http.post(
                f"{self.root}/api/show", data, _read_show, model=model.name, silent_s=_LOOK_UP_S
            )
        except ModelError:
            return {}  # it was removed in this moment, or its file is broken: its name still tells something
        if model.digest:
            self._shown[model.digest] = shown
        return shown


async def _read_show(response: HttpAnswer) -> Mapping[str, Any]:
    return read_show(await whole_body(response))


def native_root(base_url: str) -> str:
    """Return the address beside which `/api` is, of an address that may end with `/v1`."""
    return base_url.rstrip("/").removesuffix("/v1").rstrip("/")
