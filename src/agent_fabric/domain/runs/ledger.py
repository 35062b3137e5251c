"""Keeps account of what a run's calls came to, one event at a time; `Effects` is what a result tells of it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.runs.effects import (
    NO_EFFECTS,
    OPEN_KINDS,
    Changed,
    Effects,
    NotedCall,
    first_listed,
    join_effects,
    one_line,
    subject_of,
)
from agent_fabric.domain.tools.specs import FINISH_TASK, SEARCH_ENGINE, Effect, ToolSpec, Trust

if TYPE_CHECKING:  # what reads command lines takes its time, and few runs need it
    from agent_fabric.domain.runs.done_again import Wanted

MAX_KEPT: Final = 100
"""Calls of each kind that are kept to be told; the others are counted."""
DENIED: Final = "Denied"
"""Error type of a call that a person has refused."""
APPROVAL_EXPIRED: Final = "ApprovalExpired"
"""Error type of a call that was not approved in time."""
IN_DOUBT: Final = "InDoubt"
"""Error type of a call that a crash left without a result."""
OUTWARD_RULE: Final = "outward_effect"
POLICY, SANDBOX, NOBODY = "policy", "sandbox", "nobody"
_NO_ANSWER: Final = frozenset({"TimeoutError", "CancelledError"})
"""Error types after which it is unknown what became of a call that had left."""
_MALFORMED: Final = "BadArguments"
_MAY_COMMIT: Final = re.compile(r"\bgit\b.*\b(?:commit|merge|cherry-pick|revert|am|rebase|pull)\b", re.DOTALL)
_COMMITS: Final = frozenset({"commit", "merge", "cherry-pick", "revert", "am", "rebase", "pull"})
_COMMITTED: Final = re.compile(r"^\[[^\]\n]{1,200} ([0-9a-f]{7,40})\] (.{0,200})$", re.MULTILINE)
"""What git prints about a commit that it has made."""
_NOT_OUTSIDE: Final = ("", SEARCH_ENGINE)
_READ_METHODS: Final = frozenset({"", "GET", "HEAD", "OPTIONS"})

Kind = Literal["denied", "failed", "in_doubt", "edited"]


class _Begun(NamedTuple):
    seq: int
    body: ToolCalled
    spec: ToolSpec | None


class _Open(NamedTuple):
    kind: Kind
    call: NotedCall
    wanted: "Wanted | None"


@dataclass(slots=True)
class Ledger:
    """What became of the calls of a run so far."""

    under_way: dict[tuple[LaneId | None, CallId], _Begun] = field(default_factory=dict)
    open: dict[int, _Open] = field(default_factory=dict)
    """Calls that failed, or whose outcome is unknown, by the event that says so."""
    left: list[NotedCall] = field(default_factory=list)
    files: dict[str, None] = field(default_factory=dict)
    """Files that steps of a workflow wrote."""
    commits: list[str] = field(default_factory=list)
    machines: dict[str, None] = field(default_factory=dict)
    below: list[tuple[RunId, Effects]] = field(default_factory=list)
    """What runs did that worked for this one."""
    more: dict[str, int] = field(default_factory=dict)

    def begin(self, lane: LaneId | None, seq: int, body: ToolCalled, spec: ToolSpec | None = None) -> None:
        """A call is about to be made."""
        if body.tool != FINISH_TASK:
            self.under_way[lane, body.call_id] = _Begun(seq, body, spec)

    def end(
        self,
        lane: LaneId | None,
        seq: int,
        body: ToolReturned | ToolErred,
        asked: ApprovalRequested | None = None,
        decided: ApprovalDecided | None = None,
    ) -> None:
        """A call of a specialist has come to an end."""
        begun = self.under_way.pop((lane, body.call_id), None)
        if begun is None:
            return
        if isinstance(body, ToolReturned):
            if body.repeated:
                return
            if "command" in begun.body.args:
                self._note_commits(begun, body)
            problem = problem_of(body)
            if problem is None:
                if self.open:
                    self._note_success(begun, body)
                self._note_left(begun, body, seq)
                if decided is not None:
                    self._note_edit(begun, seq, asked, decided)
                return
            kind: Kind = "in_doubt" if body.result.get("status") == "in_doubt" else "failed"
            by, no_answer = "", bool(body.result.get("timed_out"))
        else:
            problem, no_answer = body.error_message, body.error_type in _NO_ANSWER
            kind, by = _refusal(body, decided)
        to = goes_to(begun.body, begun.spec, asked)
        if kind == "failed" and to in _NOT_OUTSIDE and _only_looked(begun):
            return
        if kind == "failed" and to and no_answer:
            kind, problem = "in_doubt", f"{problem}; it may have happened"
        outside = begun.body.outside or (asked.outside if asked is not None else None)
        noted = NotedCall(
            what=subject_of(body.tool, begun.body.args, outside),
            tool=body.tool,
            why=one_line(_reason(problem, decided) if kind == "denied" else problem),
            by=by,
            to=to,
            seq=seq,
        )
        malformed = isinstance(body, ToolErred) and body.error_type == _MALFORMED
        self._keep(kind, noted, _wanted_call(begun, malformed=malformed))

    def end_step_call(
        self,
        lane: LaneId | None,
        seq: int,
        body: ToolReturned | ToolErred,
        asked: ApprovalRequested | None = None,
        decided: ApprovalDecided | None = None,
    ) -> None:
        """A call of a workflow's step has ended; how the step ends tells whether it failed."""
        begun = self.under_way.pop((lane, body.call_id), None)
        if begun is None or isinstance(body, ToolErred):
            return
        self.files.update(dict.fromkeys(body.wrote[:MAX_KEPT]))
        self._note_commits(begun, body)
        if problem_of(body) is None:
            self._note_left(begun, body, seq)
        self._note_edit(begun, seq, asked, decided)

    def end_step(self, kind: Kind, noted: NotedCall) -> None:
        """A step of a workflow was denied, has failed for good, or was given up in doubt."""
        self._keep(kind, noted, None)

    def end_child(self, run_id: RunId, effects: Effects | None) -> None:
        """A run that worked for this one has ended."""
        if effects:
            self.below.append((run_id, effects))

    def effects(self, lane_files: Iterable[str], *, stopped: bool) -> Effects:
        """Return what there is to tell; `stopped`: no process drives the run, so what is under way is in doubt."""
        if not (self.open or self.left or self.below or self.commits or self.under_way or self.machines or self.files):
            files = tuple(lane_files)
            if not files:
                return NO_EFFECTS
        else:
            files = (*lane_files, *self.files)
        more = dict(self.more)
        calls: dict[str, list[NotedCall]] = {kind: [] for kind in OPEN_KINDS}
        for each in self.open.values():
            calls[each.kind].append(each.call)
        if stopped:
            calls["in_doubt"] += [_in_flight(begun) for begun in self.under_way.values() if not _only_looked(begun)]
        listed = {kind: first_listed(found, kind, more) for kind, found in calls.items()}
        own = Effects(
            **listed,
            left=first_listed(self.left, "left", more),
            changed=Changed(
                files=first_listed(dict.fromkeys(files), "files", more),
                commits=first_listed(self.commits, "commits", more),
                machines=first_listed(self.machines, "machines", more),
            ),
            more=more,
        )
        return join_effects(own, self.below) if self.below else own

    def _note_success(self, begun: _Begun, body: ToolReturned) -> None:
        call = begun.body
        for at, each in [*self.open.items()]:
            if each.wanted is not None and each.wanted.done_by(call.tool, call.args, body.wrote):
                del self.open[at]

    def _note_left(self, begun: _Begun, body: ToolReturned, seq: int) -> None:
        call, spec = begun.body, begun.spec
        if "not_run" in body.result or not (to := goes_to(call, spec, None, parse=False)):
            return
        node = call.args.get("node")
        if isinstance(node, str) and node and (body.changed or spec is None):
            self.machines[node] = None
        noted = NotedCall(
            what=subject_of(call.tool, call.args, call.outside), tool=call.tool, by=call.approved_by, to=to, seq=seq
        )
        if call.outside is None and isinstance(call.args.get("command"), str) and not node:
            from agent_fabric.domain.runs.done_again import hides_failure  # noqa: PLC0415 - few commands leave so

            if hides_failure(str(call.args["command"])):
                why = "the line ends well whether or not it succeeds"
                self._keep("in_doubt", replace(noted, why=why), _wanted_call(begun))
                return
        if len(self.left) < MAX_KEPT:
            self.left.append(noted)
        else:
            self.more["left"] = self.more.get("left", 0) + 1

    def _note_edit(
        self, begun: _Begun, seq: int, asked: ApprovalRequested | None, decided: ApprovalDecided | None
    ) -> None:
        if asked is None or decided is None or decided.args is None or dict(decided.args) == dict(asked.args):
            return
        call = begun.body
        noted = NotedCall(
            what=subject_of(asked.tool, asked.args),
            tool=asked.tool,
            why=f"it ran as: {subject_of(call.tool, call.args)}",
            by=decided.by,
            seq=seq,
        )
        self._keep("edited", noted, _wanted_call(begun._replace(body=replace(call, args=asked.args))))

    def _note_commits(self, begun: _Begun, body: ToolReturned) -> None:
        command = begun.body.args.get("command")
        if begun.body.args.get("node") or not isinstance(command, str) or _MAY_COMMIT.search(command) is None:
            return
        from agent_fabric.domain.evidence.commands import git_actions  # noqa: PLC0415 - few commands are about git

        if not git_actions(command) & _COMMITS:
            return
        printed = str(body.result.get("stdout") or "")
        found = [f"{made[1]} {made[2]}" for made in _COMMITTED.finditer(printed)]
        if not found and problem_of(body) is None and "up to date" not in printed:
            found = [one_line(command)]
        room = MAX_KEPT - len(self.commits)
        self.commits += found[:room]
        if len(found) > room:
            self.more["commits"] = self.more.get("commits", 0) + len(found) - room

    def _keep(self, kind: Kind, noted: NotedCall, wanted: "Wanted | None") -> None:
        if sum(each.kind == kind for each in self.open.values()) < MAX_KEPT:
            self.open[noted.seq] = _Open(kind, noted, wanted)
        else:
            self.more[kind] = self.more.get(kind, 0) + 1


def problem_of(body: ToolReturned) -> str | None:
    """Say how a call failed that was carried out; None: it did not."""
    result = body.result
    if result.get("timed_out"):
        return "it took too long and was ended"
    code = result.get("exit_code")
    if isinstance(code, int) and code != 0:
        said = [line for key in ("stderr", "stdout") for line in _last_line(result.get(key))]
        return f"exit code {code}{f': {said[0]}' if said else ''}"
    if result.get("is_error") is True:
        return str(result.get("text") or "it answered with an error")
    if result.get("status") == "in_doubt":
        return str(result.get("error") or "nobody knows what became of it")
    return None


def _last_line(text: Any) -> list[str]:
    return str(text or "")[-2_000:].strip().splitlines()[-1:]


def _refusal(body: ToolErred, decided: ApprovalDecided | None) -> tuple[Kind, str]:
    """Return what a call came to that was not carried out, and who kept it from being."""
    if body.error_type == DENIED:
        return "denied", decided.by if decided is not None else "a person"
    if body.error_type == APPROVAL_EXPIRED:
        return "denied", NOBODY
    if body.rule:
        return "denied", POLICY
    if body.error_type == "PermissionError":
        return "denied", SANDBOX
    return ("in_doubt" if body.error_type == IN_DOUBT else "failed"), ""


def _reason(problem: str, decided: ApprovalDecided | None) -> str:
    """Return why a call was denied: a person's own words, where there are any."""
    if decided is None:
        return problem
    return "no answer came in time" if decided.decision.value == "expired" else decided.reason


def goes_to(called: ToolCalled, spec: ToolSpec | None, asked: ApprovalRequested | None, *, parse: bool = True) -> str:
    """Say where a call acts outside this machine; empty: nowhere. Only `parse` reads what a command line says."""
    if called.leaves:
        return called.leaves
    outside = called.outside or (asked.outside if asked is not None else None)
    if outside is not None:
        return outside.goes_to or outside.words[0]
    args = called.args
    if spec is not None and _acts_outside(spec):
        if spec.method_argument and only_reads_address(args):
            return ""
        return str(spec.sends_to or args.get("node") or args.get(spec.url_argument) or spec.server or spec.name)
    if asked is not None and asked.rule == OUTWARD_RULE:
        return asked.destination or asked.subject
    command = args.get("command")
    if not parse or not isinstance(command, str):
        return ""
    from agent_fabric.domain.runs.done_again import outward_effect_of  # noqa: PLC0415 - only for what came to nothing

    return outward_effect_of(command)


def _acts_outside(spec: ToolSpec) -> bool:
    return spec.effect is Effect.LEAVES_SANDBOX or (bool(spec.sends_to) and spec.effect is not Effect.READS)


def only_reads_address(args: Mapping[str, Any]) -> bool:
    """Tell whether the arguments are those of a request that sends nothing."""
    method = str(args.get("method") or "").upper()
    return "url" in args and method in _READ_METHODS and not any(args.get(key) for key in ("json", "body", "form"))


def _only_looked(begun: _Begun) -> bool:
    """Tell whether a call could change nothing, so that its failure leaves nothing undone."""
    spec = begun.spec
    if spec is not None and (
        spec.effect is Effect.READS
        or (spec.trust is Trust.WEB and spec.effect is Effect.IDEMPOTENT)  # pages and searches: the next one may do
        or (spec.method_argument and only_reads_address(begun.body.args))
    ):
        return True
    command = begun.body.args.get("command")
    if not isinstance(command, str) or begun.body.args.get("node"):
        return False
    from agent_fabric.domain.runs.done_again import only_looks  # noqa: PLC0415 - as above

    return only_looks(command)


def _wanted_call(begun: _Begun, *, malformed: bool = False) -> "Wanted":
    from agent_fabric.domain.runs.done_again import wanted_by  # noqa: PLC0415 - as above

    call, spec = begun.body, begun.spec
    path = next((str(call.args[name]) for name in (spec.path_arguments if spec else ()) if call.args.get(name)), "")
    return wanted_by(call.tool, call.args, path=path, loose=malformed)


def _in_flight(begun: _Begun) -> NotedCall:
    call = begun.body
    return NotedCall(
        what=subject_of(call.tool, call.args, call.outside),
        tool=call.tool,
        why="the run was stopped during it; it may have happened",
        to=goes_to(call, begun.spec, None),
        seq=begun.seq,
    )
