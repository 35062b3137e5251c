"""The models that a server has at hand."""

import math
from collections.abc import Sequence

from agent_fabric.client.transport import Resource
from agent_fabric.client.wire import json_from
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.wire.shape import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLine:
    """What one key of a server's configuration means today."""

    key: str
    model: str | None
    """None when the configuration names something that is not there."""
    backend: str | None
    standing: str
    """`ready`, `later`, `elsewhere` or `blocked`."""
    why: str
    is_default: bool


class Models(Resource):
    """The models of a server."""

    async def list(self) -> Sequence[ModelLine]:
        """Return what each configured key means today."""
        return await self._transport.read_answer(_lines, await self.everything())

    async def everything(self) -> Json:
        """Return all that `fabric models list --json` prints."""
        return await self._get(json_from(), "/models")

    async def probe(self, key: str | None = None) -> Json:
        """Let the server ask a model a few small questions: how it calls tools, its window, its speed.

        Raises:
            ConfigError: there is no such key.
            ModelError: it cannot be asked.
            ServerBusy: one is being asked already.
        """
        body = {} if key is None else {"key": key}
        return await self._post(json_from("key", "dialect", "trials"), "/models/probe", body, timeout_s=math.inf)


def _lines(answer: Json) -> Sequence[ModelLine]:
    return [
        ModelLine(
            key=each["key"],
            model=each.get("model"),
            backend=each.get("backend"),
            standing=each["standing"],
            why=each["why"],
            is_default=each["key"] == answer["default_model_key"],
        )
        for each in answer["models"]
    ]
