"""The effects of a run in plain words: the same at every door."""

import re
from collections.abc import Iterator
from typing import Final

from agent_fabric.domain.plural import counted
from agent_fabric.domain.runs.effects import Effects, NotedCall, Outcome

HEADS: Final = {Outcome.REFUSED: "Not done:", Outcome.INCOMPLETE: "Not all of it is done:"}
"""What stands above the list, and the answer."""
SEE_ABOVE: Final = {Outcome.REFUSED: "(Not done: see above.)", Outcome.INCOMPLETE: "(Not all done: see above.)"}
"""What stands below the answer, for who reads only its end."""
BEFORE_ANSWER: Final = "\n\n"
_MAX_NAMED: Final = 12
_NO_SUCH_COMMAND: Final = re.compile(r"no `git (\w+)` succeeded$")


def open_lines(effects: Effects) -> Iterator[str]:
    """Say what was denied, what failed and what is in doubt, a line each."""
    for call in effects.denied:
        yield f"denied by {call.by or 'a rule'}: {_call_line(call)}"
    yield from _rest(effects, "denied")
    for call in effects.failed:
        yield f"failed: {_call_line(call)}"
    yield from _rest(effects, "failed")
    for call in effects.in_doubt:
        yield f"in doubt: {_call_line(call)}"
    yield from _rest(effects, "in_doubt")
    for call in effects.edited:
        yield f"changed by {call.by}: {_call_line(call)}"
    yield from _rest(effects, "edited")


def done_lines(effects: Effects, *, files: bool = True) -> Iterator[str]:
    """Say what left the machine and what changed, a line each; `files`: the changed files, too."""
    for call in effects.left:
        agreed = f", agreed to by {call.by}" if call.by else ""
        to = f" (to {call.to}{agreed})" if call.to not in call.what else f" ({agreed[2:]})" if agreed else ""
        yield f"left this machine: {call.what}{to}"
    yield from _rest(effects, "left")
    changed, more = effects.changed, effects.more
    if changed.files and files:
        yield f"changed: {_names(changed.files, more.get('files', 0))}"
    for commit in changed.commits:
        yield f"committed: {commit}"
    yield from _rest(effects, "commits")
    if changed.machines:
        yield f"changed on machines: {_names(changed.machines, more.get('machines', 0))}"


def warning(effects: Effects | None, outcome: Outcome | None) -> str:
    """Return what contradicts that all is done, as a text of its own; empty: nothing does."""
    if effects is None or not effects.open:
        return ""
    return "\n".join([HEADS[_not_done(outcome)], "", *(f"- {_as_code(line)}" for line in open_lines(effects))])


def mark_answer(answer: str, effects: Effects | None, outcome: Outcome | None) -> str:
    """Return an answer below what contradicts it; as it is, if nothing does."""
    told = warning(effects, outcome)
    if not told or not answer.strip():
        return told or answer
    return f"{told}{BEFORE_ANSWER}{answer}\n\n{SEE_ABOVE[_not_done(outcome)]}"


def doubts_beyond(unproven: str, effects: Effects) -> str:
    """Return why a result is unproven, without what its denied and failed calls tell already: one line for one fact."""
    calls = [call.what for call in effects.open]

    def is_listed(doubt: str) -> bool:
        found = _NO_SUCH_COMMAND.search(doubt)
        return found is not None and any(re.search(rf"\bgit\b.*\b{found[1]}\b", call) for call in calls)

    return "; ".join(doubt for doubt in unproven.split("; ") if not is_listed(doubt))


def marked_line(summary: str, effects: Effects | None, outcome: Outcome | None) -> str:
    """Return a summary behind what contradicts it, for a list."""
    if effects is None or not effects.open:
        return summary
    return f"{HEADS[_not_done(outcome)]} {'; '.join(open_lines(effects))}. It says: {summary}"


def _as_code(line: str) -> str:
    """Return a line in which no markup counts: commands and messages of programs may hold anything."""
    return f"`{line.replace('`', chr(39))}`"


def _not_done(outcome: Outcome | None) -> Outcome:
    return outcome if outcome is not None and outcome in HEADS else Outcome.INCOMPLETE


def _call_line(call: NotedCall) -> str:
    where = f" [run {call.run_id}]" if call.run_id else ""
    return f"{call.what}{f' ({call.why})' if call.why else ''}{where}"


def _rest(effects: Effects, kind: str) -> Iterator[str]:
    if count := effects.more.get(kind, 0):
        yield f"and {counted(count, 'more', 'more')} {kind.replace('_', ' ')}"


def _names(names: tuple[str, ...], more: int) -> str:
    more += max(0, len(names) - _MAX_NAMED)
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more:,} more" if more else "")
