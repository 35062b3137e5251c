"""What Ollama says about its models, read: pure, and calm about what is missing.

Versions of Ollama differ in what they tell. A field that is not there, or is of the wrong kind, is simply not known;
only an answer that is no answer at all raises ModelAnswerUnusable.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from agent_fabric.domain.errors import ModelAnswerUnusable
from agent_fabric.domain.models.found_models import ModelCard, parameters_from
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.infrastructure.models.wire_values import mapping_of, optional_count, optional_text

DEFAULT_WINDOW = 4_096
"""What Ollama gives a model when nothing says otherwise, on a machine with less than 24 GB of video memory."""
_SMALL_B = 4.0
"""Models with fewer billions of parameters work better with few words."""
_EMBEDDING_FAMILIES = ("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "xlm-roberta", "modernbert")
_EMBEDDING_NAMES = re.compile(r"embed|(^|/)(bge|gte|e5|minilm|all-minilm|paraphrase)(-|:|$)")
_TOOL_NAMES = re.compile(
    r"(^|/)(qwen2\.5|qwen3|qwq|llama3\.[1-9]|llama4|mistral|mixtral|ministral|devstral|magistral|command-r|granite3|"
    r"granite4|smollm2|hermes3|gpt-oss|firefunction|nemotron|athene|aya-expanse|cogito)"
)
"""Models that can call tools, for servers that do not tell."""
_NUM_CTX = re.compile(r"^[ \t]*(?:PARAMETER\s+)?num_ctx\s+\"?(\d{1,9})\"?[ \t]*$", re.IGNORECASE | re.MULTILINE)


class ListedModel(NamedTuple):
    """A model as `/api/tags` lists it."""

    name: str
    digest: str
    details: Mapping[str, Any]
    remote: bool


class PullStep(NamedTuple):
    """One line of a pull's progress."""

    status: str
    total: int
    """Bytes of the part that is being fetched; 0 when there is none."""
    completed: int


def read_version(data: bytes) -> str | None:
    """Return the version that a server gives; None when it is no Ollama."""
    try:
        version = _object(data).get("version")
    except ModelAnswerUnusable:
        return None
    return version if isinstance(version, str) and version else None


def read_tags(data: bytes) -> list[ListedModel]:
    """Return the models that a server has.

    Raises:
        ModelAnswerUnusable: it is no list of models.
    """
    return [
        ListedModel(
            name, optional_text(entry.get("digest")), mapping_of(entry.get("details")), bool(entry.get("remote_host"))
        )
        for name, entry in _named_models(data)
    ]


def read_running(data: bytes) -> dict[str, int | None]:
    """Return the models that are loaded, with the window that each has if the server tells.

    Raises:
        ModelAnswerUnusable: it is no list of models.
    """
    return {name: optional_count(entry.get("context_length")) for name, entry in _named_models(data)}


def read_show(data: bytes) -> Mapping[str, Any]:
    """Return what a server tells about one model.

    Raises:
        ModelAnswerUnusable: it is nothing of the kind.
    """
    return _object(data)


def card_of(listed: ListedModel, shown: Mapping[str, Any], loaded_window: int | None) -> ModelCard:
    """Put together what is known of a model; `shown` is empty when the server would not tell."""
    details = {**listed.details, **mapping_of(shown.get("details"))}
    info = mapping_of(shown.get("model_info"))
    parameters = _parameters(details, info)
    made_for = _context_length(info)
    chats, calls_tools = _abilities(listed.name, details, shown)
    return ModelCard(
        name=listed.name,
        digest=listed.digest,
        parameters_b=parameters,
        chats=chats,
        calls_tools=calls_tools,
        dialect=ToolDialect.NATIVE if calls_tools else ToolDialect.SCHEMA,
        context_window=made_for,
        served_window=_served_window(shown, made_for, loaded_window),
        remote=listed.remote or bool(shown.get("remote_host")),
        compact=parameters is not None and parameters < _SMALL_B,
    )


def read_pull(line: bytes) -> PullStep | None:
    """Read one line of a pull; None for an empty one.

    Raises:
        PullFailed: the server says that it failed.
        ModelAnswerUnusable: the line is no progress.
    """
    if not line.strip():
        return None
    part = _object(line)
    if part.get("error"):
        raise PullFailed(str(part["error"])[:500])
    return PullStep(
        optional_text(part.get("status")),
        optional_count(part.get("total")) or 0,
        optional_count(part.get("completed")) or 0,
    )


class PullFailed(Exception):
    """A server gave up pulling a model; the message is its own."""


def _abilities(name: str, details: Mapping[str, Any], shown: Mapping[str, Any]) -> tuple[bool, bool]:
    """Tell whether a model chats, and whether it calls tools."""
    capabilities = shown.get("capabilities")
    if isinstance(capabilities, list) and capabilities:
        chats = "completion" in capabilities
        return chats, chats and "tools" in capabilities
    family = optional_text(details.get("family")).lower()
    plain = name.lower()
    chats = family not in _EMBEDDING_FAMILIES and _EMBEDDING_NAMES.search(plain) is None
    template = optional_text(shown.get("template"))
    # A template that has a place for tools is how Ollama itself decides.
    tools = ".Tools" in template if template else _TOOL_NAMES.search(plain) is not None
    return chats, chats and tools


def _parameters(details: Mapping[str, Any], info: Mapping[str, Any]) -> float | None:
    named = parameters_from(optional_text(details.get("parameter_size")))
    if named is not None:
        return named
    counted = optional_count(info.get("general.parameter_count"))
    return None if counted is None else counted / 1e9


def _context_length(info: Mapping[str, Any]) -> int | None:
    exact = optional_count(info.get(f"{optional_text(info.get('general.architecture'))}.context_length"))
    if exact is not None:
        return exact
    return next((optional_count(value) for key, value in info.items() if key.endswith(".context_length")), None)


def _served_window(shown: Mapping[str, Any], made_for: int | None, loaded_window: int | None) -> int:
    """Return the window that a request gets which does not ask for one."""
    pinned = _NUM_CTX.findall(optional_text(shown.get("parameters")))
    window = int(pinned[-1]) if pinned else loaded_window or DEFAULT_WINDOW
    return window if made_for is None else min(window, made_for)  # more than it was made for is lowered silently


def _named_models(data: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    body = _object(data)
    entries = body.get("models")
    if "models" not in body or not isinstance(entries, list | None):
        raise _unusable("there is no list of models in it")
    for entry in entries or ():  # older versions write null for an empty list
        about = mapping_of(entry)
        name = optional_text(about.get("name")) or optional_text(about.get("model"))
        if name:
            yield name, about


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        raise _unusable(f"not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise _unusable("not an object")
    return value


def _unusable(why: str) -> ModelAnswerUnusable:
    return ModelAnswerUnusable(
        f"The Ollama server sent something unusable about its models: {why}",
        hint="Check that the address is an Ollama server and that it is healthy.",
    )
