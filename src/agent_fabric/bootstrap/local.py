"""Joins everything for one process on one machine, on SQLite."""

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_fabric import __version__
from agent_fabric.application.packs.ask_routing_model import AskRoutingModel
from agent_fabric.application.packs.recruit import RecruitSpecialists, parse_pack_names
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.model_turn import ModelTurn
from agent_fabric.application.runs.perform import Perform
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.bootstrap.lazy_web import LazyWeb
from agent_fabric.bootstrap.models import LazyModels
from agent_fabric.config.capabilities import CAPABILITY_KEYWORDS
from agent_fabric.config.constants import MAX_TOOL_OUTPUT_CHARS
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.policy.commands import DEFAULT_ALLOWED_COMMANDS, CommandPolicy
from agent_fabric.domain.recruitment import Specialist
from agent_fabric.domain.runs.task import Budget, Priority, Profile, Task, TaskForceMode
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.packs.registry import ConfigSpecialistRegistry, ResearchParts
from agent_fabric.infrastructure.persistence.event_rows import this_process
from agent_fabric.infrastructure.persistence.event_store import SqliteRunRepository
from agent_fabric.infrastructure.persistence.run_catalogue import SqliteRunCatalogue
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.infrastructure.runlog.jsonl_log import JsonlRunLog
from agent_fabric.infrastructure.runlog.layout import Layout
from agent_fabric.infrastructure.runlog.run_index import RunIndex
from agent_fabric.infrastructure.runlog.snapshots import SnapshotFolder
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox


@dataclass(frozen=True, slots=True)
class Records:
    """What a process needs to look at runs, and no more."""

    layout: Layout
    store: Store
    runs: SqliteRunRepository
    catalogue: SqliteRunCatalogue
    runlog: JsonlRunLog
    run_index: RunIndex

    def snapshots_for(self, run_id: RunId) -> SnapshotFolder:
        """Return the pages that a run has fetched."""
        return SnapshotFolder(self.layout.snapshots(run_id))

    def close(self) -> None:
        """Finish every write."""
        self.store.close()


@dataclass(frozen=True, slots=True)
class LocalFabric:
    """What a process needs to drive runs."""

    records: Records
    execute_task: ExecuteTask
    resume_run: ResumeRun
    cancel_run: CancelRun
    models: LazyModels
    web: LazyWeb

    async def aclose(self) -> None:
        """Close connections and the store."""
        await self.models.aclose()
        await self.web.aclose()
        self.records.close()


def open_records(root: Path) -> Records:
    """Open the runs of a fabric folder, making it if needed."""
    layout = Layout(root.absolute())
    layout.make()
    store = Store(layout.database)
    runlog, run_index = JsonlRunLog(layout), RunIndex(layout)
    return Records(
        layout=layout,
        store=store,
        runs=SqliteRunRepository(store, SystemClock(), (runlog, run_index)),
        catalogue=SqliteRunCatalogue(store),
        runlog=runlog,
        run_index=run_index,
    )


def build_local(
    root: Path,
    config: FabricConfig,
    *,
    left_out: Mapping[str, str] | None = None,
    sink: EventSink | None = None,
    marks_interruption: bool = True,
) -> LocalFabric:
    """Join the parts; for `left_out` see `Loaded`, for `marks_interruption` `DriveRun`."""
    records = open_records(root)
    clock = SystemClock()
    policy = command_policy(config)
    models, web = LazyModels(config), LazyWeb(config.web)

    def sandbox_for(run_id: RunId, workspace: str) -> UnconfinedSandbox:
        return UnconfinedSandbox(Path(workspace), run_id)

    registry = ConfigSpecialistRegistry(
        config.specialists,
        sandbox_for,
        shell_timeout_s=config.shell.timeout_s,
        research=ResearchParts(
            fetcher=web,
            search=web,
            snapshots_for=records.snapshots_for,
            catalogue=records.catalogue,
            clock=clock,
        ),
    )
    model_turn = ModelTurn(models, clock)
    perform = Perform(
        registry=registry,
        recruit=recruiting(config, models, model_turn, left_out or {}),
        models=models,
        model_turn=model_turn,
        invoke_tool=InvokeTool(policy, clock, MAX_TOOL_OUTPUT_CHARS),
    )
    drive = DriveRun(perform, clock, sink, marks_interruption)
    return LocalFabric(
        records=records,
        execute_task=ExecuteTask(
            runs=records.runs,
            workspaces=records.layout,
            recruit=perform.recruit,
            drive=drive,
            clock=clock,
            ids=RandomIds(),
            sandbox_level=UnconfinedSandbox.level,
            policy_version=policy.version,
            fabric_version=__version__,
        ),
        resume_run=ResumeRun(
            runs=records.runs,
            workspaces=records.layout,
            registry=registry,
            drive=drive,
            end_leftovers=lambda run_id, workspace: sandbox_for(run_id, workspace).end_leftovers(),
            driver=this_process(),
        ),
        cancel_run=cancel_run(records),
        models=models,
        web=web,
    )


def recruiting(
    config: FabricConfig, models: LazyModels, model_turn: ModelTurn, left_out: Mapping[str, str]
) -> RecruitSpecialists:
    """Return the use case that chooses specialists as the configuration says."""
    return RecruitSpecialists(
        specialists=[
            Specialist(
                specialist_id=SpecialistId(name),
                description=each.description,
                keywords=each.keywords,
                capabilities=each.capabilities,
            )
            for name, each in config.specialists.items()
        ],
        capabilities=CAPABILITY_KEYWORDS,
        ask_model=AskRoutingModel(model_turn, models, config.routing_model_key),
        left_out=left_out,
    )


def cancel_run(records: Records) -> CancelRun:
    """Return the use case that ends runs; it needs no model and no configuration."""
    return CancelRun(records.runs, SystemClock())


def task_from(
    config: FabricConfig,
    prompt: str,
    *,
    pack: str | None = None,
    model_key: str | None = None,
    network_allowed: bool = True,
    priority: Priority = Priority.INTERACTIVE,
) -> Task:
    """Make a task of what a person typed.

    Raises:
        ConfigError: there is no such model, or `pack` names none.
    """
    key = model_key or config.default_model_key
    if key not in config.models:
        raise ConfigError(f"There is no model {key!r}", hint=f"Configured models: {', '.join(config.models)}.")
    packs = parse_pack_names(pack or "")
    if pack is not None and not packs:
        raise ConfigError(
            "No pack is named", hint=f"Name one, or leave it out. Packs: {', '.join(config.specialists)}."
        )
    return Task(
        prompt=prompt,
        specialist_ids=packs,
        task_force_mode=TaskForceMode(config.task_force_mode),
        model_key=key,
        network_allowed=network_allowed,
        budget=Budget.of(
            Profile.TASK,
            max_steps=config.budget.max_steps,
            max_tokens=config.budget.max_tokens,
            max_seconds=config.budget.max_seconds,
        ),
        priority=priority,
    )


def command_policy(config: FabricConfig) -> CommandPolicy:
    """Return the policy that the configuration describes."""
    allowed = config.shell.allowed_commands
    base = DEFAULT_ALLOWED_COMMANDS if allowed is None else frozenset(allowed)
    return CommandPolicy(allowed_commands=base | frozenset(config.shell.extra_commands))


def this_person() -> str:
    """Name the person at this terminal, for the log."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"
