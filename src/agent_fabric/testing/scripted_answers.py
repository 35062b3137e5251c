"""What a scripted model can answer, and how a script decides which answer comes next.

```
Entry ─┬─ Turn             an answer, and the faults that come before it
       └─ Answer ─┬─ Say, Call, Calls, Finish                       a good answer
                  └─ Fault ─┬─ Slow, Empty                          a whole answer all the same
                            └─ Status, Hang, Cut, Reset, Raw,
                               ContextExceeded                      no answer: the client has to ask again
```
"""

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from agent_fabric.domain.dataclass import dataclass

Usage: TypeAlias = tuple[int, int]
"""Prompt tokens and completion tokens, as the server reports them."""


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with plain text."""

    text: str
    usage: Usage | None = field(default=None, kw_only=True)
    """Estimated from the sizes of request and answer when not given; so for every answer."""
    pause_s: float = field(default=0.0, kw_only=True)
    """How long a streamed answer pauses behind each of its pieces."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call one tool."""

    tool: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    """A text is sent as it is, so that broken JSON can be scripted."""
    call_id: str = ""
    """Derived from the messages when empty: the same question gets the same id again."""
    usage: Usage | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Calls:
    """Call several tools in one turn, with or without text before them."""

    calls: tuple[Call, ...]
    text: str = ""
    usage: Usage | None = field(default=None, kw_only=True)


def Finish(**payload: Any) -> Call:  # noqa: N802  (a word of the script, beside Say and Call)
    """Call `finish_task` with this payload."""
    return Call("finish_task", payload)


@dataclass(frozen=True, slots=True)
class Empty:
    """Answer with neither text nor tool calls."""

    usage: Usage | None = field(default=None, kw_only=True)
    times: int = field(default=1, kw_only=True)
    """How many attempts on the turn meet this fault; so for every fault."""


@dataclass(frozen=True, slots=True)
class Status:
    """Answer with this HTTP status; without a body of its own, with an error as OpenAI words it."""

    code: int
    body: str = ""
    retry_after: float | str | None = None
    """Seconds, or an HTTP date."""
    times: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class ContextExceeded:
    """Refuse a prompt that is too long, in the words of llama.cpp."""

    n_prompt_tokens: int
    n_ctx: int
    times: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Hang:
    """Take the request, then stay silent until the client leaves."""

    seconds: float | None = None
    """Close the connection after this long, if the client is still there."""
    times: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Reset:
    """Break the connection at once, so that the client sees a TCP reset."""

    times: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Raw:
    """Answer with status 200 and exactly this body, streaming or not."""

    body: bytes | str
    content_type: str = "application/json"
    times: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """Begin an answer, then close the connection in the middle of its body or stream."""

    answer: "Reply"
    after_bytes: int
    """Bytes of the body that arrive; never all of them, however large the number."""
    times: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Slow:
    """Stay silent for a while, then answer."""

    answer: "Answer"
    delay_s: float
    times: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation: attempts meet the faults in their order, and after them always the answer."""

    answer: "Answer"
    faults: tuple["Fault", ...] = ()


Reply: TypeAlias = Say | Call | Calls | Empty
"""What can be said in a whole chat completion."""
Fault: TypeAlias = Status | ContextExceeded | Hang | Reset | Raw | Cut | Slow | Empty
Answer: TypeAlias = Say | Call | Calls | Fault
Entry: TypeAlias = Turn | Answer
Responder: TypeAlias = Callable[[dict[str, Any], int], Answer]
"""Chooses the answer for a request, given how often this turn was asked before (0 at first)."""

_FAULTS = (Status, ContextExceeded, Hang, Reset, Raw, Cut, Slow, Empty)
_REPLIES = (Say, Call, Calls, Empty)
_ANSWERS = (Say, Call, Calls, *_FAULTS)
_KINDS: dict[str, type[Any]] = {
    "say": Say,
    "call": Call,
    "calls": Calls,
    "empty": Empty,
    "status": Status,
    "context_exceeded": ContextExceeded,
    "hang": Hang,
    "reset": Reset,
    "raw": Raw,
    "cut": Cut,
    "slow": Slow,
    "turn": Turn,
}
_TAG = re.compile(r"\[\[script=([^\]]+)\]\]")


@dataclass(frozen=True, slots=True)
class Script:
    """Answers in their order: turn n of a conversation gets entry n.

    The turn is read from the request alone, so a client that was restarted and asks again gets the same entry again.
    A bare fault that leaves the client without an answer belongs to the turn of the next answer:
    `(Status(503), Say("hi"))` is one turn, the same as `Turn(Say("hi"), faults=(Status(503),))`. With no answer after
    it, its last attempt repeats.
    """

    turns: Sequence[Entry] = ()
    named: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    """Used instead of `turns` when the first user message contains `[[script=NAME]]`."""
    default: Answer | None = None
    """Given when the entries are used up; without it the last entry repeats."""

    def __call__(self, request: dict[str, Any], attempt: int) -> Answer:
        """Choose the answer for the turn that this request asks for."""
        name = next(iter(_TAG.findall(opening_text(request))), "")
        turns = _as_turns(self.named.get(name, self.turns), self.default)
        number = turn_of(request)
        if number >= len(turns) and self.default is not None:
            return self.default
        if not turns:
            message = f"nothing is scripted for {name!r}" if name else "the script has no entries"
            return Status(400, json.dumps({"error": {"message": message, "type": "nothing_scripted"}}))
        turn = turns[min(number, len(turns) - 1)]
        faults = [fault for fault in turn.faults for _ in range(fault.times)]
        return faults[attempt] if attempt < len(faults) else turn.answer

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        data: dict[str, Any] = {"turns": [_encode(entry) for entry in self.turns]}
        if self.named:
            data["named"] = {name: [_encode(entry) for entry in entries] for name, entries in self.named.items()}
        if self.default is not None:
            data["default"] = _encode(self.default)
        return json.dumps(data, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Script":
        """Read a script: an object with `turns`, `named` and `default`, or only the list of turns.

        Raises:
            ValueError: not JSON, or not a script.
        """
        data = json.loads(text)
        if isinstance(data, list):
            data = {"turns": data}
        if not isinstance(data, dict) or not data.keys() <= {"turns", "named", "default"}:
            raise ValueError("a script is a list of entries, or an object with turns, named and default")
        default = data.get("default")
        return cls(
            turns=_decode_all(data.get("turns", []), (Turn, *_ANSWERS)),
            named={name: _decode_all(entries, (Turn, *_ANSWERS)) for name, entries in data.get("named", {}).items()},
            default=None if default is None else _decode(default, _ANSWERS),
        )


def turn_of(request: dict[str, Any]) -> int:
    """Count the model's turns before this request.

    An assistant message at the very end is the beginning of the answer that is asked for, not a turn.
    """
    return sum(message["role"] == "assistant" for message in request["messages"][:-1])


def opening_text(request: dict[str, Any]) -> str:
    """Return the text of the first user message."""
    content = next((m.get("content") for m in request["messages"] if m["role"] == "user"), "")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def conversation_of(request: dict[str, Any]) -> str:
    """Name the conversation by its messages up to the first user message, which later turns and retries share."""
    opening = []
    for message in request["messages"]:
        opening.append(message)
        if message["role"] == "user":
            break
    return fingerprint(opening)


def fingerprint(messages: Sequence[dict[str, Any]]) -> str:
    """Return the same short name for the same messages, in every process."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


def _as_turns(entries: Sequence[Entry], default: Answer | None) -> list[Turn]:
    turns: list[Turn] = []
    faults: list[Fault] = []
    for entry in entries:
        match entry:
            case Turn(answer=answer, faults=own):
                turns.append(Turn(answer, (*faults, *own)))
                faults = []
            case Status() | ContextExceeded() | Hang() | Reset() | Raw() | Cut():
                faults.append(entry)
            case answer:
                turns.append(Turn(answer, tuple(faults)))
                faults = []
    if faults:
        turns.append(Turn(faults[-1] if default is None else default, tuple(faults)))
    return turns


def _encode(entry: Entry) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": next(kind for kind, cls in _KINDS.items() if cls is type(entry))}
    for item in dataclasses.fields(entry):
        value = getattr(entry, item.name)
        if value != item.default:
            data[item.name] = _encode_value(value)
    return data


def _encode_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, tuple):
        return [_encode_value(item) for item in value]
    return _encode(value) if isinstance(value, (Turn, *_ANSWERS)) else value


def _decode_all(data: Any, allowed: tuple[type[Any], ...]) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise ValueError(f"expected a list of script entries, not {data!r}")  # noqa: TRY004  (one error for bad files)
    return tuple(_decode(item, allowed) for item in data)


def _decode(data: Any, allowed: tuple[type[Any], ...]) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"expected a script entry, not {data!r}")  # noqa: TRY004  (one error for bad files)
    kind, values = data.get("kind"), {name: value for name, value in data.items() if name != "kind"}
    cls = Call if kind == "finish" else _KINDS.get(str(kind))
    if cls not in allowed:
        raise ValueError(f"a script entry of kind {kind!r} cannot stand here")
    try:
        if kind == "finish":
            return Finish(**values.get("payload", {}))
        return cls(**{name: _decode_value(name, value, inside=cls) for name, value in values.items()})
    except TypeError as error:
        raise ValueError(f"script entry of kind {kind!r}: {error}") from error


def _decode_value(name: str, value: Any, *, inside: type[Any]) -> Any:
    match name, value:
        case "answer", _:
            return _decode(value, _REPLIES if inside is Cut else _ANSWERS)
        case "faults", _:
            return _decode_all(value, _FAULTS)
        case "calls", _:
            return _decode_all(value, (Call,))
        case "usage", [int(), int()]:
            return tuple(value)
        case "body", {"base64": str(encoded)}:
            return base64.b64decode(encoded)
        case _:
            return value
