"""What embedders that ask a server have in common: one question with many texts, an answer with as many vectors."""

from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import orjson

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.errors import ModelAnswerUnusable
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH, packed
from agent_fabric.infrastructure.models.model_http import ModelHttp, ServerAddress, environment_only, whole_body

MAX_CHARS = 2_000
"""Fits into the window of every embedding model in use: the smallest hold 512 tokens."""
SILENT_S = 300.0
"""How long a server may say nothing: it may have to load the model first."""


class EmbeddingServer:
    """Sends texts, checks vectors. All vectors of one server have the same size."""

    def __init__(self, address: ServerAddress, model: str, resolve: Resolve = environment_only) -> None:
        self.model = model
        self.base_url = address.base_url
        self.dimensions = 0
        """How many numbers a vector has; 0 before the first answer."""
        self._address = address
        self._resolve = resolve

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Post JSON and return the JSON of the answer.

        Raises:
            ModelError: there is no usable answer.
        """
        # Searches are rare, so connections are not kept: then nobody has to remember to close them.
        async with aiohttp.ClientSession() as session:
            data = await ModelHttp(session, self._address, self._resolve).post(
                self.base_url + path, orjson.dumps(body), whole_body, model=self.model, silent_s=SILENT_S
            )
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            raise self.unusable("it is not JSON") from None

    def vectors(self, rows: object, texts: Sequence[str]) -> list[Vector]:
        """Return the rows as vectors, one for each text.

        Raises:
            ModelAnswerUnusable: they are not what they should be.
        """
        if not isinstance(rows, list) or len(rows) != len(texts):
            raise self.unusable(f"there should be {len(texts)} vectors")
        try:
            found = [packed(row) for row in rows]
        except (TypeError, OverflowError):
            raise self.unusable("vectors are lists of numbers") from None
        sizes = {len(each) // BYTES_EACH for each in found} | ({self.dimensions} if self.dimensions else set())
        if found and (len(sizes) > 1 or 0 in sizes):
            raise self.unusable("its vectors are empty or of several sizes")
        self.dimensions = next(iter(sizes), 0)
        return found

    def unusable(self, why: str) -> ModelAnswerUnusable:
        """Return the error for an answer that is not one."""
        return ModelAnswerUnusable(
            f"The answer of {self.base_url} cannot be used as embeddings of {self.model!r}: {why}",
            hint="Check `run_index.embedding_model`: it must be an embedding model, such as nomic-embed-text.",
        )


def sent(texts: Sequence[str]) -> list[str]:
    """Return the texts as servers take them: cut, UTF-8, and never empty."""
    return [text[:MAX_CHARS].encode("utf-8", "replace").decode().strip() or "-" for text in texts]
