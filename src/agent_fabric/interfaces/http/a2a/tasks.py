"""What callers can do with tasks that exist: find, follow, list and end them."""

from datetime import datetime
from typing import Any

from fastapi import Request

from agent_fabric.application.ports.runs import RunQuery
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunKeyMissing, RunNotFound
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.a2a.calls import PAGE, Listing
from agent_fabric.interfaces.http.a2a.error_shape import Code, RpcError
from agent_fabric.interfaces.http.a2a.objects import Shown, standing, statuses_in, task_line, task_object
from agent_fabric.interfaces.http.locks import must_be_allowed, who_asks
from agent_fabric.interfaces.http.openai.job import Job
from agent_fabric.interfaces.http.openai.models import model_of, right_for
from agent_fabric.interfaces.http.runs.starting import about
from agent_fabric.interfaces.http.views import RunView, look_at


@dataclass(frozen=True, slots=True)
class Tasks:
    """Runs, as tasks: a task's id is its run's."""

    runs: ServedRuns

    async def find(self, task_id: str, *, by: Principal) -> RunView:
        """Return the run of a task that a caller may see.

        Raises:
            RunNotFound: there is none.
        """
        run_id = await self.runs.find(task_id, by=by)
        if run_id != task_id:  # a task's id is never just the beginning of one
            raise RunNotFound(f"There is no task {task_id!r}")
        return await look_at(self.runs, run_id)

    async def follow(self, request: Request, task_id: str) -> Job:
        """Return the run of a task that has not ended, to watch it.

        Raises:
            RunNotFound: there is none.
            RpcError: it has ended.
        """
        view = await self.find(task_id, by=who_asks(request))
        if view.result.status.settled:
            raise RpcError(Code.UNSUPPORTED_OPERATION, "This task has ended", hint="GetTask shows what came of it.")
        started = self.runs.dispatch.find(view.result.run_id) or view.result
        return Job(self.runs, request, model_of(view.task), view.task, started, is_followed=True)

    async def cancel(self, request: Request, task_id: str) -> Shown:
        """End a run.

        Raises:
            RunNotFound: there is none.
            Forbidden: the caller may not.
            RpcError: it has ended already.
        """
        principal = who_asks(request)
        view = await self.find(task_id, by=principal)
        must_be_allowed(principal, right_for(model_of(view.task)))
        run_id, result = view.result.run_id, view.result
        if not result.status.settled:
            with about(run_id):
                result = await self.runs.cancel_run(run_id, by=principal.name, reason="")
            if result.status is RunStatus.CANCELLED:
                return await standing(self.runs, run_id, result)
        raise RpcError(Code.TASK_NOT_CANCELABLE, f"This task has ended: {result.status.value}")

    async def page(self, wanted: Listing, *, by: Principal) -> dict[str, Any]:
        """Return some of the tasks that a caller may see, the newest first.

        Raises:
            RpcError: there is no such state, or time.
        """
        statuses = statuses_in(wanted.status) if wanted.status else None
        if wanted.status and statuses is None:
            raise RpcError(Code.INVALID_PARAMS, f"status: there is no state {wanted.status!r}")
        size, after = wanted.page_size or PAGE, _time_in(wanted.after)
        if statuses == ():
            return {"tasks": [], "nextPageToken": "", "pageSize": size, "totalSize": 0}
        query = RunQuery(
            status=statuses[0] if statuses else None,
            conversation=wanted.context_id,
            viewer=Viewer.of(by),
            older_than=int(wanted.page_token) if wanted.page_token else None,
            limit=size,
        )
        page = await self.runs.catalogue.page(query, awaited=self.runs.dispatch)
        await self.runs.find.note_listed(page.records, by=by)
        tasks = [task_line(record) for record in page.records if record.updated_at >= after]
        if wanted.include_artifacts:
            tasks = [await self._whole(each) for each in tasks]
        more = "" if page.older_than is None else str(page.older_than)
        answer: dict[str, Any] = {
            "tasks": [
                task_object(each, history=wanted.history_length, artifacts=wanted.include_artifacts) for each in tasks
            ],
            "nextPageToken": more,
            "pageSize": size,
        }
        # How many there are beyond a page is known only when all have been looked at.
        return answer if more or wanted.page_token else {**answer, "totalSize": len(tasks)}

    async def _whole(self, shown: Shown) -> Shown:
        try:
            return await standing(self.runs, RunId(shown.run_id))
        except (RunKeyMissing, RunNotFound):
            return shown


def _time_in(text: str) -> float:
    if not text:
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise RpcError(
            Code.INVALID_PARAMS, "statusTimestampAfter: this is no time, such as 2026-01-31T12:00:00Z"
        ) from None
