"""The shape of `GET /models`, for its description."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

_OUT = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class MeantModelLine(BaseModel):
    """What one key of the configuration means today."""

    model_config = _OUT

    key: str
    standing: Literal["ready", "later", "elsewhere", "blocked"]
    """`ready`: it answers; `later`: something is started or fetched first; `elsewhere`: on another machine, which was
    not asked; `blocked`: a run fails."""
    why: str
    """Why this model."""
    note: str
    fix: str
    """What to do about what the note says."""
    backend: str | None = None
    """Left out, as all that follows, when the configuration names something that is not there."""
    model: str | None = None
    base_url: str | None = None
    context_window: int | None = None
    dialect: str | None = None
    strict_native: bool | None = None
    compact: bool | None = None
    slots: int | None = None
    local: bool | None = None
    prompt_tokens_per_s: float | None
    """As the last probe measured; null: never probed."""
    tokens_per_s: float | None


class OllamaModelLine(BaseModel):
    """A model that Ollama has."""

    model_config = _OUT

    name: str
    digest: str
    parameters_b: float | None
    chats: bool
    calls_tools: bool
    context_window: int | None
    served_window: int | None
    """What Ollama gives it unless more is asked for."""
    remote: bool


class OllamaLine(BaseModel):
    """An Ollama server, or the place where one could be."""

    model_config = _OUT

    base_url: str
    running: bool
    version: str | None
    startable: bool
    """It does not run, but is installed."""
    models: list[OllamaModelLine]


class CatalogueLine(BaseModel):
    """A model that can be had without a model server."""

    model_config = _OUT

    name: str
    profile: str
    stored: Literal["downloaded", "unchecked", "begun", "missing"]
    size_bytes: int
    begun_bytes: int
    licence: str
    context_window: int
    parameters_b: float
    dialect: str
    path: str


class FileLine(BaseModel):
    """A GGUF file beside the others."""

    model_config = _OUT

    name: str
    path: str
    size_bytes: int


class LoadedLine(BaseModel):
    """A process that has an embedded model in memory."""

    model_config = _OUT

    name: str
    path: str
    pid: int
    loading: bool
    context_window: int
    slots: int
    in_use: bool
    idle_for_s: float
    idle_s: float | None
    memory_bytes: int | None


class EmbeddedLine(BaseModel):
    """The models inside agent-fabric."""

    model_config = _OUT

    runtime: str | None
    """Version of llama.cpp's package; null: not installed."""
    folder: str
    catalogue: list[CatalogueLine]
    files: list[FileLine]
    loaded: list[LoadedLine]


class Models(BaseModel):
    """All models at hand."""

    model_config = _OUT

    default_model_key: str
    routing_model_key: str
    models: list[MeantModelLine]
    ollama: list[OllamaLine]
    embedded: EmbeddedLine


class ProbeRequest(BaseModel):
    """Which model is asked."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        json_schema_extra={"examples": [{"key": "quality"}]},
    )

    key: Annotated[str, StringConstraints(max_length=200)] | None = None
    """A key of `models`; by default the one that works."""


class TrialLine(BaseModel):
    """One way of calling tools that was tried."""

    dialect: str
    worked: bool
    said: str


class ProbedModel(BaseModel):
    """What a model can do."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    key: str
    model: str
    why: str
    dialect: str | None
    """null: it calls tools in no way that we know."""
    dialect_before: str
    trials: list[TrialLine]
    context_window: int | None
    prompt_tokens_per_s: float | None
    tokens_per_s: float | None
    kept: bool
    """Later runs use what was found out."""
    problem: str
