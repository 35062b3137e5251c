"""Which questions to a model are the same, so that an answer may be used again (A33-074)."""

import hmac
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Message, ModelSettings
from agent_fabric.domain.tools.specs import FINISH_TASK, ToolSpec


class Asker(NamedTuple):
    """The run that asks."""

    run_id: RunId
    owner: str
    encrypted: bool


def reuse_key(
    secret: bytes, model: ModelSettings, messages: Sequence[Message], tools: Sequence[ToolSpec], owner: str
) -> str:
    """Return what identifies a question of an owner; empty: its answer is not to be used again.

    Only a model at temperature 0 gives the same answer twice, and without tools an answer has no effects; to finish is
    none. The key is a keyed hash: a reader can neither guess nor compare what was asked.
    """
    if model.temperature != 0 or any(tool.name != FINISH_TASK for tool in tools):
        return ""
    question: dict[str, Any] = {
        "owner": owner,
        "model": [model.backend, model.base_url, model.model, model.dialect, model.context_window],
        "sampling": [model.temperature, model.top_p, model.max_tokens],
        "tools": [[tool.description, tool.parameters] for tool in tools],
        "messages": [_plain(message) for message in messages],
    }
    text = json.dumps(question, ensure_ascii=True, sort_keys=True)
    return hmac.digest(secret, f"agent-fabric response\n{text}".encode(), "sha256").hex()


def _plain(message: Message) -> list[Any]:
    calls = [[call.tool, call.arguments] for call in message.tool_calls]
    return [str(message.role), message.content, calls]
