"""Joins everything for one process on one machine."""

import logging
import math
import os
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric import __version__
from agent_fabric.application.approvals.decide_approval import DecideApproval
from agent_fabric.application.fleet.fleet_policy import FleetDoor, FleetPolicy
from agent_fabric.application.models.model_turn import ModelTurn
from agent_fabric.application.packs.ask_routing_model import AskRoutingModel
from agent_fabric.application.packs.recruit import RecruitSpecialists
from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.new_task import encrypted_by
from agent_fabric.application.runs.perform import Perform
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.bootstrap.lazy_memory import lazy_memory
from agent_fabric.bootstrap.lazy_outside import LazyOutside
from agent_fabric.bootstrap.lazy_web import LazyWeb
from agent_fabric.bootstrap.models import LazyModels
from agent_fabric.bootstrap.records import Records, open_records, owner_here
from agent_fabric.bootstrap.secrets import Secrets, open_secrets, own_values
from agent_fabric.bootstrap.steps import LazySteps
from agent_fabric.bootstrap.store_place import configured_address
from agent_fabric.config.constants import MAX_TOOL_OUTPUT_CHARS
from agent_fabric.config.loader import Loaded
from agent_fabric.config.schema.audit import AuditConfig
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.config.secret_references import reference_in, secrets_named_in
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.packs.recruitment import Specialist
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.labels import WORKSPACE_FILES
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.domain.tools.capabilities import AMBIGUOUS_ON_PROJECTS, CAPABILITY_KEYWORDS
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.packs.project_context import FILE as PROJECT_CONTEXT
from agent_fabric.infrastructure.packs.registry import PackParts, PackRegistry
from agent_fabric.infrastructure.policy.load import policy_from
from agent_fabric.infrastructure.runs.changes.exposed_files import ExposedFiles
from agent_fabric.infrastructure.runs.changes.watched_runs import WatchedRuns
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.sandbox.levels import choose_level
from agent_fabric.infrastructure.sandbox.levels_boxes import Surroundings
from agent_fabric.infrastructure.sandbox.levels_runs import RunSandboxes

if TYPE_CHECKING:
    from agent_fabric.application.ports.wake_ups import WakeUps
    from agent_fabric.application.runs.continue_run import ContinueRun
    from agent_fabric.application.runs.reuse_answers import ReuseAnswers
    from agent_fabric.application.workflows.perform_step import PerformStep
    from agent_fabric.domain.runs.state import RunState
    from agent_fabric.infrastructure.sandbox.egress.policy import EgressRefusal
    from agent_fabric.infrastructure.sandbox.egress.run_proxies import RunProxies
    from agent_fabric.infrastructure.tools.mcp.lazy_servers import LazyToolServers

_log = logging.getLogger(__name__)


_MAX_NAMED_HOSTS = 10


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
        """Follows up runs that have ended."""
        from agent_fabric.application.runs.continue_run import ContinueRun  # noqa: PLC0415 - few runs need it

        return ContinueRun(self.records.runs, self.records.storage.reader, self.records.layout, self.model_keys)

    async def aclose(self) -> None:
        """Close connections and the store."""
        if self.audit.head_to:
            from agent_fabric.bootstrap.audit_heads import send_head_once  # noqa: PLC0415 - few do

            chain, root = self.records.storage.chain, self.records.layout.root
            for sentence in await send_head_once(chain, root, self.audit, self.secrets.chain.resolve):
                _log.warning("%s", sentence)
        if self.tool_servers is not None:
            await self.tool_servers.aclose()
        await self.sandboxes.aclose()
        if self.records.archive is not None:
            await self.records.archive.objects.aclose()
        await self.models.aclose()
        await self.web.aclose()
        self.records.close()


def build_local(  # noqa: PLR0913 - each is a part that only some callers join
    root: Path,
    config: FabricConfig,
    *,
    left_out: Mapping[str, str] | None = None,
    origins: Mapping[str, str] | None = None,
    sink: EventSink | None = None,
    marks_interruption: bool = True,
    patience_s: float = math.inf,
    asks_here: bool = False,
    wake_ups: "WakeUps | None" = None,
    role: Role = Role.PROCESS,
    on_settled: "Callable[[RunState], None] | None" = None,
) -> LocalFabric:
    """Join the parts; for `left_out` and `origins` see `Loaded`, for the next three and `on_settled` `DriveRun`."""
    address = configured_address(config.store, os.environ)
    said = _introduction(config, role)
    records = replace(open_records(root, address, introduction=said), wake_ups=wake_ups)
    if address.is_remote:
        from agent_fabric.bootstrap.cluster_keys import require_driver_keys  # noqa: PLC0415 - most stores are files

        require_driver_keys(records.storage, records.layout.root)
    clock = records.storage.clock
    policy, door = policy_of(records, config), FleetDoor()
    ways_out = _ways_out(config, sink)
    sandboxes = RunSandboxes(
        choose_level(config.sandbox),
        config.sandbox,
        around=Surroundings(hidden=records.layout.root),
        containers=any(each.container_image for each in config.specialists.values()),
        ways_out=ways_out,
    )
    known = _known_secrets(config)
    # A workflow could make itself a token, or write into the store.
    own = (
        reference_in(each or "")
        for each in (config.identity.jwt_secret, config.store.url, config.nats.url, config.redis.url)
    )
    never = tuple(each.name for each in own if each is not None)
    secrets = open_secrets(config.secrets, records.layout.root, os.environ, known=known, never=never)
    records = _with_archive(records, config, address, secrets)
    models, web = LazyModels(config, secrets.chain.resolve, records.layout.root), LazyWeb(config.web)
    tool_servers = _tool_servers(config, origins or {}, secrets)

    memory = lazy_memory(records, config)
    registry = PackRegistry(
        PackParts(
            specialists=config.specialists,
            sandbox_for=sandboxes.for_run,
            shell_timeout_s=config.shell.timeout_s,
            fetcher=web,
            search=web,
            snapshots_for=records.snapshots_for,
            # What a run has kept secret must not come to lie in the open log of another one.
            catalogue=records.storage.open_catalogue,
            memory=memory,
            clock=clock,
            locks=records.storage.agent_locks,
            tool_servers=_tool_servers(config, origins or {}, secrets),
            container_for=sandboxes.container_for,
            browser=config.browser,
            web_allow_hosts=config.web.allow_hosts,
            fleet=door,
            steps=LazySteps(web, shell_timeout_s=config.shell.timeout_s, fleet=door, storage=records.storage),
        )
    )
    model_turn = ModelTurn(models, clock)

    @cache
    def steps() -> "PerformStep":
        from agent_fabric.bootstrap.workflows import performing_steps  # noqa: PLC0415 - few runs need it

        return performing_steps(fabric, config, watched)

    files = ExposedFiles(records.layout.exposed_files)
    perform = Perform(
        registry=registry,
        recruit=replace(recruiting(config, models, model_turn, left_out or {}), has_nodes=door.has_nodes),
        models=models,
        model_turn=model_turn,
        invoke_tool=InvokeTool(
            FleetPolicy(policy, door),
            clock,
            MAX_TOOL_OUTPUT_CHARS,
            sandboxes.level,
            config.policy.approval_timeout_s,
            injection_signals,
            policy.named,
            secrets.for_workflows,
            known,
            _commands_reach(config),
            ways_out.hosts_reached if ways_out is not None else lambda _: "",
            files,
            policy.limits_of,
            _altered_programs,
            None if config.policy.outside == "never" else LazyOutside(),
        ),
        steps=steps,
        compare_workspace=partial(_compare_workspace, records.layout),
        context=lambda: memory().brief,
        reuse=_reuse(config, records),
        context_in_sessions=config.memory.sessions,
    )
    watched = _watched(records, sink)
    drive = DriveRun(
        perform,
        clock,
        sink,
        marks_interruption,
        sandboxes,
        known,
        patience_s=patience_s,
        asks_here=asks_here,
        archive=records.archive,
        on_settled=on_settled,
    )
    fabric = LocalFabric(
        records=records,
        execute_task=ExecuteTask(
            runs=watched,
            workspaces=records.layout,
            recruit=perform.recruit,
            drive=drive,
            clock=clock,
            ids=RandomIds(),
            sandbox_level=sandboxes.level,
            policy_version=policy.version,
            policy_profile=policy.profile.value,
            fabric_version=__version__,
            started_by=owner_here().run,
            injection_signals=injection_signals,
            untrusted_files=partial(_untrusted_files, config, files),
            encrypts=partial(encrypted_by, config.encryption),
            visibility=Visibility(config.identity.visibility),
        ),
        resume_run=ResumeRun(
            runs=watched,
            workspaces=records.layout,
            registry=registry,
            drive=drive,
            end_leftovers=sandboxes.end_leftovers,
            driver=records.storage.leases.driver,
            archive=records.archive,
        ),
        cancel_run=cancel_run(records),
        decide_approval=DecideApproval(
            records.approvals, records.runs, lambda: policy, lambda: config.approvals.four_eyes
        ),
        sandboxes=sandboxes,
        models=models,
        web=web,
        secrets=secrets,
        tool_servers=tool_servers,
        audit=config.audit,
        model_keys=config.models.keys(),
        rules=policy,
        fleet_door=door,
    )
    return fabric


def _tool_servers(config: FabricConfig, origins: Mapping[str, str], secrets: Secrets) -> "LazyToolServers | None":
    if not any(each.mcp_servers for each in config.specialists.values()):
        return None
    from agent_fabric.bootstrap.mcp import open_tool_servers  # noqa: PLC0415 - few runs need it

    return open_tool_servers(config, origins, os.environ, secrets.chain.resolve)


def injection_signals(text: str) -> tuple[str, ...]:
    """Find signs that a text tries to give instructions."""
    from agent_fabric.domain.policy.injection.scan import signals_in  # noqa: PLC0415 - its words take their time

    return signals_in(text)


def _ways_out(config: FabricConfig, sink: EventSink | None) -> "RunProxies | None":
    """Return what lets commands reach the network, as far as the configuration allows it."""
    if config.shell.network != "allowlist":
        return None
    from agent_fabric.infrastructure.sandbox.egress.run_proxies import RunProxies  # noqa: PLC0415 - few runs need it

    def refused(run_id: RunId, refusal: "EgressRefusal") -> None:
        if sink is not None:
            sink.notice(run_id, f"network refused: {refusal.host}:{refusal.port}: {refusal.reason}")

    return RunProxies(config.egress, on_refused=refused)


def _altered_programs(workspace: str) -> frozenset[str]:
    from agent_fabric.infrastructure.sandbox.altered_programs import (  # noqa: PLC0415 - only without a box
        altered_programs,
    )

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
    from agent_fabric.bootstrap.workspaces import open_archive  # noqa: PLC0415 - few have one

    return replace(records, archive=open_archive(config.workspaces, records.layout, secrets.chain.resolve))


def _untrusted_files(config: FabricConfig, files: ExposedFiles, run_id: RunId, workspace: str) -> str:
    """Say why a run in a project folder begins with strangers' text: all its files, or what it tells all agents."""
    if config.policy.workspace_text == "exposed":
        return WORKSPACE_FILES
    return files.exposing(workspace, (PROJECT_CONTEXT,), reader=run_id)


async def _compare_workspace(layout: Layout, run_id: RunId, workspace: str, task: str) -> WorkspaceCompared:
    from agent_fabric.application.runs.compare_workspace import CompareWorkspace  # noqa: PLC0415 - when a task ends
    from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder  # noqa: PLC0415 - as above

    return await CompareWorkspace(ChangeRecorder(layout), layout.workspace)(run_id, workspace, task)


def _watched(records: Records, sink: EventSink | None) -> WatchedRuns:
    """Return the runs, with an eye on the project folders that they work in."""
    if sink is None:
        return WatchedRuns(records.runs, records.layout)
    return WatchedRuns(records.runs, records.layout, sink.notice)


def _known_secrets(config: FabricConfig) -> KnownSecrets:
    """Return the values that the configuration refers to, and what opens agent-fabric itself."""
    named = secrets_named_in(config.model_dump(exclude_defaults=True), os.environ)
    return KnownSecrets(named | own_values(os.environ))


def recruiting(
    config: FabricConfig, models: LazyModels, model_turn: ModelTurn, left_out: Mapping[str, str]
) -> RecruitSpecialists:
    """Return the use case that chooses specialists as the configuration says."""
    at_work = packs_for_projects(config.specialists)
    return RecruitSpecialists(
        specialists=[
            Specialist(
                specialist_id=SpecialistId(name),
                description=each.description,
                keywords=each.keywords,
                capabilities=each.capabilities,
                works_on_projects=name in at_work,
            )
            for name, each in config.specialists.items()
        ],
        capabilities=CAPABILITY_KEYWORDS,
        ambiguous=AMBIGUOUS_ON_PROJECTS,
        ask_model=AskRoutingModel(model_turn, models, config.routing_model_key),
        left_out=left_out,
    )


def packs_for_projects(specialists: Mapping[str, SpecialistConfig]) -> frozenset[str]:
    """Return the packs that work on the files of a project: those for software, else those with a builder."""
    software = {name for name, each in specialists.items() if "software" in each.capabilities}
    return frozenset(software or {name for name, each in specialists.items() if each.builder is not None})


def _reuse(config: FabricConfig, records: Records) -> "ReuseAnswers | None":
    """Return what uses answers of models again, where that is switched on."""
    if not config.cache.responses:
        return None
    from agent_fabric.bootstrap.responses import open_reuse  # noqa: PLC0415 - few switch it on

    return open_reuse(config, records.storage)


def cancel_run(records: Records) -> CancelRun:
    """Return the use case that ends runs; it needs no model and no configuration."""
    return CancelRun(records.runs, SystemClock())


def decide_approval(records: Records, loaded: Callable[[], Loaded]) -> DecideApproval:
    """Return the use case that answers runs; the configuration is read only if that needs it."""
    return DecideApproval(
        records.approvals,
        records.runs,
        lambda: policy_of(records, loaded().config),
        lambda: loaded().config.approvals.four_eyes,
    )


def policy_of(records: Records, config: FabricConfig) -> RulePolicy:
    """Return the policy that the configuration describes.

    Raises:
        ConfigProblem: a file or a rule cannot be used.
    """
    return policy_from(config.policy, config.shell, config.web, folder=records.layout.root)
