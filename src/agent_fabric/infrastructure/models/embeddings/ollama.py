"""Embedder on an Ollama server."""

from collections.abc import Sequence

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.errors import ModelRefused
from agent_fabric.infrastructure.models.embeddings.server import EmbeddingServer, sent
from agent_fabric.infrastructure.models.model_http import ServerAddress, environment_only


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
            return self.vectors(await self._rows(sent(texts)), texts)
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
