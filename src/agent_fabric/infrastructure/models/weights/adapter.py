"""LoRA adapters: small files that change what a model's weights do, loaded beside them."""

from pathlib import Path
from threading import Event
from typing import NamedTuple

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.models.weights.gguf import read_gguf
from agent_fabric.infrastructure.models.weights.mirrors import sha256_of


class Base(NamedTuple):
    """The weights that an adapter is loaded beside."""

    file: Path
    """It need not be there yet, if its hash is known."""
    sha256: str | None
    """None: of a file that a person has named."""


def check_adapter(adapter: Path, base: Base) -> None:
    """Make sure that an adapter belongs to a model's weights. Reads all of these if their hash is not known; blocks.

    An adapter of others does not say what it was trained on: then the kinds of model are compared, and llama.cpp
    compares the shapes.

    Raises:
        ConfigError: it does not, or is no LoRA adapter.
    """
    info = read_gguf(adapter)
    if not info.is_lora:
        raise ConfigError(
            f"{adapter} is not a LoRA adapter", hint="A model of its own is named by `model`, not by `adapter`."
        )
    if info.base_sha256 and info.base_sha256 != (base.sha256 or sha256_of(base.file, Event())):
        raise ConfigError(
            f"The adapter {adapter} was trained on another file than {base.file.name}: on one "
            f"whose SHA-256 begins with {info.base_sha256[:12]}",
            hint="Use it with those weights, or without it: `adapter: none`.",
        )
    kind = read_gguf(base.file).architecture if base.file.exists() else info.architecture
    if info.architecture != kind:
        raise ConfigError(
            f"The adapter {adapter} is for {info.architecture} models, and {base.file.name} is a {kind}",
            hint="Use it with the model that it was trained on, or without it: `adapter: none`.",
        )
