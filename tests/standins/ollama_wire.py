"""The shapes in which the Ollama stand-in speaks: models as they are listed and shown, answers in Ollama's own form."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_fabric.testing.scripted_answers import Call, Calls, Empty, Reply, Say

_WHEN = "2026-11-01T12:00:00.000000000Z"
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StandInModel:
    """A model that the stand-in claims to have."""

    name: str = "qwen2.5-coder:1.5b"
    parameter_size: str = "1.5B"
    family: str = "qwen2"
    capabilities: tuple[str, ...] | None = ("completion", "tools", "insert")
    """None: the server is too old to tell."""
    context_length: int = 32_768
    num_ctx: int | None = None
    """The window that its Modelfile sets."""
    size: int = 986_062_089
    remote_host: str = ""
    """Set for a model that runs in Ollama's cloud."""

    @property
    def digest(self) -> str:
        """What identifies it."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    @property
    def template(self) -> str:
        """Its chat template; one that has a place for tools says `.Tools`, as Ollama's do."""
        tools = "{{ range .Tools }}{{ . }}{{ end }}" if "tools" in (self.capabilities or ("tools",)) else ""
        return f"{tools}{{{{ range .Messages }}}}{{{{ .Content }}}}{{{{ end }}}}"

    def details(self) -> dict[str, Any]:
        """What `/api/tags`, `/api/ps` and `/api/show` tell of it."""
        return {
            "parent_model": "",
            "format": "gguf",
            "family": self.family,
            "families": [self.family],
            "parameter_size": self.parameter_size,
            "quantization_level": "Q4_K_M",
        }

    def listed(self) -> dict[str, Any]:
        """Return its entry in `/api/tags`."""
        entry = {"name": self.name, "model": self.name, "modified_at": _WHEN, "size": self.size}
        remote = {"remote_model": self.name, "remote_host": self.remote_host} if self.remote_host else {}
        return entry | {"digest": self.digest, "details": self.details()} | remote

    def loaded(self, window: int) -> dict[str, Any]:
        """Return its entry in `/api/ps`."""
        entry = {"name": self.name, "model": self.name, "size": self.size, "digest": self.digest}
        more = {"expires_at": _WHEN, "size_vram": 0, "context_length": window}
        return entry | {"details": self.details()} | more

    def shown(self) -> dict[str, Any]:
        """Return what `/api/show` answers."""
        parameters = 'stop                           "<|im_end|>"'
        if self.num_ctx is not None:
            parameters = f"num_ctx                        {self.num_ctx}\n{parameters}"
        body = {
            "license": "Apache-2.0",
            "modelfile": f"FROM {self.name}",
            "parameters": parameters,
            "template": self.template,
            "details": self.details(),
            "model_info": {
                "general.architecture": self.family,
                f"{self.family}.context_length": self.context_length,
                f"{self.family}.embedding_length": 1536,
            },
            "modified_at": _WHEN,
        }
        return body if self.capabilities is None else body | {"capabilities": list(self.capabilities)}


def tokens_of(value: object) -> int:
    """Count tokens as a stand-in may: four characters each."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return len(text) // 4 + 1


def fitted(messages: Sequence[Mapping[str, Any]], tools: object, window: int) -> tuple[list[Mapping[str, Any]], int]:
    """Return the messages that Ollama would let a model see, and how many tokens they are.

    Whole messages go first, from the oldest on; the system's and the last one stay. What still does not fit is cut in
    half, and nobody is told.
    """
    overhead = tokens_of(tools) if tools else 0
    kept = list(messages)
    while _size(kept) + overhead > window:
        oldest = next((n for n, message in enumerate(kept[:-1]) if message.get("role") != "system"), None)
        if oldest is None:
            break
        del kept[oldest]
    size = _size(kept) + overhead
    if size >= window:
        last = kept[-1]
        text = str(last.get("content") or "")
        kept[-1] = {**last, "content": text[-2 * window :]}
        size = window // 2
    return kept, size


def _size(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(
        tokens_of(message.get("content") or "") + tokens_of(message.get("tool_calls") or "") for message in messages
    )


def native_lines(reply: Reply, model: str, prompt_tokens: int, *, stream: bool) -> list[bytes]:
    """Return a reply as `/api/chat` sends it: one line, or several."""
    text, calls = _said(reply)
    usage = reply.usage or (prompt_tokens, tokens_of(text) + sum(tokens_of(call["function"]) for call in calls))
    envelope = {"model": model, "created_at": _WHEN}
    last = {
        "done_reason": "stop",
        "done": True,
        "total_duration": 2 * _SECOND_NS,
        "load_duration": _SECOND_NS // 50,
        "prompt_eval_count": usage[0],
        "prompt_eval_duration": _SECOND_NS,
        "eval_count": usage[1],
        "eval_duration": _SECOND_NS,
    }
    if not stream:
        return [_line(envelope | {"message": _message(text, calls)} | last)]
    third = max(1, -(-len(text) // 3))
    pieces = [text[at : at + third] for at in range(0, len(text), third)]
    parts = [_message(piece, []) for piece in pieces] + [_message("", [call]) for call in calls]
    return [
        *(_line(envelope | {"message": part, "done": False}) for part in parts),
        _line(envelope | {"message": _message("", [])} | last),
    ]


def from_openai(body: Mapping[str, Any], model: str) -> tuple[Reply, str]:
    """Read a whole OpenAI-format answer, to tell it in Ollama's own form; return with it why it ended."""
    choice = body["choices"][0]
    message = choice["message"]
    usage = body.get("usage") or {}
    counts = (int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0)))
    calls = tuple(
        Call(call["function"]["name"], call["function"]["arguments"], call_id=call.get("id") or "")
        for call in message.get("tool_calls") or ()
    )
    text = message.get("content") or ""
    reply: Reply = Calls(calls, text=text, usage=counts) if calls else Say(text, usage=counts)
    return reply, str(choice.get("finish_reason") or f"{model} said nothing")


def to_openai(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request of Ollama's own form in OpenAI's."""
    options = request.get("options") or {}
    messages = [_openai_message(message) for message in request["messages"]]
    body: dict[str, Any] = {"model": request.get("model", ""), "messages": messages, "stream": False}
    names = {"temperature": "temperature", "top_p": "top_p", "num_predict": "max_tokens"}
    body |= {theirs: options[ours] for ours, theirs in names.items() if ours in options}
    if request.get("tools"):
        body["tools"] = request["tools"]
    if isinstance(request.get("format"), dict):
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": request["format"]},
        }
    return body


def _openai_message(message: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in message.items() if key in {"role", "content", "tool_call_id"}}
    calls = [
        {
            "id": call.get("id") or f"call_{number}",
            "type": "function",
            "function": {
                "name": call["function"]["name"],
                "arguments": json.dumps(call["function"]["arguments"], ensure_ascii=False),
            },
        }
        for number, call in enumerate(message.get("tool_calls") or ())
    ]
    return plain | ({"tool_calls": calls} if calls else {})


def _said(reply: Reply) -> tuple[str, list[dict[str, Any]]]:
    calls: tuple[Call, ...] = ()
    text = ""
    match reply:
        case Say(text=said):
            text = said
        case Call():
            calls = (reply,)
        case Calls(calls=several, text=said):
            calls, text = several, said
        case Empty():
            pass
    return text, [{"function": {"name": call.tool, "arguments": _object(call.arguments)}} for call in calls]


def _object(arguments: dict[str, Any] | str) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def _message(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
