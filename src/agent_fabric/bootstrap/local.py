"""Joins what drives runs: all that a command needs which carries out one task, and the heart of a server."""

import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from agent_fabric import __version__
from agent_fabric.application.approvals.decide_approval import DecideApproval
from agent_fabric.application.fleet.fleet_policy import FleetDoor, FleetPolicy
from agent_fabric.application.models.model_turn import ModelTurn
from agent_fabric.application.packs.ask_routing_model import AskRoutingModel
from agent_fabric.application.packs.recruit import RecruitSpecialists
from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.sandbox import OpenBuffers, Sandbox
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.new_task import encrypted_by
from agent_fabric.application.runs.perform import Perform
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.bootstrap.records import Records, configured_address, open_records, open_secrets, owner_here
from agent_fabric.bootstrap.runs import policy_of
from agent_fabric.config.constants import MAX_TOOL_OUTPUT_CHARS
from agent_fabric.config.loader import Loaded
from agent_fabric.config.schema.audit import AuditConfig
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.config.secret_references import reference_in, secrets_named_in
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.config.variable_names import own_values
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.packs.recruitment import Specialist
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.labels import WORKSPACE_FILES
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.domain.tools.capabilities import AMBIGUOUS_ON_PROJECTS, CAPABILITY_KEYWORDS
from agent_fabric.domain.tools.project_notes import NOTES_AT_TOP
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.models.lazy_models import LazyModels
from agent_fabric.infrastructure.observability.observers import build_observers
from agent_fabric.infrastructure.packs.lazy_steps import LazySteps
from agent_fabric.infrastructure.packs.registry import PackParts, PackRegistry, SandboxFor
from agent_fabric.infrastructure.policy.outside.lazy_commands import LazyOutside
from agent_fabric.infrastructure.runs.changes.exposed_files import ExposedFiles
from agent_fabric.infrastructure.runs.changes.watched_runs import WatchedRuns
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.sandbox.levels import RunSandboxes, Surroundings, choose_level
from agent_fabric.infrastructure.secrets.folder_secrets import Secrets
from agent_fabric.infrastructure.web.access import LazyWeb

if TYPE_CHECKING:
    from agent_fabric.application.channels.notify_user import NotifyUser
    from agent_fabric.application.ports.memory import RunMemory
    from agent_fabric.application.ports.responses import ResponseIndex
    from agent_fabric.application.ports.wake_ups import WakeUps
    from agent_fabric.application.runs.continue_run import ContinueRun
    from agent_fabric.application.runs.reuse_answers import ReuseAnswers
    from agent_fabric.application.workflows.perform_step import PerformStep
    from agent_fabric.domain.runs.state import RunState
    from agent_fabric.domain.tools.skills import Skill
    from agent_fabric.infrastructure.sandbox.egress.policy import EgressRefusal
    from agent_fabric.infrastructure.sandbox.egress.run_proxies import RunProxies
    from agent_fabric.infrastructure.tools.mcp.lazy_servers import LazyToolServers

_MAX_NAMED_HOSTS: Final = 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driving:
    """How a process drives runs; for all but the last two see `DriveRun`."""

    sink: EventSink | None = None
    marks_interruption: bool = True
    patience_s: float = math.inf
    asks_here: bool = False
    on_settled: "Callable[[RunState], None] | None" = None
    wake_ups: "WakeUps | None" = None
    """Wakes others of a cluster."""
    role: Role = Role.PROCESS
    buffers: OpenBuffers | None = None
    """Where an editor has files of projects open; None: nowhere."""


_ALONE: Final = Driving()


@dataclass(frozen=True, slots=True)
class LocalFabric:
    """What a process needs to drive runs."""

    records: Records
    execute_task: ExecuteTask
    resume_run: ResumeRun
    cancel_run: CancelRun
    decide_approval: DecideApproval
    sandboxes: RunSandboxes
    models: LazyModels
    web: LazyWeb
    secrets: Secrets
    audit: AuditConfig
    model_keys: Container[str] = ()
    """The configured models."""
    tool_servers: "LazyToolServers | None" = None
    rules: RulePolicy = field(default_factory=RulePolicy)
    """The policy, without what is in force on nodes."""
    fleet_door: FleetDoor = field(default_factory=FleetDoor)
    """Where node tools find the machines, once a server has joined them."""

    @property
    def continue_run(self) -> "ContinueRun":
        from agent_fabric.application.runs.continue_run import ContinueRun  # noqa: PLC0415 - few runs need it

        return ContinueRun(self.records.runs, self.records.storage.reader, self.records.layout, self.model_keys)

    async def aclose(self) -> None:
        if self.audit.head_to:
            from agent_fabric.bootstrap.records import head_sender  # noqa: PLC0415 - few do

            chain, root = self.records.storage.chain, self.records.layout.root
            async with head_sender(chain, root, self.audit, self.secrets.chain.resolve) as send:
                for sentence in await send():
                    _log.warning("%s", sentence)
        if self.tool_servers is not None:
            await self.tool_servers.aclose()
        await self.sandboxes.aclose()
        if self.records.archive is not None:
            await self.records.archive.objects.aclose()
        await self.models.aclose()
        await self.web.aclose()
        self.records.close()


@asynccontextmanager
async def open_local(
    root: Path,
    loaded: Loaded,
    sink: EventSink | None,
    *,
    asks_here: bool,
    buffers: OpenBuffers | None = None,
) -> AsyncIterator[LocalFabric]:
    """Give what drives runs in this process, and close it; the sink is shown what happens."""
    observers = build_observers(loaded.config, () if sink is None else (sink,), log_to_stderr=False)
    fabric = build_local(root, loaded, Driving(sink=observers.sink, asks_here=asks_here, buffers=buffers))
    observers.redact_runs(fabric.records.storage.encryption.driven)
    try:
        await fabric.records.storage.mirrors.catch_up()
        yield fabric
    finally:
        await fabric.aclose()
        await observers.aclose()


def build_local(root: Path, loaded: Loaded, driving: Driving = _ALONE) -> LocalFabric:
    """Join the parts.

    Raises:
        StoreUnavailable: the store cannot be opened.
        ConfigError: this process has other keys than those that share its store.
    """
    parts = _open_parts(root, loaded, driving)
    config, records, policy = loaded.config, parts.records, parts.policy
    clock, runs = records.storage.clock, parts.watched_runs

    @cache
    def steps() -> "PerformStep":
        from agent_fabric.bootstrap.workflows import performing_steps  # noqa: PLC0415 - few runs need it

        return performing_steps(fabric, config, runs)

    perform = _join_perform(parts, loaded, steps)
    drive = DriveRun(
        perform,
        clock,
        driving.sink,
        driving.marks_interruption,
        parts.sandboxes,
        parts.known,
        patience_s=driving.patience_s,
        asks_here=driving.asks_here,
        archive=records.archive,
        on_settled=driving.on_settled,
    )
    fabric = LocalFabric(
        records=records,
        execute_task=ExecuteTask(
            runs=runs,
            workspaces=records.layout,
            recruit=perform.recruit,
            drive=drive,
            clock=clock,
            ids=RandomIds(),
            sandbox_level=parts.sandboxes.level,
            policy_version=policy.version,
            policy_profile=policy.profile.value,
            fabric_version=__version__,
            started_by=owner_here().run,
            injection_signals=injection_signals,
            untrusted_files=partial(_untrusted_files, config, parts.files),
            encrypts=partial(encrypted_by, config.encryption),
            visibility=Visibility(config.identity.visibility),
        ),
        resume_run=ResumeRun(
            runs=runs,
            workspaces=records.layout,
            registry=perform.registry,
            drive=drive,
            end_leftovers=parts.sandboxes.end_leftovers,
            driver=records.storage.leases.driver,
            archive=records.archive,
        ),
        cancel_run=CancelRun(records.runs, clock),
        decide_approval=DecideApproval(
            records.approvals, records.runs, lambda: policy, lambda: config.approvals.four_eyes
        ),
        sandboxes=parts.sandboxes,
        models=parts.models,
        web=parts.web,
        secrets=parts.secrets,
        tool_servers=_tool_servers(loaded, parts.secrets),
        audit=config.audit,
        model_keys=config.models.keys(),
        rules=policy,
        fleet_door=parts.door,
    )
    return fabric


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the use cases are joined from."""

    records: Records
    watched_runs: WatchedRuns
    """The runs, with an eye on the project folders that they work in."""
    policy: RulePolicy
    door: FleetDoor
    ways_out: "RunProxies | None"
    sandboxes: RunSandboxes
    known: KnownSecrets
    secrets: Secrets
    models: LazyModels
    web: LazyWeb
    files: ExposedFiles
    sandbox_for: SandboxFor
    """Gives the box of a run, as its packs see it."""


def _open_parts(root: Path, loaded: Loaded, driving: Driving) -> _Parts:
    config, sink = loaded.config, driving.sink
    address = configured_address(config.store, os.environ)
    opened = open_records(root, address, introduction=_introduction(config, driving.role))
    records = replace(opened, wake_ups=driving.wake_ups)
    if address.is_remote:
        _require_keys(records)
    policy, ways_out = policy_of(records, config), _ways_out(config, sink)
    sandboxes = RunSandboxes(
        choose_level(config.sandbox),
        config.sandbox,
        around=Surroundings(hidden=records.layout.root),
        containers=any(each.container_image for each in config.specialists.values()),
        ways_out=ways_out,
    )
    known = KnownSecrets(
        secrets_named_in(config.model_dump(exclude_defaults=True), os.environ) | own_values(os.environ)
    )
    # A workflow could make itself a token, or write into the store.
    urls = (config.identity.jwt_secret, config.store.url, config.nats.url, config.redis.url)
    never = tuple(each.name for each in (reference_in(url or "") for url in urls) if each is not None)
    secrets = open_secrets(config.secrets, records.layout.root, os.environ, known=known, never=never)
    records = _with_archive(records, config, address, secrets)
    return _Parts(
        records=records,
        watched_runs=WatchedRuns(records.runs, records.layout, *(() if sink is None else (sink.notice,))),
        policy=policy,
        door=FleetDoor(),
        ways_out=ways_out,
        sandboxes=sandboxes,
        known=known,
        secrets=secrets,
        models=LazyModels(config, secrets.chain.resolve, records.layout.root),
        web=LazyWeb(config.web),
        files=ExposedFiles(records.layout.exposed_files),
        sandbox_for=_seen_by_editor(sandboxes.for_run, driving.buffers),
    )


def _join_perform(parts: _Parts, loaded: Loaded, steps: "Callable[[], PerformStep]") -> Perform:
    """Return what carries out each part of a run."""
    config, records, door, ways_out = loaded.config, parts.records, parts.door, parts.ways_out
    policy, clock, model_turn = parts.policy, records.storage.clock, ModelTurn(parts.models, records.storage.clock)

    @cache
    def memory() -> "RunMemory":
        from agent_fabric.bootstrap.memory import open_run_memory  # noqa: PLC0415 - many runs need none

        return open_run_memory(records, config)

    def notify() -> "NotifyUser":
        from agent_fabric.application.channels.notify_user import NotifyUser  # noqa: PLC0415 - few runs need it

        return NotifyUser.of(records.storage)

    registry = PackRegistry(
        PackParts(
            specialists=config.specialists,
            sandbox_for=parts.sandbox_for,
            shell_timeout_s=config.shell.timeout_s,
            fetcher=parts.web,
            search=parts.web,
            snapshots_for=records.snapshots_for,
            # What a run has kept secret must not come to lie in the open log of another one.
            catalogue=records.storage.open_catalogue,
            memory=memory,
            clock=clock,
            locks=records.storage.agent_locks,
            tool_servers=_tool_servers(loaded, parts.secrets),
            container_for=parts.sandboxes.container_for,
            browser=config.browser,
            web_allow_hosts=config.web.allow_hosts,
            fleet=door,
            skills=_find_skills(records.layout.root),
            steps=LazySteps(parts.web, shell_timeout_s=config.shell.timeout_s, fleet=door, notify=notify),
        )
    )
    return Perform(
        registry=registry,
        recruit=replace(recruiting(config, parts.models, model_turn, loaded.left_out), has_nodes=door.has_nodes),
        models=parts.models,
        model_turn=model_turn,
        invoke_tool=InvokeTool(
            FleetPolicy(policy, door),
            clock,
            MAX_TOOL_OUTPUT_CHARS,
            parts.sandboxes.level,
            config.policy.approval_timeout_s,
            injection_signals,
            policy.named,
            parts.secrets.for_workflows,
            parts.known,
            _commands_reach(config),
            ways_out.hosts_reached if ways_out is not None else lambda _: "",
            parts.files,
            policy.limits_of,
            _altered_programs,
            LazyOutside(),
            config.policy.outside != "never",
        ),
        steps=steps,
        compare_workspace=partial(_compare_workspace, records.layout),
        context=lambda: memory().brief,
        reuse=_reuse_answers(config, records),
        context_in_sessions=config.memory.sessions,
    )


def _seen_by_editor(sandbox_for: SandboxFor, buffers: OpenBuffers | None) -> SandboxFor:
    """Return what gives the boxes of runs, with files as an editor has them open."""
    if buffers is None:
        return sandbox_for
    from agent_fabric.infrastructure.sandbox.open_buffers import BufferedBox  # noqa: PLC0415 - only beside an editor

    boxes: WeakValueDictionary[RunId, BufferedBox] = WeakValueDictionary()  # one for all packs of a run

    def for_run(run_id: RunId, workspace: str, *, network_allowed: bool) -> Sandbox:
        box = boxes.get(run_id)
        if box is None:
            inner = sandbox_for(run_id, workspace, network_allowed=network_allowed)
            box = boxes[run_id] = BufferedBox(inner, buffers, run_id, workspace)
        return box

    return for_run


def _require_keys(records: Records) -> None:
    """Check that this process has the keys of the other processes that drive runs of the same database."""
    from agent_fabric.application.cluster.require_keys import AUDIT, require_keys  # noqa: PLC0415 - most stores are files
    from agent_fabric.application.ports.key_fingerprints import ENCRYPTION  # noqa: PLC0415 - as below
    from agent_fabric.infrastructure.secrets.keyring import open_keyring  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.threads import wait_for  # noqa: PLC0415 - as above

    keyring = open_keyring(os.environ, records.layout.root)
    own = {AUDIT: audit_key(os.environ).name, ENCRYPTION: keyring.generation}
    wait_for(require_keys(records.storage.fingerprints, own, keyring.generations()))


@asynccontextmanager
async def open_project_box(root: Path, folder: Path, config: FabricConfig) -> "AsyncIterator[Sandbox]":
    """Give the box that a run in a project folder would have, without the network.

    Raises:
        ConfigError: a run must not work there.
    """
    from agent_fabric.infrastructure.runs.changes.project_folder import project_folder  # noqa: PLC0415 - one command

    around = Surroundings(hidden=root)
    sandboxes = RunSandboxes(choose_level(config.sandbox), config.sandbox, around=around)
    place = project_folder(folder, fabric_root=root)
    try:
        yield sandboxes.for_run(RandomIds().new_run_id(), str(place), network_allowed=False)
    finally:
        await sandboxes.aclose()


def _find_skills(root: Path) -> "Callable[[str, Sequence[str] | None], tuple[list[Skill], list[str]]]":
    """Return what finds the skills for the workspace of a run: those of its project if it works in one."""

    def find(workspace: str, wanted: "Sequence[str] | None") -> "tuple[list[Skill], list[str]]":
        from agent_fabric.infrastructure.tools.skills.skill_shelf import open_shelf  # noqa: PLC0415 - at the first lane

        return open_shelf(root, os.environ).usable(Path(workspace), wanted)

    return find


def _tool_servers(loaded: Loaded, secrets: Secrets) -> "LazyToolServers | None":
    if not any(each.mcp_servers for each in loaded.config.specialists.values()):
        return None
    from agent_fabric.infrastructure.tools.mcp.lazy_servers import open_tool_servers  # noqa: PLC0415 - few runs need it

    return open_tool_servers(loaded.config, loaded.origins, os.environ, secrets.chain.resolve)


def injection_signals(text: str) -> tuple[str, ...]:
    """Find signs that a text tries to give instructions."""
    from agent_fabric.domain.policy.injection.scan import signals_in  # noqa: PLC0415 - its words take their time

    return signals_in(text)


def _ways_out(config: FabricConfig, sink: EventSink | None) -> "RunProxies | None":
    """Return what lets commands reach the network, as far as the configuration allows it."""
    if config.shell.network != "allowlist":
        return None
    from agent_fabric.infrastructure.sandbox.egress.run_proxies import RunProxies  # noqa: PLC0415 - few runs need it

    def tell_refusal(run_id: RunId, refusal: "EgressRefusal") -> None:
        if sink is not None:
            sink.notice(run_id, f"network refused: {refusal.host}:{refusal.port}: {refusal.reason}")

    return RunProxies(config.egress, on_refused=tell_refusal)


def _altered_programs(workspace: str) -> frozenset[str]:
    from agent_fabric.infrastructure.sandbox.altered_programs import altered_programs  # noqa: PLC0415 - only without a box

    return altered_programs(workspace)


def _commands_reach(config: FabricConfig) -> str:
    """Name the hosts that commands in a box may reach."""
    if config.shell.network != "allowlist":
        return ""
    return ", ".join((*config.egress.allow_domains, *config.egress.allow_hosts)[:_MAX_NAMED_HOSTS])


def _introduction(config: FabricConfig, role: Role) -> Introduction:
    """Say to the others that share the store what this process is."""
    slots = 1 if role is Role.PROCESS else config.server.max_running
    cluster = config.cluster
    return Introduction(
        name=cluster.label,
        role=role,
        home=cluster.home,
        opens_saved=bool(config.workspaces.backend),
        saves_workspaces=bool(config.workspaces.backend) and config.workspaces.save == "calls",
        slots=slots,
        pools=cluster.pools,
        version=__version__,
        lease_ttl_s=cluster.lease_ttl_s,
    )


def _with_archive(records: Records, config: FabricConfig, address: StoreAddress, secrets: Secrets) -> Records:
    if not config.workspaces.backend or not address.is_remote:
        return records
    from agent_fabric.infrastructure.runs.workspaces.open_archive import open_archive  # noqa: PLC0415 - few have one

    return replace(records, archive=open_archive(config.workspaces, records.layout, secrets.chain.resolve))


def _untrusted_files(config: FabricConfig, files: ExposedFiles, run_id: RunId, workspace: str) -> str:
    """Say why a run in a project folder begins with untrusted text: all its files, or what it tells all agents."""
    if config.policy.workspace_text == "exposed":
        return WORKSPACE_FILES
    return files.exposing(workspace, NOTES_AT_TOP, reader=run_id)


async def _compare_workspace(layout: Layout, run_id: RunId, workspace: str, task: str) -> WorkspaceCompared:
    from agent_fabric.application.runs.compare_workspace import CompareWorkspace  # noqa: PLC0415 - when a task ends
    from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder  # noqa: PLC0415 - as above

    return await CompareWorkspace(ChangeRecorder(layout), layout.workspace)(run_id, workspace, task)


def recruiting(
    config: FabricConfig, models: LazyModels, model_turn: ModelTurn, left_out: Mapping[str, str]
) -> RecruitSpecialists:
    """Return the use case that chooses specialists as the configuration says."""
    return RecruitSpecialists(
        specialists=specialists_of(config.specialists),
        capabilities=CAPABILITY_KEYWORDS,
        ambiguous=AMBIGUOUS_ON_PROJECTS,
        ask_model=AskRoutingModel(model_turn, models, config.routing_model_key),
        left_out=left_out,
    )


def specialists_of(configured: Mapping[str, SpecialistConfig]) -> list[Specialist]:
    """Return the specialists that can be chosen, in the order of the configuration."""
    at_work = packs_for_projects(configured)
    return [
        Specialist(
            specialist_id=SpecialistId(name),
            description=each.description,
            keywords=each.keywords,
            capabilities=each.capabilities,
            works_on_projects=name in at_work,
        )
        for name, each in configured.items()
    ]


def packs_for_projects(specialists: Mapping[str, SpecialistConfig]) -> frozenset[str]:
    """Return the packs that work on the files of a project: those for software, else those with a builder."""
    software = {name for name, each in specialists.items() if "software" in each.capabilities}
    return frozenset(software or {name for name, each in specialists.items() if each.builder is not None})


def _reuse_answers(config: FabricConfig, records: Records) -> "ReuseAnswers | None":
    """Return what uses answers of models again; None: it is switched off, or this user has no key for it.

    Without a key, questions could be guessed from their hashes.

    Raises:
        ConfigProblem: the address of Redis is a reference that leads nowhere.
        MissingExtra: the client of Redis is not installed.
    """
    key = audit_key(os.environ)
    if not config.cache.responses or not key.value:
        return None
    from agent_fabric.application.runs.reuse_answers import ReuseAnswers  # noqa: PLC0415 - few switch it on

    index: ResponseIndex = records.storage.responses
    url = config.redis.address(os.environ)
    if url is not None and configured_address(config.store, os.environ).is_remote:
        try:
            from agent_fabric.infrastructure.cluster.redis.responses import RedisResponses  # noqa: PLC0415 - slow
        except ModuleNotFoundError:
            raise MissingExtra("cluster", needed_for="`redis.url`") from None
        index = RedisResponses(url)
    return ReuseAnswers(index, records.storage.reader, key.value)
