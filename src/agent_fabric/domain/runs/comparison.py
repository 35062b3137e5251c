"""Two runs side by side: where they part, and how each went on."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import (
    Event,
    ModelAnswered,
    ModelCalled,
    ModelFailed,
    PackStarted,
    RunCreated,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.runs.answer import answer_in
from agent_fabric.domain.runs.changes import FileChange
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.runs.unified_diff import FileDiff

SAID: Final = "said"
CALLED: Final = "called"
GOT: Final = "got"
ONLY: Final = "only"
"""How a pair of turns differs: in the model's words, in its calls, in what came back, or one run has no such turn."""
MAX_ALIGNED: Final = 3_000
"""Turns of a lane behind the common beginning that are aligned; of longer ones the n-th stands beside the n-th."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCall:
    """A call of a turn, and what came back."""

    tool: str
    arguments: str
    """As JSON with sorted keys, where the model has written JSON."""
    result: str = ""
    """What it returned, as JSON, or the error; empty: nothing came back."""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of a model, with the calls that it asked for."""

    seq: int
    """The event of the answer."""
    content: str
    calls: tuple[ComparedCall, ...] = ()
    tokens: int = 0
    duration_s: float = 0.0
    """Of the model and of its calls."""
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPair:
    """The same turn of two runs, as far as there is one."""

    lane: str
    a: Turn | None
    b: Turn | None
    differs: tuple[str, ...] = ()
    """In what: `said`, `called`, `got`; `only`: one of the runs has no such turn. Empty: they are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One of the two, summed up."""

    run_id: RunId
    status: RunStatus
    outcome: str
    proof: str
    """The kind of proof that bears the result out; `none`: nothing does."""
    model: str
    turns: int
    calls: int
    failed_calls: int
    tokens: int
    duration_s: float
    cost: float | None
    answer: str
    """The summary of its result, or its error."""


class Setting(NamedTuple):
    """Something that the two began with and that is not the same."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """A path that the two left in different states."""

    path: str
    in_a: bool
    """Whether the first run left something there."""
    in_b: bool
    added: int = 0
    removed: int = 0
    binary: bool = False
    """The content is not shown: it is no text, too large, or not known any more."""
    diff: str | None = None
    """From the first to the second, unified; null: there was no room for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs side by side."""

    a: ComparedRun
    b: ComparedRun
    settings: tuple[Setting, ...]
    """What they began with and that differs."""
    pairs: tuple[TurnPair, ...]
    """Their turns, lane by lane."""
    parts_at: int | None
    """The first pair that differs, counted from 0; null: none does."""
    files: tuple[FileDifference, ...]
    same_files: int
    """Files that both changed and left the same."""

    @property
    def same(self) -> bool:
        """Whether both did the same and left the same."""
        return self.parts_at is None and not self.files


def pair_turns(a: Iterable[Event], b: Iterable[Event]) -> tuple[TurnPair, ...]:
    """Return the turns of two runs beside each other: equal ones first, then as they fit best."""
    ours, theirs = _turns_of(a), _turns_of(b)
    return tuple(
        TurnPair(lane=lane, a=one, b=other, differs=_differences(one, other))
        for lane in dict.fromkeys((*ours, *theirs))
        for one, other in _align(ours.get(lane, ()), theirs.get(lane, ()))
    )


def first_difference(pairs: Sequence[TurnPair]) -> int | None:
    """Return the first pair that differs."""
    return next((number for number, pair in enumerate(pairs) if pair.differs), None)


def settings_that_differ(a: Sequence[Event], b: Sequence[Event]) -> tuple[Setting, ...]:
    """Return what two runs began with and that is not the same."""
    ours, theirs = _settings_of(a), _settings_of(b)
    return tuple(
        Setting(name, ours.get(name, ""), theirs.get(name, ""))
        for name in dict.fromkeys((*ours, *theirs))
        if ours.get(name, "") != theirs.get(name, "")
    )


def sum_up(result: RunResult, turns: Sequence[Turn]) -> ComparedRun:
    """Return what a comparison says of one of its runs."""
    calls = [call for turn in turns for call in turn.calls]
    return ComparedRun(
        run_id=result.run_id,
        status=result.status,
        outcome=result.outcome.value if result.outcome else "",
        proof=result.proof.kind.value,
        model=result.model,
        turns=len(turns),
        calls=len(calls),
        failed_calls=sum(call.failed for call in calls),
        tokens=result.usage.prompt_tokens + result.usage.completion_tokens,
        duration_s=result.duration_s,
        cost=result.cost,
        answer=_answer_of(result),
    )


def _answer_of(result: RunResult) -> str:
    if result.error is not None:
        return result.error.message
    return answer_in(result.payload) if result.payload else ""


def changes_between(a: Iterable[FileChange], b: Iterable[FileChange]) -> tuple[list[FileChange], int]:
    """Return the paths that two runs left in different states, from the first to the second, and how many are the same.

    A run that did not touch a path has it as the other one found it.
    """
    ours, theirs = {each.path: each for each in a}, {each.path: each for each in b}
    different, same = list[FileChange](), 0
    for path in sorted({*ours, *theirs}):
        left = ours[path].after if path in ours else theirs[path].before
        right = theirs[path].after if path in theirs else ours[path].before
        if left is None and right is None:
            continue
        if left is not None and right is not None and left.kind is right.kind and left.same_as(right):
            same += 1
        else:
            different.append(FileChange(path=path, before=left, after=right))
    return different, same


def file_difference(change: FileChange, compared: FileDiff | None) -> FileDifference:
    """Return a path as a comparison shows it; None: there is no room for its content."""
    found = FileDifference(path=change.path, in_a=change.before is not None, in_b=change.after is not None)
    if compared is None:
        return found
    return FileDifference(
        path=found.path,
        in_a=found.in_a,
        in_b=found.in_b,
        added=compared.added,
        removed=compared.removed,
        binary=compared.binary,
        diff=compared.text.decode(errors="replace"),
    )


def _settings_of(events: Sequence[Event]) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in events:
        match event.body:
            case RunCreated() as body:
                found |= {"task": body.prompt, "version": body.fabric_version, "policy": body.policy_profile}
                found |= {"sandbox": body.sandbox, "network": "allowed" if body.network_allowed else "not allowed"}
            case PackStarted() as body:
                of = f" of {body.specialist_id}"
                found[f"model{of}"] = body.model.model
                found[f"system prompt{of}"] = body.system_prompt
                found[f"tools{of}"] = ", ".join(tool.name for tool in body.tools)
            case _:
                pass
    return found


class _Open:
    """A turn whose calls may still come back."""

    def __init__(self, seq: int, body: ModelAnswered) -> None:
        self.seq, self.body = seq, body
        self.asked = {call.call_id: (call.tool, _as_json(call.arguments)) for call in body.tool_calls}
        self.came_back: dict[CallId, tuple[str, bool]] = {}
        self.duration_s = body.duration_s

    def turn(self) -> Turn:
        calls = tuple(
            ComparedCall(tool=tool, arguments=arguments, result=result, failed=failed)
            for call_id, (tool, arguments) in self.asked.items()
            for result, failed in [self.came_back.get(call_id, ("", False))]
        )
        usage = self.body.usage
        return Turn(
            seq=self.seq,
            content=self.body.content,
            calls=calls,
            tokens=usage.prompt_tokens + usage.completion_tokens,
            duration_s=self.duration_s,
            cost=self.body.cost,
        )


def _turns_of(events: Iterable[Event]) -> dict[str, tuple[Turn, ...]]:
    """Return the turns of each lane; questions that are no turn of it, such as routing, are left out."""
    lanes: dict[str, list[_Open]] = {}
    asked: dict[str, str] = {}
    for event in events:
        lane = event.lane or ""
        turns = lanes.get(lane)
        match event.body:
            case ModelCalled() as body:
                asked[lane] = body.purpose
            case ModelAnswered() as body if asked.get(lane, "turn") == "turn":
                lanes.setdefault(lane, []).append(_Open(event.seq, body))
            case ToolCalled() as body if turns and body.call_id in turns[-1].asked:
                turns[-1].asked[body.call_id] = (body.tool, _as_json(body.args))
            case ToolReturned() as body if turns:
                turns[-1].came_back[body.call_id] = (_as_json(body.result), False)
                turns[-1].duration_s += body.duration_s
            case ToolErred() as body if turns:
                turns[-1].came_back[body.call_id] = (f"{body.error_type}: {body.error_message}", True)
                turns[-1].duration_s += body.duration_s
            case ModelFailed() as body if turns:
                turns[-1].duration_s += body.duration_s
            case _:
                pass
    return {lane: tuple(each.turn() for each in turns) for lane, turns in lanes.items()}


def _as_json(value: str | Mapping[str, Any]) -> str:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return str(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _align(a: Sequence[Turn], b: Sequence[Turn]) -> Iterator[tuple[Turn | None, Turn | None]]:
    common = 0
    while common < min(len(a), len(b)) and not _differences(a[common], b[common]):
        common += 1
    yield from zip(a[:common], b[:common], strict=True)
    a, b = a[common:], b[common:]
    if max(len(a), len(b)) > MAX_ALIGNED:
        yield from zip_longest(a, b)
        return
    # What was called tells turns from each other; words and results differ from one answer to the next.
    matcher = difflib.SequenceMatcher(None, [_calls(turn) for turn in a], [_calls(turn) for turn in b], autojunk=False)
    for _, first_a, last_a, first_b, last_b in matcher.get_opcodes():
        yield from zip_longest(a[first_a:last_a], b[first_b:last_b])


def _calls(turn: Turn) -> tuple[tuple[str, str], ...]:
    return tuple((call.tool, call.arguments) for call in turn.calls)


def _differences(a: Turn | None, b: Turn | None) -> tuple[str, ...]:
    if a is None or b is None:
        return (ONLY,)
    if _calls(a) != _calls(b):
        return (SAID, CALLED) if a.content != b.content else (CALLED,)
    got = [(call.result, call.failed) for call in a.calls] != [(call.result, call.failed) for call in b.calls]
    return (*([SAID] if a.content != b.content else []), *([GOT] if got else []))
