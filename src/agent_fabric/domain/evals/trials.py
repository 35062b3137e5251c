"""The trials of an evaluation: which there are, and what came of each."""

import hashlib
import uuid
from collections.abc import Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evals.definition import EvalDefinition
from agent_fabric.domain.evidence.proofs import UNPROVEN
from agent_fabric.domain.ids import EvalId, RunId
from agent_fabric.domain.runs.effects import Outcome, open_lines
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.tools.findings import ProofKind

MAX_REASON_CHARS: Final = 2_000
MAX_NOT_DONE: Final = 5
"""Calls of a trial that are told."""


class Arm(NamedTuple):
    """What a case is tried on."""

    model: str
    pack: str = ""
    """Empty: recruitment chooses."""

    @property
    def label(self) -> str:
        """How tables call it."""
        return f"{self.model} · {self.pack}" if self.pack else self.model


class Trial(NamedTuple):
    """One attempt at one case."""

    case_id: str
    arm: Arm
    attempt: int
    """Counted from 1 to k."""


class Grade(StrEnum):
    """What the check said."""

    RIGHT = "right"
    WRONG = "wrong"
    FAILED = "failed"
    """It could not be tried or checked. Says nothing about the model, so no share counts it."""


class Evidence(StrEnum):
    """What a run has shown for its result."""

    PROVEN = "proven"
    """It completed, and tests, a build or its sources bear it out."""
    RUNS = "runs"
    """It completed, and a program ran: that shows no more than that it runs."""
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """What came of a trial."""

    trial: Trial
    run_id: RunId
    grade: Grade
    evidence: Evidence = Evidence.UNPROVEN
    sent_back: bool = False
    """The run's result was sent back once, because something in it did not hold."""
    already_right: bool | None = None
    """The check was right on the files of the case before anything was done, so it says nothing; None: not known."""
    outcome: str = ""
    """What a run that completed came to: `done`, `incomplete` or `refused`; empty: it did not, or is not known."""
    not_done: tuple[str, ...] = ()
    """What was denied, failed or is in doubt though the run completed, in words."""
    reason: str = ""
    """Why it could not be tried; or the end of what a check printed that said no."""
    status: RunStatus
    """How the run ended."""
    seconds: float = 0.0
    """Time in model and tool calls."""
    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    retry: int = 0
    """How often the trial was begun anew because it could not be tried."""


def arms_of(definition: EvalDefinition) -> tuple[Arm, ...]:
    """Return what each case is tried on. The models of a definition that is run are filled in."""
    return tuple(Arm(model, pack) for model in definition.models for pack in definition.packs or ("",))


def trials_of(definition: EvalDefinition) -> tuple[Trial, ...]:
    """Return all trials in the order in which they are begun: model by model, so that a local one is loaded once."""
    return tuple(
        Trial(case.case_id, arm, attempt)
        for arm in arms_of(definition)
        for attempt in range(1, definition.k + 1)
        for case in definition.cases
    )


def trial_run_id(eval_id: EvalId, trial: Trial, retry: int = 0) -> RunId:
    """Return the id of a trial's run. It is the same after a crash, so that a trial is never begun twice."""
    key = "\0".join((eval_id, trial.case_id, *trial.arm, str(trial.attempt), str(retry)))
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
    return RunId(str(uuid.UUID(bytes=digest[:16], version=5)))


_NOT_THE_MODEL: Final = frozenset(
    {
        *("model_unreachable", "model_busy", "model_refused", "model_timed_out", "offline", "weights_unavailable"),
        *("pack_unknown", "pack_broken", "config_invalid", "extra_missing", "tool_server_unavailable"),
        *("store_unavailable", "disk_full", "run_undrivable", "run_key_missing", "internal_error"),
    }
)
"""Codes of errors that say nothing about what a model can do."""


def why_not_tried(result: RunResult) -> str:
    """Say why a run says nothing about its model; empty: its workspace can be judged."""
    match result.status:
        case RunStatus.COMPLETED:
            return ""
        case RunStatus.CANCELLED:
            return "the run was cancelled"
        case RunStatus.FAILED:
            error = result.error
            return f"{error.code}: {error.message}" if error is not None and error.code in _NOT_THE_MODEL else ""
        case RunStatus.WAITING | RunStatus.RUNNING | RunStatus.INTERRUPTED:
            return f"the run did not end: it is {result.status.value}"


def evidence_of(result: RunResult) -> Evidence:
    """Say what a run has shown for its result."""
    if result.status is not RunStatus.COMPLETED or not result.proof or result.payload.get(UNPROVEN):
        return Evidence.UNPROVEN
    if result.outcome is Outcome.REFUSED:
        return Evidence.UNPROVEN  # what the task is about was not done, whatever else was shown
    return Evidence.RUNS if result.proof.kind is ProofKind.PROGRAM else Evidence.PROVEN


def outcome_of(trial: Trial, result: RunResult, grade: Grade, *, reason: str = "", retry: int = 0) -> TrialOutcome:
    """Return what came of a trial whose run has ended."""
    return TrialOutcome(
        trial=trial,
        run_id=result.run_id,
        grade=grade,
        evidence=evidence_of(result),
        sent_back=result.sent_back,
        outcome=result.outcome.value if result.outcome is not None else "",
        not_done=tuple(islice(open_lines(result.effects), MAX_NOT_DONE)) if result.outcome is not None else (),
        reason=reason[:MAX_REASON_CHARS],
        status=result.status,
        seconds=result.duration_s,
        steps=result.steps,
        prompt_tokens=result.usage.prompt_tokens,
        cached_tokens=result.usage.cached_tokens,
        completion_tokens=result.usage.completion_tokens,
        cost=result.cost,
        retry=retry,
    )


def never_run(trial: Trial, run_id: RunId, reason: str, *, retry: int = 0) -> TrialOutcome:
    """Return the outcome of a trial for which there is no run."""
    return TrialOutcome(
        trial=trial,
        run_id=run_id,
        grade=Grade.FAILED,
        evidence=Evidence.UNPROVEN,
        reason=reason[:MAX_REASON_CHARS],
        status=RunStatus.FAILED,
        retry=retry,
    )


def pending(definition: EvalDefinition, outcomes: Sequence[TrialOutcome]) -> list[Trial]:
    """Return the trials that have no outcome yet, in their order."""
    done = {each.trial for each in outcomes}
    return [trial for trial in trials_of(definition) if trial not in done]
