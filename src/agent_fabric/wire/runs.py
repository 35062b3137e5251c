"""Runs: lines of lists, their status, events, files, and what checking them found."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent_fabric.application.ports.runs import FoundRun, RunRecord
from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.files import RunFile, RunFileList
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.runs.verification import CheckedClaim
from agent_fabric.wire.shape import Shape


class RunList(NamedTuple):
    """Some of the runs, newest first."""

    runs: Sequence[RunRecord]
    next: str | None
    """Where the list continues; null at its end. A page may be short, even empty, and not be the last."""


class FoundRuns(NamedTuple):
    """The runs nearest to a question, the best first."""

    runs: Sequence[FoundRun]
    unread: int
    """Settled runs that were not looked at, because they have not been read yet; ask again."""


class Status(NamedTuple):
    """The status of a run."""

    run_id: RunId
    status: RunStatus


class EventLine(NamedTuple):
    """One event, as in `runlog.jsonl`."""

    ts: float
    kind: str
    step: str
    payload: Mapping[str, Any]
    seq: int
    run_id: RunId


class EventList(NamedTuple):
    """Some of a run's events, in order."""

    run_id: RunId
    events: Sequence[EventLine]
    next: str | None
    """Where the list continues; null when these were the newest ones."""


_RUN_KEYS = (
    "run_id status created_at updated_at specialist_ids prompt summary owner visibility unreadable? continues trial_of?"
    " outcome?"
)
RUN_LINE = Shape(RunRecord, _RUN_KEYS, name="RunLine")
RUN_LIST = Shape(RunList, parts=[RUN_LINE])
MATCHING_RUNS = Shape(
    RunList, name="MatchingRuns", parts=[Shape(RunRecord, f"{_RUN_KEYS} matched?", name="MatchingRunLine")]
)
FOUND_RUN = Shape(FoundRun, "*record score", name="FoundRunLine", parts=[RUN_LINE])
FOUND_RUNS = Shape(FoundRuns, parts=[FOUND_RUN])
STATUS = Shape(Status, examples=[{"run_id": "d36e91a5-…", "status": "running"}])
EVENT_LIST = Shape(EventList)
RUN_FILE = Shape(RunFile, "path bytes=size modified_at", name="RunFileEntry")
RUN_FILES = Shape(RunFileList, name="RunFilesAnswer", parts=[RUN_FILE])
VERIFICATION = Shape(
    Verification,
    "run_id status specialist_ids prompt holds events=log.events last_hash=log.head claims",
    name="RunVerification",
    parts=[Shape(CheckedClaim, name="CheckedClaim")],
)
