"""Checks what a trial left behind: on a copy of its workspace, in the box, without a network."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from agent_fabric.application.ports.evals import CaseFolders, WorkspaceUncheckable
from agent_fabric.application.ports.sandbox import CommandOutcome, Sandboxes
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, RunFilesWithheld
from agent_fabric.domain.evals.definition import EvalCase
from agent_fabric.domain.evals.trials import MAX_REASON_CHARS, Grade, TrialOutcome
from agent_fabric.domain.ids import RunId

_ENVIRONMENT = {"PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
"""Nothing that a trial left in a home folder gets to run inside the check."""


class CheckResult(NamedTuple):
    """What a check said."""

    grade: Grade
    reason: str = ""
    """Why it said no, or could not be run."""


@dataclass(frozen=True, slots=True)
class CheckTrial:
    """Use case: run the check of a case. The workspace itself stays as the trial left it."""

    folders: CaseFolders
    sandboxes: Sandboxes

    async def __call__(self, run_id: RunId, workspace: str | None, case: EvalCase, *, timeout_s: float) -> CheckResult:
        """Return what the check said; without a workspace, on the files that the case begins with.

        Raises:
            StoreFull, StoreUnavailable: there is no room for the copy.
        """
        files = case.check_files if workspace is not None else {**case.files, **case.check_files}
        try:
            folder = await self.folders.copy_for_check(run_id, workspace, files)
        except WorkspaceUncheckable as problem:
            return CheckResult(Grade.WRONG, f"the workspace cannot be checked: {problem}")
        except RunFilesWithheld as problem:
            return CheckResult(Grade.FAILED, problem.message)
        box_id = RunId(f"{run_id}-check")
        try:
            await self.sandboxes.end_leftovers(box_id, folder)  # of a process that was killed while it checked
            box = self.sandboxes.for_run(box_id, folder, network_allowed=False)
            outcome = await box.run_command(case.check, timeout_s=timeout_s, environment=_ENVIRONMENT)
        except (OSError, ConfigError) as problem:
            return CheckResult(Grade.FAILED, f"the check could not be run: {problem}")
        finally:
            await self.sandboxes.close(box_id)
            await self.folders.remove(folder)
        return _judge(outcome, timeout_s)


def _judge(outcome: CommandOutcome, timeout_s: float) -> CheckResult:
    if outcome.timed_out:
        return CheckResult(Grade.WRONG, f"the check took longer than {timeout_s:g} seconds")
    if outcome.exit_code == 0:
        return CheckResult(Grade.RIGHT)
    printed = (outcome.stderr.strip() or outcome.stdout.strip()).decode(errors="replace")
    tail = printed[-MAX_REASON_CHARS // 2 :]
    code = outcome.exit_code
    ended = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
    return CheckResult(Grade.WRONG, f"{ended}: {tail}" if tail else ended)


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
