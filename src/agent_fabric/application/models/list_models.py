"""Tells which model each key of the configuration means today, and what else is at hand."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from agent_fabric.application.ports.llm import ModelChooser
from agent_fabric.application.ports.models import UNMEASURED, ModelSurvey, OllamaFound, Shelf, Speed, Stored
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.addresses import is_local_url
from agent_fabric.domain.models.found_models import find_model
from agent_fabric.domain.models.messages import ModelSettings

INSTALL_EMBEDDED = 'pip install "agent-fabric[embedded]"'


class ModelAvailability(StrEnum):
    """What happens when a run asks a model."""

    READY = "ready"
    """It answers."""
    LATER = "later"
    """Something is started or fetched first."""
    ELSEWHERE = "elsewhere"
    """It is on another machine, which was not asked."""
    BLOCKED = "blocked"
    """It fails."""


class _State(NamedTuple):
    standing: ModelAvailability
    note: str = ""
    fix: str = ""


def _blocked_state(note: str, fix: str) -> _State:
    return _State(ModelAvailability.BLOCKED, note, fix)


_NOTHING_STARTED = _blocked_state(
    "it would have to be started, and nothing is to be started", "Set `local_llm_ensure_available: true`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeantModel:
    """What one key of the configuration means today."""

    key: str
    settings: ModelSettings | None
    """None when the configuration names something that is not there."""
    why: str
    """Why this model."""
    standing: ModelAvailability
    """`ready`: it answers; `later`: something is started or fetched first; `elsewhere`: on another machine, which was
    not asked; `blocked`: a run fails."""
    note: str = ""
    """What a person should know about it."""
    fix: str = ""
    """What to do about that: a command, where there is one."""
    speed: Speed = UNMEASURED
    calls_no_tools: bool = False
    """It called no tools when it was probed."""
    adapter_sha256: str = ""
    """The hash of the adapter that is loaded beside the weights; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """All models at hand."""

    default_key: str
    routing_key: str
    keys: tuple[MeantModel, ...]
    ollama: tuple[OllamaFound, ...]
    shelf: Shelf

    def meant_by(self, key: str) -> MeantModel:
        """Return what a configured key means."""
        return next(each for each in self.keys if each.key == key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListModels:
    """Use case: look around, without starting, fetching or sending anything."""

    chooser: ModelChooser
    """One that only looks: it must not start servers."""
    survey: ModelSurvey
    keys: Sequence[str]
    default_key: str
    routing_key: str
    ollama_urls: Sequence[str]
    """Where Ollama servers could be on this machine."""
    ensure: bool
    """Whether a run may start servers."""
    fetch: bool
    """Whether a run may download and pull models."""
    offline: bool
    """Whether a run may ask no other machine."""

    async def __call__(self) -> ModelList:
        """Look once.

        Raises:
            ConfigError: the folder for models cannot be used.
        """
        shelf = self.survey.shelf()
        ollama = [await self.survey.ollama(base_url) for base_url in self.ollama_urls]
        return ModelList(
            default_key=self.default_key,
            routing_key=self.routing_key,
            keys=tuple([await self._resolve(key, shelf) for key in self.keys]),
            ollama=tuple(ollama),
            shelf=shelf,
        )

    async def _resolve(self, key: str, shelf: Shelf) -> MeantModel:
        settings: ModelSettings | None = None
        why, adapter_sha256 = "configured", ""
        try:
            settings, why = await self.chooser.choose(key, _quiet)
            adapter_sha256 = await self.survey.adapter_sha256(settings)
            state = await self._state(settings, why, shelf)
        except ConfigError as problem:
            blocked = ModelAvailability.BLOCKED
            return MeantModel(
                key=key, settings=settings, why=why, standing=blocked, note=problem.message, fix=problem.hint
            )
        if state.standing is ModelAvailability.ELSEWHERE or (settings.backend == "generic" and state.note):
            why = "configured"  # no server confirmed this name
        card = await self.survey.known_card(settings)
        if card.calls_no_tools and state.standing is not ModelAvailability.BLOCKED:
            state = _State(
                state.standing,
                "; ".join(filter(None, (state.note, "it called no tools when it was probed, so tasks fail with it"))),
                f"fabric models use NAME --key {key}, or try it again: fabric models probe {key}",
            )
        return MeantModel(
            key=key,
            settings=settings,
            why=why,
            standing=state.standing,
            note=state.note,
            fix=state.fix,
            speed=Speed(card.prompt_tokens_per_s, card.tokens_per_s),
            calls_no_tools=card.calls_no_tools,
            adapter_sha256=adapter_sha256,
        )

    async def _state(self, settings: ModelSettings, why: str, shelf: Shelf) -> _State:
        if settings.backend == "embedded":
            return await self._embedded_state(settings, why, shelf)
        if settings.backend == "managed":
            return _State(ModelAvailability.READY) if self.ensure else _NOTHING_STARTED
        if not is_local_url(settings.base_url):
            own = "not asked now; only its builder knows where it is"
            away = "not asked now, since it is on another machine"
            return self._elsewhere_state(settings, own if settings.backend == "custom" else away)
        if settings.backend == "ollama":
            return await self._ollama_state(settings)
        if await self.survey.answers(settings):
            return _State(ModelAvailability.READY)
        note = f"no server answers at {settings.base_url}"
        return _blocked_state(note, "Start the server there, or choose another: fabric models use NAME")

    def _elsewhere_state(self, settings: ModelSettings, note: str) -> _State:
        if self.offline:
            fix = f"fabric models use auto --key {settings.key}, or set `offline: false`"
            return _blocked_state("it is on another machine, and `offline: true` forbids asking it", fix)
        return _State(ModelAvailability.ELSEWHERE, note, f"fabric models probe {settings.key}")

    async def _embedded_state(self, settings: ModelSettings, why: str, shelf: Shelf) -> _State:
        if not self.ensure:
            return _NOTHING_STARTED
        if shelf.runtime is None:
            return _blocked_state("llama.cpp, which runs it, is not installed", INSTALL_EMBEDDED)
        entry = next((each for each in shelf.catalogue if each.name == settings.model), None)
        if entry is not None and entry.stored in (Stored.BEGUN, Stored.MISSING):
            begun = f", {_megabytes(entry.begun_bytes)} of it are here" if entry.begun_bytes else ""
            size, pull = _megabytes(entry.size_bytes), f"fabric models pull {entry.called}"
            if not self.fetch:
                return _blocked_state(f"not downloaded ({size}{begun}), and `auto_pull_if_missing` is off", pull)
            return _State(ModelAvailability.LATER, f"downloaded at first use ({size}{begun})", pull)
        if why != "configured" and any([(await self.survey.ollama(url)).startable for url in self.ollama_urls]):
            note = "Ollama is installed but not running: a run starts it first, and uses one of its models if one fits"
            return _State(ModelAvailability.LATER, note, f"fabric models use {settings.model} --key {settings.key}")
        return _State(ModelAvailability.READY)

    async def _ollama_state(self, settings: ModelSettings) -> _State:
        found = await self.survey.ollama(settings.base_url)
        if not found.running:
            if self.ensure and found.startable:
                return _State(ModelAvailability.LATER, "Ollama is not running; a run starts it", "ollama serve")
            return _blocked_state(f"no Ollama answers at {settings.base_url}", "ollama serve")
        card = find_model(found.models, settings.model)
        if card is None:
            pull = f"fabric models pull {settings.model}"
            if self.fetch:
                return _State(ModelAvailability.LATER, "Ollama lacks it; pulled at first use", pull)
            return _blocked_state("Ollama lacks it, and `auto_pull_if_missing` is off", pull)
        if card.remote:
            return self._elsewhere_state(settings, "Ollama passes it on to another machine")
        if not card.chats:
            return _blocked_state("it makes vectors and cannot chat", "fabric models use NAME")
        if not card.calls_tools and settings.dialect == "native":
            fix = f"Set `models.{settings.key}.dialect: schema`, or take another: fabric models use NAME"
            return _blocked_state("it cannot call tools natively", fix)
        return _State(ModelAvailability.READY)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def _quiet(_: str) -> None:
    """Nothing takes long here."""
