"""What a person means by the name of a model: one inside agent-fabric, a file, one of Ollama's, or a server."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agent_fabric.application.ports.models import OllamaFound, Shelf
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.found_models import find_model
from agent_fabric.infrastructure.models.chooser import OLLAMA_URL
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE, CatalogueModel, find
from agent_fabric.infrastructure.models.weights.gguf import read_gguf

AUTO = "auto"
"""Means: whatever is there."""


class Choice(NamedTuple):
    """A model, as the configuration names it."""

    backend: str
    base_url: str | None
    model: str | None
    what: str
    """What it is, for a person."""


def choice_of(name: str, model: str | None, shelf: Shelf, ollama: Sequence[OllamaFound]) -> Choice:
    """Return what someone means by a name; `model` is only given with the address of a server.

    Raises:
        ConfigError: nothing that is here has this name.
    """
    if name.startswith(("http://", "https://")):
        return Choice("auto", name, model, f"{model or 'the first model'} at {name}")
    if model is not None:
        raise ConfigError(
            "--model goes with the address of a server",
            hint="For example: fabric models use http://localhost:8000/v1 --model some-model",
        )
    if not name.strip():
        raise ConfigError("No model is named", hint="`fabric models list` shows what is there.")
    if name == AUTO:
        return Choice("auto", None, None, "whatever is there: a local Ollama, else the embedded model")
    if _looks_like_path(name):
        return _of_file(Path(name).expanduser().absolute())
    if ":" in name:  # people know such names from Ollama
        return _of_ollama(name, ollama) or _of_catalogue(name) or _nothing(name, ollama)
    return _of_catalogue(name) or _of_shelf(name, shelf) or _of_ollama(name, ollama) or _nothing(name, ollama)


def pulled_by(name: str, ollama: Sequence[OllamaFound]) -> CatalogueModel | OllamaFound:
    """Return what a name means to someone who wants to download it: a model of ours, or the Ollama that can get it.

    Raises:
        ConfigError: there is no such model, and no Ollama to ask for it.
    """
    running = next((found for found in ollama if found.running), None)
    ours = _exactly(name)
    if running is not None and (ours is None or ":" in name):
        return running
    if ours is None and ":" in name:
        raise ConfigError(
            f"{name!r} is not a model inside agent-fabric, and no Ollama answers that could pull it",
            hint="Start Ollama with `ollama serve` and try again; `fabric models list` shows what else there is.",
        )
    return ours or find(name)


def _of_catalogue(name: str) -> Choice | None:
    model = _exactly(name)
    return None if model is None else Choice("embedded", None, model.name, f"{model.name}, inside agent-fabric")


def _exactly(name: str) -> CatalogueModel | None:
    wanted = name.strip().lower().removesuffix(".gguf")
    return next((model for model in CATALOGUE if wanted in (model.name, *model.aliases)), None)


def _of_shelf(name: str, shelf: Shelf) -> Choice | None:
    file = next((file for file in shelf.files if file.name == name), None)
    return None if file is None else _of_file(Path(file.path))


def _of_file(path: Path) -> Choice:
    info = read_gguf(path)
    if not info.has_chat_template:
        raise ConfigError(
            f"{path} is a base model: it continues a text, but cannot hold a conversation",
            hint="Take the variant of this model whose name ends in `instruct` or `chat`.",
        )
    return Choice("embedded", None, str(path), f"the file {path}, run inside agent-fabric")


def _of_ollama(name: str, ollama: Sequence[OllamaFound]) -> Choice | None:
    for found in ollama:
        card = find_model(found.models, name)
        if card is None:
            continue
        if not card.chats:
            raise ConfigError(f"{card.name} makes vectors and cannot chat", hint=_able(found))
        base_url = None if found.base_url == OLLAMA_URL else found.base_url
        tools = "" if card.calls_tools else "; it cannot call tools natively, so it is held to a schema"
        return Choice("ollama", base_url, card.name, f"{card.name} of Ollama{tools}")
    return None


def _nothing(name: str, ollama: Sequence[OllamaFound]) -> Choice:
    running = next((found for found in ollama if found.running), None)
    if running is None:
        raise ConfigError(
            f"There is no model {name!r} inside agent-fabric, and no Ollama answers that could have it",
            hint="Embedded models: quality, fast. A GGUF file is named by its path, a server by its address. Or start "
            "Ollama: ollama serve",
        )
    raise ConfigError(
        f"Neither agent-fabric nor Ollama has a model {name!r}",
        hint=f"Get it with: fabric models pull {name}. {_able(running)}",
    )


def _able(found: OllamaFound) -> str:
    able = [card.name for card in found.models if card.chats and card.calls_tools]
    return f"Ollama has: {', '.join(able[:8])}." if able else "Ollama has no model yet that can call tools."


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or (name.endswith(".gguf") and _exactly(name) is None)
