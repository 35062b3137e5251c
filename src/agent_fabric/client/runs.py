"""Runs at a server: start them, follow them, look at them, continue them, end them."""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent_fabric.application.ports.audit import LogCondition
from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.application.runs.undo_run import Undone
from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.client.following import PATIENCE_S, Follower, Happening
from agent_fabric.client.saving import save
from agent_fabric.client.tasks import TaskRequest
from agent_fabric.client.transport import Query, Resource, segment
from agent_fabric.client.wire import event_from, started_run
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunFileNotFound, RunNotFound
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.comparison import Comparison
from agent_fabric.domain.runs.files import RunFileList
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.runs.unified_diff import FileDiff
from agent_fabric.wire.changes import EXACT_DIFF, EXACT_UNDONE, file_diffs_from
from agent_fabric.wire.comparisons import COMPARISON
from agent_fabric.wire.results import result_from
from agent_fabric.wire.runs import FOUND_RUNS, MATCHING_RUNS, RUN_FILES, RUN_LIST, VERIFICATION, FoundRuns
from agent_fabric.wire.shape import Json

PAGE = 200
"""Most runs, and events, that are asked for at once."""
MAX_MATCHING = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails:
    """A run as it stands."""

    result: RunResult
    """As far as there is one."""
    run_dir: str
    """Its folder, on the server's machine."""
    prompt: str
    created_at: float
    updated_at: float
    queued: bool
    """Whether it waits at the server for its turn."""
    events: int
    """How many events it has."""


class Runs(Resource):
    """The runs of a server. Wherever a run is named, the beginning of its id is enough if only one begins so."""

    async def start(self, wish: TaskRequest, *, deltas: bool = False) -> RunId:
        """Start a run and do not wait for it; `deltas` says that it will be followed at once, with pieces of answers.

        Raises:
            RecruitError: there is no such pack.
            ServerBusy: too many runs wait already.
        """
        return await self._post(started_run, "/runs", wish.body(), {"deltas": deltas or None})

    async def do(self, wish: TaskRequest) -> RunResult:
        """Start a run and wait until it has ended or waits for a person."""
        return await self._post(result_from, "/run", wish.body(), timeout_s=math.inf)

    async def list(
        self, *, limit: int = 50, status: RunStatus | None = None, pack: str = "", owner: str = "", trials: bool = True
    ) -> Sequence[RunRecord]:
        """Return the newest runs that we may see, newest first; `owner` is `user:ada`, `local`, or a name alone.

        Without `trials`, those of evaluations are left out.
        """
        found: list[RunRecord] = []
        query: dict[str, Any] = {"status": status, "pack": pack or None, "owner": owner or None}
        query["trials"] = None if trials else False
        after: str | None = None
        while len(found) < limit:
            page: Query = {**query, "after": after, "limit": min(limit - len(found), PAGE)}
            shown = await self._get(RUN_LIST.load, "/runs", page)
            found += shown.runs
            after = _position(shown.next)
            if after is None:
                break
        return found

    async def search(
        self,
        words: str,
        *,
        limit: int = 20,
        owner: str = "",
        status: RunStatus | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Sequence[RunRecord]:
        """Return the runs with the most of these words and "phrases" in what was asked, done and said, the best first.

        Filters are the owner, the status, and when they were created, in seconds since 1970.
        """
        filters = {"owner": owner or None, "status": status, "since": since, "until": until}
        query = {"q": words, "limit": min(limit, MAX_MATCHING), **filters}
        return (await self._get(MATCHING_RUNS.load, "/runs/matching", query, timeout_s=math.inf)).runs

    async def search_by_meaning(self, question: str, *, limit: int = 20) -> FoundRuns:
        """Return the runs nearest to a question, and how many have not been read for it yet: ask again for those."""
        query: Query = {"q": question, "limit": min(limit, PAGE)}
        return await self._get(FOUND_RUNS.load, "/runs/search", query, timeout_s=math.inf)

    async def show(self, run_id: str) -> RunDetails:
        """Return a run as it stands.

        Raises:
            RunNotFound: no run, or more than one, has an id that begins so.
        """
        return await self._get(_details, _path(run_id))

    async def find(self, run_id: str) -> RunId:
        """Return the whole id of the run whose id begins so.

        Raises:
            RunNotFound: none, or more than one, begins so.
        """
        return await self._get(started_run, _path(run_id, "/status"))

    async def newest(self, *, own: bool = False) -> RunId:
        """Return the run that was created last, but for those that work for another one; of the `own` ones if asked.

        Raises:
            RunNotFound: there is none at all.
        """
        return await self._get(started_run, "/runs/newest", {"own": own or None})

    async def events(self, run_id: str, *, after: int = -1) -> Sequence[Event]:
        """Return the events of a run that follow sequence number `after`, whole."""
        return [event async for page in self.pages(run_id, after=after) for event in page]

    async def pages(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Sequence[Event], None]:
        """Yield the same events, some at a time."""
        while True:
            query = {"after": after, "limit": PAGE, "full": True}
            page = await self._transport.get(_path(run_id, "/events"), query)
            found = await self._transport.read_answer(_events, page)
            yield found
            if page.get("next") is None or not found:
                return
            after = found[-1].seq

    def follow(
        self, run_id: str, *, after: int = -1, deltas: bool = False, patience_s: float = PATIENCE_S
    ) -> AsyncGenerator[Happening, None]:
        """Yield the events of a run as they happen, each once and in order, and at last its result.

        A connection that breaks is made again, and a server that restarts is waited for, up to `patience_s`.
        With `deltas` there are also pieces of answers as they are written.
        """
        return Follower(
            self._transport, _path(run_id, "/events"), after=after, deltas=deltas, patience_s=patience_s
        ).happenings()

    async def resume(self, run_id: str, *, wait: bool = False) -> RunResult:
        """Resume a run; return how it stands then, or with `wait` how it ended.

        Raises:
            RunHeld: another process drives it.
        """
        limit_s = math.inf if wait else None
        answer = await self._transport.post(_path(run_id, "/resume"), {}, {"wait": wait}, timeout_s=limit_s)
        if set(answer) == {"run_id", "status"}:  # it is being driven
            return (await self.show(answer["run_id"])).result
        return await self._transport.read_answer(result_from, answer)

    async def cancel(self, run_id: str, *, reason: str = "") -> RunResult:
        """End a run; return how it stands then. One that has ended stays as it is."""
        return await self._post(result_from, _path(run_id, "/cancel"), {"reason": reason})

    async def diff(self, run_id: str) -> tuple[RunDiff, dict[str, FileDiff]]:
        """Return what a run changed, and how each path changed.

        Raises:
            RunNotFound: there is no such run.
        """
        path = _path(run_id, "/diff")
        answer = await self._transport.get(path, {"exact": True})
        found = await self._transport.read_answer(EXACT_DIFF.load, answer)
        compared = await self._transport.read_answer(file_diffs_from, answer)
        while len(compared) < len(found.changes):  # a server compares only so much at once
            more = await self._get(file_diffs_from, path, {"exact": True, "skip": len(compared)})
            if not more:
                break
            compared |= more
        return found, compared

    async def compare(self, run_id: str, other: str) -> Comparison:
        """Return where two runs part, and what each did and left from there on.

        Raises:
            RunNotFound: there is no such run.
        """
        return await self._get(COMPARISON.load, _path(run_id, f"/compare/{segment(other)}"), timeout_s=math.inf)

    async def undo(
        self, run_id: str, *, paths: Sequence[str] = (), redo: bool = False, dry: bool = False, force: bool = False
    ) -> Undone:
        """Take back what a run changed; with `redo` put it back again, with `dry` only say what would happen.

        Raises:
            RunNotFound: there is no such run.
            FolderHeld: a run works in the folder.
        """
        wish = {"paths": list(paths), "redo": redo, "dry_run": dry, "force": force}
        return await self._post(EXACT_UNDONE.load, _path(run_id, "/undo"), wish, {"exact": True}, timeout_s=math.inf)

    async def verify(self, run_id: str) -> Verification:
        """Check again what a run claims.

        Raises:
            RunNotFound: there is no such run.
        """
        return await self._get(_verification, _path(run_id, "/verify"), timeout_s=math.inf)

    async def files(self, run_id: str) -> RunFileList:
        """Return the files in a run's workspace.

        Raises:
            RunNotFound: there is no such run.
            RunFilesWithheld: it worked in a project folder, or its files are gone.
        """
        return await self._get(RUN_FILES.load, _path(run_id, "/files"))

    async def content(self, run_id: str, path: str) -> AsyncGenerator[bytes, None]:
        """Yield what is in one of them, piece by piece.

        Raises:
            RunFileNotFound: the run has no such file.
            RunFilesWithheld: it worked in a project folder, or its files are gone.
        """
        async with self._transport.content(_path(run_id, f"/files/{_file(path)}")) as content:
            async for piece in content.iter_any():
                yield piece

    async def download(self, run_id: str, path: str, to: str | Path, *, overwrite: bool = False) -> int:
        """Save one of them as the file `to`, whole or not at all; return its size.

        Raises:
            RunFileNotFound: the run has no such file.
            RunFilesWithheld: it worked in a project folder, or its files are gone.
            ConfigError: `to` exists already and is not to be overwritten, or cannot be written.
        """
        async with aclosing(self.content(run_id, path)) as pieces:
            return await save(pieces, Path(to), overwrite=overwrite)


def _path(run_id: str, what: str = "") -> str:
    """Return where a server shows a run.

    Raises:
        RunNotFound: no run can have this id.
    """
    message = f"There is no run {run_id!r}" if run_id else "No run id was given"
    missing = RunNotFound(message, hint="See all runs with `fabric logs list`.")
    return f"/runs/{segment(run_id, missing)}{what}"


def _file(path: str) -> str:
    """Return a file's path as parts of an address.

    Raises:
        RunFileNotFound: no file can have this path.
    """
    if {"", ".", ".."} & set(path.split("/")):
        raise RunFileNotFound(f"No file is called {path!r}", hint="Name it as the list of files does.")
    return quote(path, safe="/")


def _position(following: str | None) -> str | None:
    """Return where a list continues, from the address of its next page."""
    return None if following is None else str(following).partition("after=")[2].partition("&")[0]


def _events(page: Json) -> Sequence[Event]:
    return [event_from(line) for line in page["events"]]


def _verification(shown: Json) -> Verification:
    log = LogCondition(events=shown["events"], head=shown["last_hash"], status=shown["status"])
    return Verification(**VERIFICATION.values(shown), log=log)


def _details(shown: Json) -> RunDetails:
    facts = ("run_dir", "prompt", "created_at", "updated_at", "queued", "events")
    return RunDetails(result=result_from(shown), **{name: shown["_meta"][name] for name in facts})
