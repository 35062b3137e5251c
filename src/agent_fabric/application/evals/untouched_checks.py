"""Which checks are right before anything was done: those say nothing about a model."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable

from agent_fabric.application.evals.check_trial import CheckTrial
from agent_fabric.domain.evals.definition import EvalCase
from agent_fabric.domain.evals.trials import Grade, TrialOutcome
from agent_fabric.domain.ids import RunId


class UntouchedChecks:
    """The checks of an evaluation on the files that cases begin with. Each runs once."""

    def __init__(self, check: CheckTrial, outcomes: Iterable[TrialOutcome], *, timeout_s: float) -> None:
        self._check = check
        self._timeout_s = timeout_s
        self._known: dict[str, bool | None] = {
            each.trial.case_id: each.already_right for each in outcomes if each.already_right is not None
        }
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Trials of one case may begin at the same time."""

    async def __call__(self, run_id: RunId, case: EvalCase) -> bool | None:
        """Tell whether a check is right before the trial of a run; None: it could not be run.

        Raises:
            StoreFull, StoreUnavailable: there is no room for the files.
        """
        async with self._turns[case.case_id]:
            if case.case_id not in self._known:
                checked = await self._check(run_id, None, case, timeout_s=self._timeout_s)
                self._known[case.case_id] = None if checked.grade is Grade.FAILED else checked.grade is Grade.RIGHT
            return self._known[case.case_id]
