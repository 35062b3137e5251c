"""ModelChooser over the configuration, this machine's Ollama, and the models inside agent-fabric."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol
from urllib.parse import urlsplit

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.llm import ChosenModel, ModelChooser, Notice
from agent_fabric.config.schema.models import ModelConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.found_models import ModelCard, same_model, select_model, smallest_chat_model
from agent_fabric.domain.models.messages import ModelPrice, ModelSettings, ToolDialect
from agent_fabric.infrastructure.models.embedded import embedded_card
from agent_fabric.infrastructure.models.model_http import ServerAddress

OLLAMA_URL: Final = "http://localhost:11434/v1"
OLLAMA_PORT: Final = 11434
EMBEDDED_URL: Final = "embedded:"
"""Stands for an address where there is none."""
MANAGED_URL: Final = "managed:"
"""Stands for the address of our llama-server, which has another one after each start."""
CUSTOM_URL: Final = "custom:"
PREFERRED: Final[Mapping[str, str]] = {"fast": "qwen2.5:7b", "quality": "qwen2.5:14b"}
"""Models of Ollama that are taken for a key without a name if they are there."""
_FITTING_WINDOW = 8192
"""What an Ollama model is given when no one says: its own default is half of it, and it drops the rest silently."""
_OLLAMA_SLOTS = 1
"""Requests that Ollama serves at once unless it is set up otherwise; who waits there waits without any priority."""
_SMALL_B = 4.0
"""Models with fewer billions of parameters work better with few words."""


class ServerModels(Protocol):
    """What an OpenAI-compatible server has."""

    async def list_models(self, address: ServerAddress) -> Sequence[ModelCard] | None:
        """Return its models; None when it does not tell."""
        ...


class OllamaModels(Protocol):
    """What an Ollama server has."""

    async def find_models(
        self, base_url: str, notice: Notice, address: ServerAddress | None = None
    ) -> Sequence[ModelCard] | None:
        """Return its models, starting the server if that is allowed; None when it cannot be reached."""
        ...


class ManagedModels(Protocol):
    """What the llama-server that fabric owns has."""

    async def card(self) -> ModelCard:
        """Return what is known of the model that it serves now, or will when it is started."""
        ...


class KnownCards(Protocol):
    """What earlier probes found out."""

    def improve(self, card: ModelCard, base_url: str) -> ModelCard:
        """Return the card with what a probe of this very model measured."""
        ...


@dataclass(frozen=True, slots=True)
class ConfiguredModels:
    """ModelChooser that follows the configuration where it says something, and looks around where it does not."""

    models: Mapping[str, ModelConfig]
    default_key: str
    """Key of the model that does the work: the embedded one serves all automatic keys, so that one stays loaded."""
    ensure: bool
    """Whether servers may be started, the embedded model included."""
    embedded_window: int
    embedded_slots: int
    generic: ServerModels
    ollama: OllamaModels
    cards: KnownCards
    managed: ManagedModels | None = None
    """None: fabric owns no llama-server."""
    offline: bool = False
    """Whether nothing on another machine may even be looked at."""

    async def choose(self, key: str, notice: Notice) -> ChosenModel:
        config = self.models.get(key)
        if config is None:
            raise ConfigError(f"There is no model {key!r}", hint=f"Configured models: {', '.join(self.models)}.")
        match backend_of(config):
            case "generic":
                return await self._generic(key, config)
            case "ollama":
                return await self._ollama(key, config, notice)
            case "embedded":
                return await self._embedded_model(key, config, config.model, "configured")
            case "managed":
                return await self._managed_model(key, config)
            case "custom":
                card = ModelCard(name=config.model or key)
                return ChosenModel(_settings(key, config, "custom", config.base_url or CUSTOM_URL, card), "configured")
            case _:
                leading = self._leading(key, config)
                if leading is not None and backend_of(leading) != "auto":
                    return await self.choose(self.default_key, notice)
                return await self._whatever_is_there(key, config, notice)

    def _leading(self, key: str, config: ModelConfig) -> ModelConfig | None:
        """Return the model that does the work, if a key that says nothing should follow it: one model serves both."""
        if key == self.default_key or config.model is not None:
            return None
        return self.models.get(self.default_key)

    def _may_ask(self, settings: ModelSettings) -> bool:
        return not self.offline or settings.is_local

    async def _generic(self, key: str, config: ModelConfig) -> ChosenModel:
        assert config.base_url is not None
        name, why = config.model or "default", "configured"
        about = _settings(key, config, "generic", config.base_url, ModelCard(name=""))
        # A configured model of another machine is taken as it is: that costs no request, and some list only a part.
        asks = self._may_ask(about) if config.model is None else about.is_local
        listed = await self.generic.list_models(ServerAddress.of(about)) if asks else None
        if config.model is None:
            chosen = smallest_chat_model(listed or ())
            name = name if chosen is None else chosen.name
            why = "the smallest that the server has" if chosen else "the server does not list its models"
        elif listed and len(listed) > 1 and config.model not in {each.name for each in listed}:
            # A server with one model serves it under any name.
            chosen = smallest_chat_model(listed)
            if chosen is not None:
                name, why = chosen.name, f"the server lacks {config.model}; this is the smallest that it has"
        card = self.cards.improve(ModelCard(name=name), config.base_url)
        return ChosenModel(_settings(key, config, "generic", config.base_url, card), why)

    async def _ollama(self, key: str, config: ModelConfig, notice: Notice) -> ChosenModel:
        base_url = config.base_url or OLLAMA_URL
        wanted = config.model or PREFERRED.get(key)
        card = ModelCard(name=wanted or PREFERRED["quality"])
        about = _settings(key, config, "ollama", base_url, card)
        if not self._may_ask(about):
            return ChosenModel(about, "configured")
        cards = await self.ollama.find_models(base_url, notice, ServerAddress.of(about))
        if cards is None:
            return ChosenModel(about, "configured; Ollama does not answer")
        chosen = select_model(cards, wanted)
        if chosen is None:  # the backend pulls it, or says what is missing
            chosen = card
            why = "Ollama has no model that can call tools"
        elif wanted is None or same_model(chosen.name, wanted):
            why = "configured" if config.model else "in Ollama"
        else:
            why = _instead_of(wanted)
        card = self.cards.improve(chosen, base_url)
        return ChosenModel(_settings(key, config, "ollama", base_url, card), why)

    async def _embedded_model(self, key: str, config: ModelConfig, model: str | None, why: str) -> ChosenModel:
        card = self.cards.improve(await embedded_card(model, key), EMBEDDED_URL)
        window = config.context_window or self.embedded_window
        window = min(window, card.context_window or window)
        settings = _settings(
            key, config, "embedded", EMBEDDED_URL, card, window=window, slots=config.slots or self.embedded_slots
        )
        if config.adapter_file is not None:
            settings = replace(settings, adapter=config.adapter_file)
        if "temperature" not in config.model_fields_set:
            settings = replace(settings, temperature=0.0)  # the little that chance adds makes small models stumble
        return ChosenModel(settings, why)

    async def _managed_model(self, key: str, config: ModelConfig) -> ChosenModel:
        if self.managed is None:
            raise ConfigError(
                f"The model {key!r} has the backend `managed`, but no llama-server is configured",
                hint="Set `managed_llama.model` to the absolute path of a GGUF file.",
            )
        card = await self.managed.card()
        if _is_small(card):  # its native tool calls are seldom right; llama.cpp can hold it to a schema
            card = replace(card, dialect=ToolDialect.SCHEMA)
        card = self.cards.improve(card, MANAGED_URL)
        return ChosenModel(_settings(key, config, "managed", MANAGED_URL, card), "configured")

    async def _whatever_is_there(self, key: str, config: ModelConfig, notice: Notice) -> ChosenModel:
        cards = await self.ollama.find_models(OLLAMA_URL, notice)
        chosen = None if cards is None else select_model(cards, config.model or PREFERRED.get(key))
        if chosen is not None and chosen.chats:
            card = self.cards.improve(chosen, OLLAMA_URL)
            window = config.context_window or min(card.context_window or _FITTING_WINDOW, _FITTING_WINDOW)
            settings = _settings(key, config, "ollama", OLLAMA_URL, card, window=window)
            lacking = config.model is not None and not same_model(chosen.name, config.model)
            return ChosenModel(settings, _instead_of(config.model) if lacking else "found in Ollama")
        lack = "no Ollama answers" if cards is None else "Ollama has no model that can call tools"
        if not self.ensure:
            card = ModelCard(name=config.model or PREFERRED.get(key) or PREFERRED["quality"])
            why = f"{lack}, and nothing is to be started"
            return ChosenModel(_settings(key, config, "ollama", OLLAMA_URL, card), why)
        why = f"embedded; {lack}"
        leading = self._leading(key, config)
        if leading is not None:
            return await self._embedded_model(self.default_key, leading, leading.model, f"{why}; one model serves all")
        return await self._embedded_model(key, config, config.model, why)


def backend_of(config: ModelConfig) -> str:
    """Return the backend that a configuration means; `auto` when it leaves the choice to us."""
    if config.builder is not None:
        return "custom"
    if config.backend != "auto":
        return config.backend
    if config.base_url is None:
        # A file is run by ourselves, and so is an adapter, whatever else there is.
        ours = config.adapter_file is not None or (config.model or "").startswith(("/", "~"))
        return "embedded" if ours else "auto"
    return "ollama" if urlsplit(config.base_url).port == OLLAMA_PORT else "generic"


def settings_as_configured(key: str, config: ModelConfig) -> ModelSettings:
    """Return the settings of a model that is at an address and has a name, without looking at anything else.

    Raises:
        ConfigError: it is not, or has none.
    """
    if config.base_url is None or config.model is None:
        raise ConfigError(
            f"The model {key!r} has no address or no name",
            hint=f"Set `models.{key}.base_url` and `models.{key}.model`.",
        )
    return _settings(key, config, backend_of(config), config.base_url, ModelCard(name=config.model))


def _settings(
    key: str,
    config: ModelConfig,
    backend: str,
    base_url: str,
    card: ModelCard,
    *,
    window: int | None = None,
    slots: int | None = None,
) -> ModelSettings:
    chosen_window = window or config.context_window
    return ModelSettings(
        key=key,
        backend=backend,
        base_url=base_url,
        model=card.name,
        temperature=config.temperature,
        top_p=config.top_p,
        max_tokens=config.max_tokens,
        timeout_s=config.timeout_s,
        connect_timeout_s=config.connect_timeout_s,
        context_window=chosen_window or card.served_window,
        api_key=config.api_key,
        ca_file=None if config.ca_file is None else str(config.ca_file),
        headers=dict(config.headers) or None,
        dialect=config.dialect or (ToolDialect.NATIVE if config.strict_native else card.dialect),
        strict_native=config.strict_native,
        compact=_is_small(card) if config.compact is None else config.compact,
        sets_window=backend == "ollama" and chosen_window is not None,
        slots=slots or config.slots or (_OLLAMA_SLOTS if backend == "ollama" else None),
        remote=card.remote,
        builder=config.builder or "",
        max_answer_chars=config.max_answer_chars,
        keeps_reasoning=config.reasoning == "keep",
        keep_alive_s=config.keep_alive_s if backend == "ollama" else None,
        price=None if config.price is None else ModelPrice(**config.price.model_dump()),
    )


def _instead_of(wanted: str | None) -> str:
    return f"Ollama lacks {wanted}; this is the smallest that can call tools"


def _is_small(card: ModelCard) -> bool:
    return card.compact or (card.parameters_b is not None and card.parameters_b < _SMALL_B)


LASTS_S = 10.0
"""After this, someone may have started Ollama, pulled a model or probed one."""


class RecentChoices:
    """ModelChooser that asks another one now and then."""

    def __init__(self, inner: ModelChooser, clock: Clock, *, lasts_s: float = LASTS_S) -> None:
        self._inner = inner
        self._clock = clock
        self._lasts_s = lasts_s
        self._known: dict[str, tuple[float, ChosenModel]] = {}

    async def choose(self, key: str, notice: Notice) -> ChosenModel:
        known = self._known.get(key)
        if known is not None and self._clock.monotonic() - known[0] < self._lasts_s:
            return known[1]
        chosen = await self._inner.choose(key, notice)
        if chosen.settings.backend != "managed":  # that one changes when a person says so, and is known at once
            self._known[key] = (self._clock.monotonic(), chosen)
        return chosen
