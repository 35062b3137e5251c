"""Evaluations: lines of lists, and what they have shown."""

from collections.abc import Sequence
from typing import Annotated, Any

from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.domain.evals.comparison import CaseChange, Comparison
from agent_fabric.domain.evals.intervals import Estimate, Tally
from agent_fabric.domain.evals.summary import ArmResult, CaseResult, EvalFacts, EvalSummary, ProofTable
from agent_fabric.domain.evals.trials import Arm, Trial, TrialOutcome
from agent_fabric.wire.shape import Listing, Shape

EVAL_LINE = Shape(EvalRecord, name="EvalLine")
EVAL_LIST = Listing("evals", EVAL_LINE, name="EvalList", about="The newest evaluations, newest first.")

_ESTIMATE = Shape(Estimate, name="EvalEstimate")
_CHANGE = Shape(CaseChange, name="EvalCaseChange", parts=[Shape(Tally, name="EvalTally")])
COMPARISON = Shape(
    Comparison,
    "before after conclusion cases ups downs difference p_value changes altered unmatched",
    name="EvalComparison",
    parts=[_ESTIMATE, _CHANGE],
)
_ARM = Shape(Arm, name="EvalArm")
_RESULT = Shape(
    ArmResult,
    "*arm right wrong failed pending table share any_right all_right seconds total_seconds steps prompt_tokens"
    " cached_tokens completion_tokens cost cases",
    name="EvalResult",
    parts=[_ARM, _ESTIMATE, Shape(ProofTable, name="EvalProofTable"), Shape(CaseResult, name="EvalCaseResult")],
)
_TRIAL = Shape(
    TrialOutcome,
    "*trial run_id grade evidence sent_back outcome? not_done already_right reason? status seconds steps"
    " prompt_tokens cached_tokens completion_tokens cost retry",
    name="EvalTrial",
    parts=[Shape(Trial, "case_id *arm attempt", name="EvalTrialKey", parts=[_ARM])],
)
EVAL = Shape(
    EvalSummary,
    "*facts total done right warnings results=arms between trials",
    name="Eval",
    parts=[Shape(EvalFacts, name="EvalFacts"), _RESULT, COMPARISON, _TRIAL],
    also={
        "compared?": Annotated[Sequence[Comparison], "With `compare`: how it differs from an older evaluation."],
    },
)


def eval_object(summary: EvalSummary, compared: Sequence[Comparison] | None = None) -> dict[str, Any]:
    """Return an evaluation as a JSON object; `compared` is how it differs from an older one."""
    shown = EVAL.dump(summary)
    return shown if compared is None else {**shown, "compared": [COMPARISON.dump(each) for each in compared]}
