"""Takes over a crontab: each line becomes a schedule, or is listed with the reason why not."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agent_fabric.application.automation.manage_schedules import ManageSchedules, require_person
from agent_fabric.domain.automation.crontab import MAX_CHARACTERS, CrontabJob, CrontabProblem, fabric_wish, read_crontab
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, InvalidInputs
from agent_fabric.domain.identity.principals import Principal, Scope

WORKFLOW_PREFIX = "crontab-"
MAX_JOBS = 500
"""Lines of one import that start something."""


class CommandWorkflows(Protocol):
    """Files of workflows that run one command each."""

    async def keep(self, name: str, job: CrontabJob, *, dry_run: bool) -> Callable[[], Awaitable[None]]:
        """Write the file of a job's workflow, unless it is there already; return what takes it back.

        Raises:
            FabricError: there is another workflow of this name, or it would not be sound.
        """
        ...


class ImportedJob(NamedTuple):
    """A line that became a schedule, or would."""

    line: int
    schedule: Schedule
    note: str = ""
    """Why a person is asked each time before its command runs, or why it never does; empty: it runs by itself."""


class CrontabImport(NamedTuple):
    """What became of a crontab."""

    imported: Sequence[ImportedJob]
    refused: Sequence[CrontabProblem]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class ImportCrontab:
    """Use case: make schedules of the lines of a crontab. One line that cannot be taken over stops no other.

    A line that calls `fabric` becomes what it calls. Any other command becomes a workflow of one step.
    """

    manage: ManageSchedules
    workflows: CommandWorkflows
    judge: Callable[[CrontabJob], str] = lambda _: ""
    """Says why the policy does not let a command run by itself; empty: it does."""

    async def __call__(
        self, text: str, *, by: Principal, timezone: str = "", system: bool = False, dry_run: bool = False
    ) -> CrontabImport:
        """Take a crontab over; its times are of `timezone`, unless it says itself which.

        Raises:
            InvalidInputs: it is too long, or has too many jobs.
            Forbidden: a run asks.
        """
        require_person(by)
        if len(text) > MAX_CHARACTERS:
            raise InvalidInputs(f"A crontab has at most {MAX_CHARACTERS:,} characters", hint="Import it in parts.")
        found = read_crontab(text, system=system)
        if len(found.jobs) > MAX_JOBS:
            raise InvalidInputs(
                f"An import has at most {MAX_JOBS} jobs, not {len(found.jobs)}", hint="Import it in parts."
            )
        lines = text.splitlines()
        imported: list[ImportedJob] = []
        refused = list(found.problems)
        for job in found.jobs:
            try:
                made = await self._take(job, by, job.timezone or timezone, dry_run=dry_run)
            except (FabricError, ValueError) as problem:
                refused.append(CrontabProblem(job.line, lines[job.line - 1].strip()[:200], str(problem)))
            else:
                note = self.judge(job) if made.target.startswith(WORKFLOW_PREFIX) else ""
                imported.append(ImportedJob(job.line, made, note))
        return CrontabImport(imported, sorted(refused), dry_run)

    async def _take(self, job: CrontabJob, by: Principal, timezone: str, *, dry_run: bool) -> Schedule:
        wish: dict[str, Any] = {"name": job.name, "timezone": timezone or None}
        wish |= {"every": job.every} if job.every else {"cron_expression": job.cron_expression}
        called: Mapping[str, Any] | None = fabric_wish(job.command)
        if called is not None:
            return await self._add({**wish, **called}, by, dry_run=dry_run)
        if not by.may(Scope.ADMIN):
            raise InvalidInputs("Only an admin can take over commands")
        name = f"{WORKFLOW_PREFIX}{job.name}"
        wish |= {"target_kind": "workflow", "target": name}
        if dry_run:
            await self.workflows.keep(name, job, dry_run=True)
            return self.manage.draft(wish)
        self.manage.draft(wish)  # what cannot be kept leaves no file
        take_back = await self.workflows.keep(name, job, dry_run=False)
        try:
            return await self._add(wish, by, dry_run=False)
        except FabricError:
            await take_back()
            raise

    async def _add(self, wish: Mapping[str, Any], by: Principal, *, dry_run: bool) -> Schedule:
        if not dry_run:
            return await self.manage.add(wish, by=by)
        draft = self.manage.draft(wish)
        await self.manage.require_startable(draft)
        return draft
