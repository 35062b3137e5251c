"""What runs are asked to do that a schedule, a delivery or a sensor starts."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, assert_never

from agent_fabric.application.agents.agent_task import task_for_agent
from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.application.fleet.fleet_policy import NODE_RUN
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import ApiKeyRepository, UserRepository
from agent_fabric.application.ports.workflows import DefinitionCatalogue, SoundWorkflow
from agent_fabric.application.runs.new_task import on_terms, task_from
from agent_fabric.application.workflows.step_tasks import StepTasks
from agent_fabric.domain.agents.definition import agent_from
from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.automation.schedule import Schedule, TargetKind
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, DefinitionNotFound, Forbidden, NodeNotFound
from agent_fabric.domain.fleet.node_tools import RUN_COMMAND
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.identity.principals import AnyScope, Kind, Principal, Scope, known_scopes, narrow_scopes, widen
from agent_fabric.domain.runs.task import Priority, RunCaps, Task
from agent_fabric.domain.workflows.definition import BuiltIn, definition_from
from agent_fabric.domain.workflows.plan import Plan, StepKind

OwnerRights = Callable[[Schedule], Awaitable[Schedule]]
"""Returns a schedule with the rights that its owner has now.

Raises:
    Forbidden: they have none any more.
"""


@dataclass(frozen=True, slots=True)
class NarrowToOwner:
    """Use case: carry out a schedule with the rights that its owner showed for it, as far as they still have them."""

    users: UserRepository
    keys: ApiKeyRepository
    clock: Clock

    async def __call__(self, schedule: Schedule) -> Schedule:
        """Return the schedule with the rights that count now.

        Raises:
            Forbidden: its owner is disabled or removed, or is a key that is revoked or has expired.
        """
        kind, _, name = schedule.owner.partition(":")
        if kind not in {Kind.USER, Kind.KEY}:
            return schedule
        has = await (self._of_user(name) if kind == Kind.USER else self._of_key(name))
        if has is None:
            raise Forbidden(
                f"{schedule.owner}, whose schedule it is, may do nothing here any more",
                hint="Remove the schedule, or let someone else make it.",
            )
        rights = narrow_scopes(known_scopes(schedule.user_scopes), has)
        return replace(schedule, user_scopes=tuple(sorted(rights)))

    async def _of_user(self, name: str) -> frozenset[AnyScope] | None:
        user = await self.users.find(name)
        return None if user is None or user.disabled else user.scopes

    async def _of_key(self, name: str) -> frozenset[AnyScope] | None:
        now = self.clock.now()
        live = [key for key in await self.keys.list() if key.name == name and key.is_live(now)]
        return widen(live[0].scopes) if live else None


_NODE_RUN: Final = {
    "name": "node-run",
    "description": "one command on a machine of the fleet",
    "inputs": {"call": {"type": "object", "required": True}},
    "steps": [
        {
            "id": "run",
            "action": NODE_RUN,
            "inputs": {name: f"{{{{ inputs.call.{name} }}}}" for name in ("node", "tool_name", "arguments")},
            "idempotent": True,
        }
    ],
    "outputs": {"stdout": "{{ run.stdout | default('') }}", "stderr": "{{ run.stderr | default('') }}"},
}
"""The call has the same execution id however often the run is taken up, so that it is carried out at most once."""


@dataclass(frozen=True, slots=True)
class ScheduledTasks:
    """Makes tasks of schedules. What a file says counts when it is fired, and is frozen into the run."""

    workflows: DefinitionCatalogue
    home: Path
    """The project beside the fabric folder."""
    caps: RunCaps | None = None
    """What runs of others than the folder's owner may use at most."""
    find_machine: Callable[[str], Awaitable[object | None]] | None = None
    """Finds an enrolled machine by its name or id."""
    rights: OwnerRights | None = None
    """What owners of schedules may still have done; None: only the folder's owner has some."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, schedule: Schedule) -> Task:
        """Return what a schedule's run is asked to do.

        Raises:
            Forbidden: its owner may do nothing here any more.
            FabricError: there is no such workflow, agent, pack, model or machine, or its inputs do not fit.
        """
        if self.rights is not None:
            schedule = await self.rights(schedule)
        if schedule.target_kind is TargetKind.AGENT and not schedule.target:
            return self._give_owner(schedule, self._instruction(schedule))
        if schedule.target_kind is TargetKind.NODE_COMMAND:
            await self._require_machine(schedule.target)
        async with self._lock:  # files are looked at by one at a time: they remember what they have read
            return self._give_owner(schedule, await asyncio.to_thread(self._task, schedule))

    async def _require_machine(self, name: str) -> None:
        if self.find_machine is not None and await self.find_machine(name) is None:
            raise NodeNotFound(f"There is no machine {name!r}", hint="See them with `fabric nodes list`.")

    def _task(self, schedule: Schedule) -> Task:
        match schedule.target_kind:
            case TargetKind.WORKFLOW:
                workflow = self.workflows.get(schedule.target)
                like = self._like(schedule, "", project=self.home if workflow.definition.triggers.here else None)
                return StepTasks(self.workflows, self.workflows.agents).of_workflow(workflow, schedule.inputs, like)
            case TargetKind.AGENT:
                return self._agent(schedule)
            case TargetKind.CHAT | TargetKind.CHANNEL:
                raise ConfigError(
                    "A schedule for a chat is fired by `fabric serve`, which answers in sessions",
                    hint="Use --server, or the target kind `agent`.",
                )
            case TargetKind.NODE_COMMAND:
                return self._node_command(schedule)
            case unknown:
                assert_never(unknown)

    def _node_command(self, schedule: Schedule) -> Task:
        """Return the task to run a command on a machine: the target is the machine, the instruction the command."""
        inputs = dict(schedule.inputs)
        if schedule.task_instruction:
            inputs.setdefault("command", schedule.task_instruction)
        if not inputs.get("command"):
            raise ConfigError(
                f"The schedule {schedule.name!r} has no command for {schedule.target}",
                hint='Give it with --do, such as: --do "systemctl restart nginx".',
            )
        workflow = SoundWorkflow(plain=_NODE_RUN, definition=definition_from(_NODE_RUN), source="")
        call = {"node": schedule.target, "tool_name": RUN_COMMAND, "arguments": inputs}
        return StepTasks(self.workflows, self.workflows.agents).of_workflow(
            workflow, {"call": call}, self._like(schedule, "")
        )

    def _agent(self, schedule: Schedule) -> Task:
        try:
            plain: Mapping[str, Any] = self.workflows.agents.plain(schedule.target)
        except DefinitionNotFound:
            if schedule.target not in self.workflows.config.specialists:
                raise
            return self._instruction(schedule)
        inputs = dict(schedule.inputs)
        definition = agent_from(plain)
        if schedule.task_instruction and not inputs and len(definition.inputs) == 1:
            inputs = {next(iter(definition.inputs)): schedule.task_instruction}
        return task_for_agent(
            self.workflows.config,
            brief_for(definition, inputs),
            model_key=schedule.required_model or None,
            priority=Priority.SCHEDULED,
        )

    def _instruction(self, schedule: Schedule) -> Task:
        return self._like(schedule, schedule.task_instruction, pack=schedule.target or schedule.agent_id or None)

    def _like(self, schedule: Schedule, prompt: str, *, pack: str | None = None, project: Path | None = None) -> Task:
        return task_from(
            self.workflows.config,
            prompt,
            pack=pack,
            model_key=schedule.required_model or None,
            priority=Priority.SCHEDULED,
            project=project,
        )

    def _give_owner(self, schedule: Schedule, task: Task) -> Task:
        """Return the task as that of the schedule's owner, with the rights that they have."""
        if schedule.on_doubt is OnDoubt.RETRY:
            require_retryable(task)
        config = self.workflows.config
        task = replace(
            on_terms(config, task, require_proof=schedule.require_proof, max_cost=schedule.max_cost),
            owner=schedule.owner,
            requested_by=schedule.requested_by,
            user_scopes=schedule.user_scopes,
            on_doubt=schedule.on_doubt,
        )
        if self.caps is None or schedule.owner == LOCAL_OWNER:
            return task
        return replace(task, budget=self.caps.lower(task.budget))


@dataclass(frozen=True, slots=True)
class TriggeredTasks:
    """Makes tasks of workflows for deliveries and happenings.

    Their text is untrusted, and private unless the configuration says otherwise.
    """

    workflows: DefinitionCatalogue
    home: Path
    """The project beside the fabric folder."""
    caps: RunCaps | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def _public(self) -> frozenset[str]:
        """The senders whose deliveries the world may have."""
        configured = self.workflows.config.webhooks.items()
        return frozenset(f"webhook {name}" for name, each in configured if not each.private)

    async def __call__(self, source: str, workflow: str, offered: Mapping[str, Any]) -> Task:
        """Return the task to carry out a workflow with those of the offered inputs that it takes.

        Raises:
            FabricError: there is no such workflow, it has problems, or it needs other inputs.
        """
        async with self._lock:  # files are looked at by one at a time: they remember what they have read
            return await asyncio.to_thread(self._task, source, workflow, offered)

    def _task(self, source: str, name: str, offered: Mapping[str, Any]) -> Task:
        workflow = self.workflows.get(name)
        taken = {each: offered[each] for each in offered if each in workflow.definition.inputs}
        project = self.home if workflow.definition.triggers.here else None
        like = task_from(self.workflows.config, "", priority=Priority.SCHEDULED, project=project)
        task = StepTasks(self.workflows, self.workflows.agents).of_workflow(workflow, taken, like)
        assert task.workflow is not None
        sender = Principal(source, Kind.EXTERNAL, widen((Scope.WORKFLOWS,)))
        private = () if source in self._public else (source,)
        frozen = replace(task.workflow, untrusted=(source,), private=private)
        task = replace(task.asked_by(sender), workflow=frozen)
        return task if self.caps is None else replace(task, budget=self.caps.lower(task.budget))


def require_retryable(task: Task) -> None:
    """Check that nothing of a task would need a person after a crash.

    Raises:
        ConfigError: it is no workflow, or has steps that are not idempotent.
    """
    if task.workflow is None:
        raise ConfigError(
            "on_doubt: retry is for workflows whose steps are idempotent; an agent decides by itself what it calls",
            hint="Use on_doubt: skip or ask, or let a workflow do it.",
        )
    called = task.workflow.workflows
    steps = [*_not_idempotent(task.workflow.definition, called)]
    if steps:
        raise ConfigError(
            f"on_doubt: retry needs steps that are idempotent, and these are not: {', '.join(steps[:10])}",
            hint="Write `idempotent: true` in each step that may happen twice, or use on_doubt: skip or ask.",
        )


def _not_idempotent(plain: Mapping[str, Any], called: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Return the steps of a workflow, and of those that it calls, about which a person would be asked."""
    plans, seen = [("", plain)], set[str]()
    while plans:
        prefix, each = plans.pop()
        for step, node in Plan(definition_from(each)).nodes.items():
            name = f"{prefix}{step}"
            if node.kind is StepKind.TOOL and not node.is_idempotent:
                yield name
            elif node.step.action == BuiltIn.INVOKE_AGENT:
                yield f"{name} (an agent)"
            elif node.step.action == BuiltIn.WORKFLOW and node.step.workflow not in called:
                yield f"{name} (a workflow)"
            elif node.step.action == BuiltIn.WORKFLOW and node.step.workflow not in seen:
                seen.add(node.step.workflow)
                plans.append((f"{name}/", called[node.step.workflow]))
