"""The models that could be asked, seen by someone who wants to know what is there."""

from enum import StrEnum
from typing import Literal, NamedTuple, Protocol, TypeAlias

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ModelSettings, ToolDialect


class OllamaFound(NamedTuple):
    """An Ollama server, or the place where one could be."""

    base_url: str
    running: bool
    version: str | None = None
    models: tuple[ModelCard, ...] = ()
    startable: bool = False
    """It does not run, but the configured command that starts it is installed."""


class Stored(StrEnum):
    """How much of a model's file is here."""

    CHECKED = "downloaded"
    UNCHECKED = "unchecked"
    """A file is there; its hash is checked before it is first used."""
    BEGUN = "begun"
    """A download stopped in the middle; the next one goes on."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """A model that can be had without a model server."""

    name: str
    profile: str
    """The key that it stands for when no one configured one; empty: none."""
    called: str
    """What commands call it for short."""
    sha256: str
    size_bytes: int
    licence: str
    context_window: int
    parameters_b: float
    dialect: ToolDialect
    path: str
    """Where its file belongs, whether it is there or not."""
    stored: Stored
    memory_bytes: int
    """What it takes with a window of 8,192 tokens, about."""
    measured: str = ""
    """What was measured, for a person; empty: nothing."""
    begun_bytes: int = 0


class WeightsFile(NamedTuple):
    """A GGUF file that someone put beside the others."""

    name: str
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A process that has a model in memory."""

    key: str
    """Tells the process from others that serve the same model."""
    name: str
    path: str
    pid: int
    loading: bool
    context_window: int
    slots: int
    in_use: bool
    """A living process holds a lease on it."""
    idle_for_s: float
    idle_s: float | None
    """When it ends by itself; not set: when its owner does."""
    memory_bytes: int | None
    """Memory it occupies now, its model included; not set where the system does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The models inside agent-fabric."""

    folder: str
    runtime: str | None
    """Version of llama.cpp's package; None when it is not installed."""
    catalogue: tuple[CatalogueEntry, ...]
    files: tuple[WeightsFile, ...]
    loaded: tuple[LoadedModel, ...] = ()
    """Those in memory now."""


class Speed(NamedTuple):
    """How fast a model was when it was last probed here; None where it never was."""

    prompt_tokens_per_s: float | None = None
    tokens_per_s: float | None = None


UNMEASURED = Speed()


class ModelSurvey(Protocol):
    """Looks at what is on this machine. Starts and downloads nothing, and asks no other machine."""

    async def ollama(self, base_url: str) -> OllamaFound:
        """Return what is at the address of an Ollama server; asked once, however often this is called."""
        ...

    async def answers(self, settings: ModelSettings) -> bool:
        """Tell whether someone answers at the address of a model server.

        Raises:
            ConfigError: a key or a certificate that the settings name does not exist.
        """
        ...

    def shelf(self) -> Shelf:
        """Return the models inside agent-fabric, and which of them are in memory now.

        Raises:
            ConfigError: their folder cannot be read.
        """
        ...

    async def adapter_sha256(self, settings: ModelSettings) -> str:
        """Return the SHA-256 of a model's adapter; empty: it has none.

        Raises:
            ConfigError: the adapter cannot be read, or belongs to other weights.
        """
        ...

    async def known_card(self, settings: ModelSettings) -> ModelCard:
        """Return what is known of a model, with the results of its last probe."""
        ...


class PulledModel(NamedTuple):
    """A model that was downloaded, or was there already."""

    name: str
    path: str | None
    """Its file; None: a server keeps it."""
    size_bytes: int | None
    by: str
    """Who keeps it: `agent-fabric`, or the address of a server."""


Stage: TypeAlias = Literal["stopped", "starting", "ready", "draining", "switching", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedStatus:
    """How the server is; asking for it never waits."""

    stage: Stage
    """`stopped`: the next request starts it. `draining`: a switch waits for answers that are being written."""
    model: str
    running: int
    """Requests that are being answered."""
    waiting: int
    """Requests that wait for a slot, a start or a switch."""
    pid: int | None
    """None: it does not run."""
    slots: int
    """How many requests it answers at once, as it says itself when it runs."""
    context_window: int
    """Tokens that fit into each, as it says itself when it runs."""
    memory_bytes: int | None
    """Memory it occupies now, its model included; not set when it does not run or the system does not tell."""
    problem: str
    """Why the last start or switch failed; empty when all is well."""
