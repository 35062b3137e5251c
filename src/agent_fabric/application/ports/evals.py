"""Where evaluations are kept, and the folders that their trials need."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evals.definition import CaseFile
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import Trial, TrialOutcome
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, Visibility
from agent_fabric.domain.ids import EvalId, RunId
from agent_fabric.domain.runs.task import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRecord:
    """One line about an evaluation."""

    eval_id: EvalId
    name: str
    status: RunStatus
    created_at: float
    updated_at: float
    owner: str
    visibility: Visibility
    total: int
    """All trials."""
    done: int
    """Trials that have an outcome."""
    right: int
    """Trials that were right."""


class EvalRepository(Protocol):
    """All evaluations of one fabric folder, shared by many processes."""

    async def create(self, evaluation: Eval) -> None:
        """Make an evaluation durable.

        Raises:
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def find(self, name: str, *, viewer: Viewer = EVERYTHING) -> Eval:
        """Return the one evaluation whose id begins so, or else the newest of this name; of those that a viewer sees.

        Raises:
            EvalNotFound: there is none, or more than one id begins so.
        """
        ...

    async def list(self, *, limit: int, viewer: Viewer = EVERYTHING, owner: str = "") -> Sequence[EvalRecord]:
        """Return the newest evaluations that a viewer may see, newest first; of one owner, if that is given."""
        ...

    async def status(self, eval_id: EvalId) -> RunStatus:
        """Return the status that was last noted.

        Raises:
            EvalNotFound: there is none with this id.
        """
        ...

    async def mark(self, eval_id: EvalId, status: RunStatus) -> bool:
        """Note how an evaluation stands; one that has been cancelled stays so, which False says."""
        ...


class TrialOutcomes(Protocol):
    """What came of trials. Each has one outcome, which counts once, however often it is recorded."""

    async def record(self, eval_id: EvalId, outcome: TrialOutcome) -> bool:
        """Make an outcome durable; False if the trial has one.

        Raises:
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def read(self, eval_id: EvalId) -> Sequence[TrialOutcome]:
        """Return the outcomes of an evaluation, in the order in which they were recorded or in any other."""
        ...

    async def retries(self, eval_id: EvalId) -> Mapping[Trial, int]:
        """Return how often trials are tried anew, of those that are."""
        ...

    async def retry_failed(self, eval_id: EvalId) -> int:
        """Let trials that could not be tried begin anew, with another run; return how many."""
        ...


class CaseFolders(Protocol):
    """Makes the folders in which cases begin and are checked. Both lie in the folder of the trial's run."""

    async def stage(self, run_id: RunId, files: Mapping[str, CaseFile]) -> str:
        """Make a folder with these files, for a run that does not exist yet; return its path.

        Raises:
            StoreFull, StoreUnavailable: it cannot be made.
        """
        ...

    async def copy_for_check(self, run_id: RunId, workspace: str | None, files: Mapping[str, CaseFile]) -> str:
        """Make a copy of a workspace with these files in it, whatever lies in their place; return its path.

        Without a workspace the files are all that is in it.

        No link is followed, and what is no file, folder or link is left out.

        Raises:
            WorkspaceUncheckable: it is too large or too deep, or cannot be read.
            RunFilesWithheld: it is gone, or has become a link.
            StoreFull, StoreUnavailable: there is no room for the copy.
        """
        ...

    async def remove(self, path: str) -> None:
        """Remove a folder that was made here."""
        ...


class WorkspaceUncheckable(Exception):
    """A workspace of which no copy can be made, because of what the trial has left in it."""
