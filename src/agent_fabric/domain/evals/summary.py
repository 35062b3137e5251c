"""What an evaluation has shown so far."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evals.comparison import Comparison, compare
from agent_fabric.domain.evals.definition import EvalCase, EvalDefinition
from agent_fabric.domain.evals.intervals import Estimate, Tally, share_right
from agent_fabric.domain.evals.trials import Arm, Evidence, Grade, TrialOutcome, arms_of
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Visibility
from agent_fabric.domain.ids import EvalId
from agent_fabric.domain.runs.task import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Eval:
    """An evaluation that was started."""

    eval_id: EvalId
    definition: EvalDefinition
    """As it was when it was started; later changes of the file have no effect."""
    status: RunStatus
    """Completed when every trial has an outcome; one that no process works on counts as interrupted."""
    created_at: float
    updated_at: float
    owner: str = LOCAL_OWNER
    visibility: Visibility = Visibility.TEAM
    scopes: tuple[str, ...] = ()
    """What its owner may do, and so its trials; empty: it is not limited."""
    requested_by: str = ""
    """Who asked for it over the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalFacts:
    """What is known about an evaluation beside its results."""

    eval_id: EvalId
    name: str
    description: str
    status: RunStatus
    created_at: float
    updated_at: float
    owner: str
    visibility: Visibility
    models: tuple[str, ...]
    packs: tuple[str, ...]
    k: int
    at_once: int

    @classmethod
    def of(cls, evaluation: Eval) -> Self:
        """Return the facts of an evaluation."""
        definition = evaluation.definition
        return cls(
            eval_id=evaluation.eval_id,
            name=definition.name,
            description=definition.description,
            status=evaluation.status,
            created_at=evaluation.created_at,
            updated_at=evaluation.updated_at,
            owner=evaluation.owner,
            visibility=evaluation.visibility,
            models=definition.models,
            packs=definition.packs,
            k=definition.k,
            at_once=definition.at_once,
        )


class CaseResult(NamedTuple):
    """How often one case was right."""

    case_id: str
    digest: str
    """Hash of the case: results are comparable where it is the same."""
    right: int
    of: int
    """Trials that count."""
    already_right: bool = False
    """The check was right before anything was done, so it says nothing."""

    @property
    def tally(self) -> Tally:
        """The figures alone."""
        return Tally(self.right, self.of)


class ProofTable(NamedTuple):
    """Right and wrong against what was shown for it."""

    right_proven: int = 0
    right_runs: int = 0
    """A program ran, which shows no more than that it runs."""
    right_unproven: int = 0
    wrong_proven: int = 0
    """Claimed with a proof, and wrong all the same: the worst kind."""
    wrong_runs: int = 0
    wrong_unproven: int = 0
    right_sent_back: int = 0
    """Of all that are right, those that were sent back once: needlessly, unless they became right by it."""
    wrong_sent_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """What came of all trials with one model and pack."""

    arm: Arm
    table: ProofTable
    failed: int
    """Trials that could not be tried or checked; no share counts them."""
    pending: int
    """Trials that have not ended."""
    share: Estimate | None
    """The share that is right, each case counting alike; None: nothing was tried."""
    any_right: float | None
    """Share of cases with at least one right trial, of those that were tried k times (pass@k)."""
    all_right: float | None
    """Share of cases in which every trial was right, of those that were tried k times (pass^k)."""
    seconds: float
    """Mean time of a trial in model and tool calls."""
    total_seconds: float
    steps: float
    """Mean model answers of a trial."""
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float | None
    cases: tuple[CaseResult, ...]

    @property
    def right(self) -> int:
        """Trials that were right."""
        return self.table.right_proven + self.table.right_runs + self.table.right_unproven

    @property
    def wrong(self) -> int:
        """Trials that were wrong."""
        return self.table.wrong_proven + self.table.wrong_runs + self.table.wrong_unproven

    @property
    def tried(self) -> int:
        """Trials that count."""
        return self.right + self.wrong

    @property
    def tallies(self) -> Mapping[str, Tally]:
        """How often each case was right, by its id."""
        return {each.case_id: each.tally for each in self.cases}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSummary:
    """An evaluation with what it has shown so far."""

    facts: EvalFacts
    arms: tuple[ArmResult, ...]
    between: tuple[Comparison, ...]
    """Each other model or pack, against the first."""
    trials: tuple[TrialOutcome, ...]
    """All that have ended."""

    @property
    def failures(self) -> tuple[TrialOutcome, ...]:
        """Trials that could not be tried or checked."""
        return tuple(each for each in self.trials if each.grade is Grade.FAILED)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes results worth less than they look."""
        cases = (case.case_id for arm in self.arms for case in arm.cases if case.already_right)
        return tuple(
            f"{case_id}: its check is right before anything is done, so it shows nothing"
            for case_id in dict.fromkeys(cases)
        )

    @property
    def done(self) -> int:
        """Trials that have an outcome."""
        return sum(each.tried + each.failed for each in self.arms)

    @property
    def total(self) -> int:
        """All trials."""
        return self.done + sum(each.pending for each in self.arms)

    @property
    def right(self) -> int:
        """Trials that were right."""
        return sum(each.right for each in self.arms)


def summarize(evaluation: Eval, outcomes: Sequence[TrialOutcome]) -> EvalSummary:
    """Return what an evaluation has shown so far."""
    definition = evaluation.definition
    results = tuple(
        _arm_result(definition, arm, [each for each in outcomes if each.trial.arm == arm])
        for arm in arms_of(definition)
    )
    first, *others = results
    return EvalSummary(
        facts=EvalFacts.of(evaluation),
        arms=results,
        between=tuple(
            compare(first.tallies, other.tallies, names=(first.arm.label, other.arm.label)) for other in others
        ),
        trials=tuple(outcomes),
    )


def compare_evals(old: EvalSummary, new: EvalSummary) -> tuple[Comparison, ...]:
    """Compare an evaluation with an older one: the same models and packs with each other.

    If both have tried only one, and not the same, those two are compared. Empty: they have nothing in common.
    """
    digests = {case.case_id: case.digest for arm in old.arms for case in arm.cases}
    altered = frozenset(
        case.case_id for arm in new.arms for case in arm.cases if digests.get(case.case_id, case.digest) != case.digest
    )
    pairs = [(one, other) for other in new.arms for one in old.arms if one.arm == other.arm]
    if not pairs and len(old.arms) == len(new.arms) == 1:
        pairs = [(old.arms[0], new.arms[0])]
    return tuple(
        compare(
            one.tallies,
            other.tallies,
            names=(f"{one.arm.label} before", other.arm.label)
            if one.arm == other.arm
            else (one.arm.label, other.arm.label),
            altered=altered,
        )
        for one, other in pairs
    )


def _arm_result(definition: EvalDefinition, arm: Arm, outcomes: Sequence[TrialOutcome]) -> ArmResult:
    judged = [each for each in outcomes if each.grade is not Grade.FAILED]
    cases = tuple(_case_result(case, judged) for case in definition.cases)
    tried = [case.tally for case in cases if case.of]
    tried_k_times = [tally for tally in tried if tally.of == definition.k]
    number = len(judged)
    costs = [each.cost for each in outcomes if each.cost is not None]
    return ArmResult(
        arm=arm,
        table=ProofTable(
            *(
                sum(each.grade is grade and each.evidence is evidence for each in judged)
                for grade in (Grade.RIGHT, Grade.WRONG)
                for evidence in Evidence
            ),
            *(sum(each.grade is grade and each.sent_back for each in judged) for grade in (Grade.RIGHT, Grade.WRONG)),
        ),
        failed=len(outcomes) - number,
        pending=definition.k * len(definition.cases) - len(outcomes),
        share=share_right(tried),
        any_right=_share_of(tried_k_times, lambda tally: tally.right > 0),
        all_right=_share_of(tried_k_times, lambda tally: tally.right == tally.of),
        seconds=sum(each.seconds for each in judged) / number if number else 0.0,
        total_seconds=sum(each.seconds for each in outcomes),
        steps=sum(each.steps for each in judged) / number if number else 0.0,
        prompt_tokens=sum(each.prompt_tokens for each in outcomes),
        cached_tokens=sum(each.cached_tokens for each in outcomes),
        completion_tokens=sum(each.completion_tokens for each in outcomes),
        cost=sum(costs) if costs else None,
        cases=cases,
    )


def _case_result(case: EvalCase, judged: Sequence[TrialOutcome]) -> CaseResult:
    own = [each for each in judged if each.trial.case_id == case.case_id]
    right = sum(each.grade is Grade.RIGHT for each in own)
    return CaseResult(case.case_id, case.digest, right, len(own), any(each.already_right for each in own))


def _share_of(tallies: Sequence[Tally], wanted: Callable[[Tally], bool]) -> float | None:
    return sum(map(wanted, tallies)) / len(tallies) if tallies else None
