"""What a run did to the world, and what it was kept from doing: told by its events, never by its words.

And how that is said in plain words: the same at every door.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.policy.outside_plan import Outside

T = TypeVar("T")
MAX_LISTED: Final = 20
"""Calls of each kind, and paths, that are listed; of the others there is a number."""
MAX_CHARS: Final = 300
"""Of what a call was about, and of why it came to nothing."""


class Outcome(StrEnum):
    """What a completed run came to."""

    DONE = "done"
    INCOMPLETE = "incomplete"
    """A call was denied, failed and was not done again, or is in doubt; it was not what the task is about."""
    REFUSED = "refused"
    """What the task is about was denied, or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedCall:
    """One call that a result has to tell of."""

    what: str
    """The command, the address or the arguments, in one line."""
    tool: str = ""
    why: str = ""
    """Why it was denied or failed, or is in doubt."""
    by: str = ""
    """Who denied it, or agreed to it: a person, `policy`, `sandbox`, or no one, if no answer came in time."""
    to: str = ""
    """Where it goes outside this machine; empty: nowhere."""
    seq: int = -1
    """The event that says so."""
    run_id: RunId | None = None
    """The run that made it, if a run below made it; null: this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What is different since."""

    files: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    """Commits in a repository, with the beginning of their hash where git has said it."""
    machines: tuple[str, ...] = ()
    """Machines of the fleet on which something was changed."""

    def __bool__(self) -> bool:
        """Tell whether anything is."""
        return bool(self.files or self.commits or self.machines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What a result has to tell, whatever the model says."""

    denied: tuple[NotedCall, ...] = ()
    """Calls that a person, the policy or the sandbox refused, and that were not made later."""
    failed: tuple[NotedCall, ...] = ()
    """Calls that failed and were not done again successfully; looking is no call."""
    in_doubt: tuple[NotedCall, ...] = ()
    """Calls that may have happened."""
    edited: tuple[NotedCall, ...] = ()
    """Calls that a person changed before they ran: `what` was asked for, `why` has what ran instead."""
    left: tuple[NotedCall, ...] = ()
    """Calls that acted outside this machine: pushes, messages, commands on machines, requests that send."""
    changed: Changed = field(default_factory=Changed)
    more: Mapping[str, int] = field(default_factory=dict)
    """How many of a kind are not listed."""

    @property
    def open(self) -> tuple[NotedCall, ...]:
        """What contradicts that all is done."""
        return (*self.denied, *self.failed, *self.in_doubt, *self.edited)

    def __bool__(self) -> bool:
        """Tell whether there is anything to tell."""
        return bool(self.open or self.left or self.changed)


NO_EFFECTS: Final = Effects()
OPEN_KINDS: Final = ("denied", "failed", "in_doubt", "edited")
"""Of calls that contradict that all is done."""
_LISTS: Final = (*OPEN_KINDS, "left")


def join_effects(own: Effects, below: Iterable[tuple[RunId, Effects]]) -> Effects:
    """Return the effects of a run with those of the runs that worked for it."""
    lists: dict[str, list[NotedCall]] = {name: [*getattr(own, name)] for name in _LISTS}
    more = dict(own.more)
    files, commits, machines = [*own.changed.files], [*own.changed.commits], [*own.changed.machines]
    for run_id, effects in below:
        for name, calls in lists.items():
            calls += [each if each.run_id else replace(each, run_id=run_id) for each in getattr(effects, name)]
        for name, count in effects.more.items():
            more[name] = more.get(name, 0) + count
        files += effects.changed.files
        commits += effects.changed.commits
        machines += effects.changed.machines
    shown = {name: first_listed(calls, name, more) for name, calls in lists.items()}
    changed = Changed(
        files=first_listed(dict.fromkeys(files), "files", more),
        commits=first_listed(commits, "commits", more),
        machines=first_listed(dict.fromkeys(machines), "machines", more),
    )
    return Effects(**shown, changed=changed, more=more)


def first_listed(items: Iterable[T], name: str, more: dict[str, int]) -> tuple[T, ...]:
    """Return as many as are listed, and count the others under a name."""
    found = tuple(items)
    if len(found) > MAX_LISTED:
        more[name] = more.get(name, 0) + len(found) - MAX_LISTED
    return found[:MAX_LISTED]


def subject_of(tool: str, args: Mapping[str, Any], outside: Outside | None = None) -> str:
    """Say in one line what a call is about: its command, its address, or its arguments."""
    if outside is not None:
        return one_line(" ".join(outside.words))
    inner = args.get("arguments")
    args = {**args, **inner} if isinstance(inner, Mapping) else args
    named = [str(args[key]) for key in ("method", "command", "url", "path", "to", "subject") if args.get(key)]
    about = " ".join(named) or ", ".join(f"{key}={value}" for key, value in list(args.items())[:4])
    node = args.get("node")
    if isinstance(node, str) and node:
        return one_line(f"{node}: {about if named else tool}")
    return one_line(about if "command" in args else f"{tool} {about}")


def one_line(text: str, limit: int = MAX_CHARS) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[: limit - 1]}…"


HEADS: Final = {Outcome.REFUSED: "Not done:", Outcome.INCOMPLETE: "Not all of it is done:"}
"""What stands above the list, and the answer."""
SEE_ABOVE: Final = {Outcome.REFUSED: "(Not done: see above.)", Outcome.INCOMPLETE: "(Not all done: see above.)"}
"""What stands below the answer, for who reads only its end."""
BEFORE_ANSWER: Final = "\n\n"
_MAX_NAMED: Final = 12
_NO_SUCH_COMMAND: Final = re.compile(r"no `git (\w+)` succeeded$")


def open_lines(effects: Effects) -> Iterator[str]:
    """Say what was denied, what failed and what is in doubt, a line each."""
    for kind in OPEN_KINDS:
        for call in getattr(effects, kind):
            by = {"denied": f"denied by {call.by or 'a rule'}", "edited": f"changed by {call.by}"}
            yield f"{by.get(kind, kind.replace('_', ' '))}: {_call_line(call)}"
        yield from _rest(effects, kind)


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
        yield f"and {count_of(count, 'more', 'more')} {kind.replace('_', ' ')}"


def _names(names: tuple[str, ...], more: int) -> str:
    more += max(0, len(names) - _MAX_NAMED)
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more:,} more" if more else "")
