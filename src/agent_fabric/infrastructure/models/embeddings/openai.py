"""Embedder on any server that speaks OpenAI's format."""

from collections.abc import Sequence
from operator import itemgetter

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.infrastructure.models.embeddings.server import EmbeddingServer, sent
from agent_fabric.infrastructure.models.model_http import ServerAddress, environment_only


class OpenAIEmbedder(EmbeddingServer):
    """Asks `/embeddings` under the base address, which usually ends in `/v1`."""

    def __init__(self, address: ServerAddress, model: str, resolve: Resolve = environment_only) -> None:
        super().__init__(address, model, resolve)
        # The address belongs to it: two servers may call different models by one name.
        self.name = f"openai/{model}@{address.base_url}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if not texts:
            return []
        body = {"model": self.model, "input": sent(texts), "encoding_format": "float"}
        answer = await self.ask("/embeddings", body)
        try:
            rows = [row["embedding"] for row in sorted(answer["data"], key=itemgetter("index"))]
        except (TypeError, KeyError):
            raise self.unusable("it lacks `data` with `index` and `embedding`") from None
        return self.vectors(rows, texts)
