"""Names of tools as model servers take them: most refuse dots, and more than 64 characters."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from agent_fabric.domain.models.messages import LLMResponse, Message, ToolCallRequest
from agent_fabric.domain.tools.specs import ToolSpec

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_CHARS: Final = 64
_MARK_CHARS: Final = 6


def wire_names(tools: Sequence[ToolSpec]) -> Mapping[str, str]:
    """Return the name for servers of each tool whose own they would refuse; most runs have no such tool."""
    known = _KNOWN.get(id(tools))
    if known is None or known[0] is not tools:
        names = _wire_names(tuple([tool.name for tool in tools]))
        if not isinstance(tools, tuple):  # it may change
            return names
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[id(tools)] = tools, names
    return known[1]


_MAX_KNOWN: Final = 256
_KNOWN: Final[dict[int, tuple[Sequence[ToolSpec], Mapping[str, str]]]] = {}
"""By identity, since each request of a run has the same tools; those that are kept here keep their id."""


@lru_cache(maxsize=256)
def _wire_names(own: tuple[str, ...]) -> Mapping[str, str]:
    odd = [name for name in own if len(name) > _MAX_CHARS or _ODD.search(name)]
    if not odd:
        return {}
    taken = set(own)
    names: dict[str, str] = {}
    for name in odd:
        plain = _ODD.sub("_", name)
        if len(plain) > _MAX_CHARS or plain in taken:
            mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_MARK_CHARS]
            plain = f"{plain[: _MAX_CHARS - _MARK_CHARS - 1]}_{mark}"
        taken.add(plain)
        names[name] = plain
    return names


def with_wire_names(
    messages: Sequence[Message], tools: Sequence[ToolSpec], names: Mapping[str, str]
) -> tuple[Sequence[Message], Sequence[ToolSpec]]:
    """Return a conversation and its tools as servers take them."""
    spoken = [
        replace(message, tool_calls=_rename(message.tool_calls, names)) if message.tool_calls else message
        for message in messages
    ]
    return spoken, [replace(tool, name=names.get(tool.name, tool.name)) for tool in tools]


def with_own_names(answer: LLMResponse, tools: Sequence[ToolSpec]) -> LLMResponse:
    """Return an answer whose calls name the tools as the run knows them."""
    names = wire_names(tools)
    if not names or not answer.tool_calls:
        return answer
    return replace(answer, tool_calls=_rename(answer.tool_calls, {wire: own for own, wire in names.items()}))


def _rename(calls: Sequence[ToolCallRequest], names: Mapping[str, str]) -> tuple[ToolCallRequest, ...]:
    return tuple(replace(call, tool=names.get(call.tool, call.tool)) for call in calls)
