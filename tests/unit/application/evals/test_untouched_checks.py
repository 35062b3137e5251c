"""Checks on the files that cases begin with: each runs once, whoever asks."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from agent_fabric.application.evals.check_trial import CheckResult, CheckTrial, UntouchedChecks
from agent_fabric.domain.evals.definition import EvalCase
from agent_fabric.domain.evals.trials import Grade, TrialOutcome
from agent_fabric.domain.ids import RunId
from contract.evals_contract import CASES, outcome

RUN = RunId("r-1")


@dataclass
class CountedChecks:
    """Stands for CheckTrial."""

    grade: Grade
    asked: list[str] = field(default_factory=list)

    async def __call__(self, _: RunId, workspace: str | None, case: EvalCase, *, timeout_s: float) -> CheckResult:
        assert workspace is None
        assert timeout_s == 5
        self.asked.append(case.case_id)
        await asyncio.sleep(0)
        return CheckResult(self.grade)


def untouched(checks: CountedChecks, *outcomes: TrialOutcome) -> UntouchedChecks:
    return UntouchedChecks(cast("CheckTrial", checks), outcomes, timeout_s=5)


@pytest.mark.parametrize(("grade", "told"), [(Grade.RIGHT, True), (Grade.WRONG, False), (Grade.FAILED, None)])
async def test_a_check_runs_once_for_all_trials_of_its_case(grade: Grade, told: bool | None) -> None:
    checks = CountedChecks(grade)
    ask = untouched(checks)
    assert await asyncio.gather(*(ask(RUN, case) for case in (*CASES, *CASES))) == [told] * 4
    assert checks.asked == ["a", "b"]


async def test_what_an_earlier_process_has_found_is_not_asked_again() -> None:
    checks = CountedChecks(Grade.WRONG)
    known = replace(outcome("a", Grade.RIGHT), already_right=True)
    older = replace(outcome("b", Grade.RIGHT), already_right=None)
    ask = untouched(checks, known, older)
    assert [await ask(RUN, case) for case in CASES] == [True, False]
    assert checks.asked == ["b"]
