"""Embedders that ask a server, Ollama or one that speaks OpenAI's format: many texts in, as many vectors out."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import orjson

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.errors import ModelAnswerUnusable, ModelRefused
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH, pack_vector
from agent_fabric.infrastructure.models.model_http import (
    HttpSession,
    ModelHttp,
    ServerAddress,
    environment_only,
    whole_body,
)

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
        # Searches are rare, so connections are not kept: then no one has to remember to close them.
        async with HttpSession() as session:
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
            found = [pack_vector(row) for row in rows]
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


def trim_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts as servers take them: cut, UTF-8, and never empty."""
    return [text[:MAX_CHARS].encode("utf-8", "replace").decode().strip() or "-" for text in texts]


class OllamaEmbedder(EmbeddingServer):
    """Asks `/api/embed`, and servers from before 2024, which lack it, one text at a time."""

    def __init__(self, address: ServerAddress, model: str, resolve: Resolve = environment_only) -> None:
        super().__init__(address, model, resolve)
        self._is_old = False
        self.name = f"ollama/{model if ':' in model else f'{model}:latest'}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if not texts:
            return []
        try:
            return self.vectors(await self._rows(trim_texts(texts)), texts)
        except ModelRefused as problem:
            if _says_missing(problem):
                raise ModelRefused(
                    f"Ollama at {self.base_url} has no model {self.model!r}",
                    hint=f"Get it with: ollama pull {self.model}",
                ) from problem
            raise

    async def _rows(self, texts: list[str]) -> object:
        if not self._is_old:
            try:
                answer = await self.ask("/api/embed", {"model": self.model, "input": texts, "truncate": True})
            except ModelRefused as problem:
                if _says_missing(problem) or "answered 404" not in problem.message:
                    raise
                self._is_old = True
            else:
                return answer.get("embeddings") if isinstance(answer, dict) else None
        answers = [await self.ask("/api/embeddings", {"model": self.model, "prompt": text}) for text in texts]
        return [answer.get("embedding") if isinstance(answer, dict) else None for answer in answers]


def _says_missing(problem: ModelRefused) -> bool:
    """Tell whether it is the model that Ollama does not know, and not the route."""
    return "answered 404" in problem.message and "model" in problem.message.partition("answered 404")[2]


class OpenAIEmbedder(EmbeddingServer):
    """Asks `/embeddings` under the base address, which usually ends in `/v1`."""

    def __init__(self, address: ServerAddress, model: str, resolve: Resolve = environment_only) -> None:
        super().__init__(address, model, resolve)
        # The address belongs to it: two servers may call different models by one name.
        self.name = f"openai/{model}@{address.base_url}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if not texts:
            return []
        body = {"model": self.model, "input": trim_texts(texts), "encoding_format": "float"}
        answer = await self.ask("/embeddings", body)
        try:
            rows = [row["embedding"] for row in sorted(answer["data"], key=itemgetter("index"))]
        except (TypeError, KeyError):
            raise self.unusable("it lacks `data` with `index` and `embedding`") from None
        return self.vectors(rows, texts)
