"""Who does tasks, as models: `pack/NAME` or just NAME, `agent/NAME`, `workflow/NAME`, and `fabric`, which chooses."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json

from agent_fabric.application.agents.agent_task import task_for_agent
from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.application.packs.recruit import parse_pack_names
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.agents import ServedAgents
from agent_fabric.bootstrap.workflows import ServedWorkflows, Workflows
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.chat.conversation import Asked, transcript
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.errors import DefinitionNotFound, FabricError, InvalidInputs
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.runs.task import Task
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.interfaces.http.locks import must_be_allowed

_TEXT_TYPES = ("string", "any")


def inputs_in(text: str, declared: Mapping[str, Parameter], *, of: str) -> Mapping[str, Any]:
    """Return the inputs of a workflow or an agent: those of a JSON object, or the text as its one text input.

    Raises:
        InvalidInputs: it takes more than one, or one that is no text.
    """
    given = _object_in(text)
    if given is not None:
        if too_deep(given, text):
            raise InvalidInputs("The inputs are nested too deep", hint="Give long material as text or as files.")
        return given
    if not declared:
        return {}  # there is nothing to give, but a chat cannot be without words
    needed = [name for name, each in declared.items() if each.required and not each.has_default]
    candidates = needed or list(declared)
    if len(candidates) == 1 and declared[candidates[0]].type in _TEXT_TYPES:
        return {candidates[0]: text}
    shown = ", ".join(f"{name} ({_kind(each)})" for name, each in declared.items())
    example = ", ".join(f'"{name}": …' for name in candidates[:4])
    raise InvalidInputs(
        f"{of} takes more than one text. Its inputs: {shown}",
        hint=f"Send them as a JSON object: {{{example}}}",
    )


def _kind(parameter: Parameter) -> str:
    return f"{parameter.type}, required" if parameter.required and not parameter.has_default else parameter.type


def _object_in(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


CHOOSES = "fabric"
PACK, AGENT, WORKFLOW = "pack/", "agent/", "workflow/"
OWNER = "agent-fabric"


class ModelNotFound(FabricError):
    """No model of this name exists."""

    code = "model_not_found"


class Offered(NamedTuple):
    """A pack, agent or workflow that does tasks."""

    id: str
    description: str


class Models:
    """All who do tasks."""

    def __init__(self, config: FabricConfig, agents: ServedAgents, workflows: ServedWorkflows) -> None:
        self._config, self._agents, self._workflows = config, agents, workflows
        self._since = int(time.time())

    async def all(self) -> list[Offered]:
        """Return all models that can be used; files that are wrong are left out."""
        agents = await self._agents.list()
        workflows = await self._workflows.ask(lambda workflows: workflows.files.list())
        return [
            Offered(CHOOSES, "Chooses the specialist, or several, that a task needs."),
            *(Offered(f"{PACK}{name}", each.description) for name, each in self._config.specialists.items()),
            *(Offered(f"{AGENT}{each.name}", each.definition.description) for each in agents if each.definition),
            *(
                Offered(f"{WORKFLOW}{each.name}", each.definition.description)
                for each in workflows
                if each.definition and each.definition.triggers.manual
            ),
        ]

    def model_object(self, offered: Offered) -> dict[str, Any]:
        """Return a model as OpenAI's API shows it."""
        return {
            "id": offered.id,
            "object": "model",
            "created": self._since,
            "owned_by": OWNER,
            "name": offered.id,
            "description": offered.description,
        }

    async def find(self, model: str) -> Offered:
        """Return a model by its id; of a pack, the bare name will do.

        Raises:
            ModelNotFound: there is none.
        """
        offered = await self.all()
        for each in offered:
            if each.id in (model, f"{PACK}{model}"):
                return each
        raise _unknown(model, [each.id for each in offered])

    async def task(self, model: str, asked: Asked, principal: Principal) -> Task:
        """Return the task for a model.

        Raises:
            ModelNotFound: there is none of this name.
            Forbidden: the caller may not.
            InvalidInputs: an agent or a workflow needs other inputs.
            FabricError: its file is wrong.
        """
        must_be_allowed(principal, right_for(model))
        if model.startswith((AGENT, WORKFLOW)):
            kind, _, name = model.partition("/")
            try:
                task = await (self._agent(name, asked) if kind == "agent" else self._workflow(name, asked))
            except DefinitionNotFound as problem:
                raise ModelNotFound(problem.message, hint=problem.hint) from None
        else:
            task = task_from(self._config, asked.prompt, pack=await self._packs(model))
        return task.asked_by(principal)

    async def _packs(self, model: str) -> str | None:
        """Return the packs that a model's id names; None: one is to be chosen."""
        named, known = parse_pack_names(model.removeprefix(PACK)), self._config.specialists
        if named and all(name in known for name in named):
            return ",".join(named)
        if model == CHOOSES:
            return None
        raise _unknown(model, [*known, *(each.id for each in await self.all())])

    async def _agent(self, name: str, asked: Asked) -> Task:
        agent = await self._agents.get(name)
        inputs = inputs_in(asked.text, agent.inputs, of=f"The agent {name!r}")
        brief = brief_for(agent, inputs, context=transcript(asked.background))
        return task_for_agent(self._config, brief)

    async def _workflow(self, name: str, asked: Asked) -> Task:
        def task(workflows: Workflows) -> Task:
            workflow = workflows.get(name)
            inputs = inputs_in(asked.text, workflow.definition.inputs, of=f"The workflow {name!r}")
            return workflows.task(workflow, inputs)

        return await self._workflows.ask(task)


def model_of(task: Task) -> str:
    """Return the id of the model that was asked for a task."""
    if task.workflow is not None:
        return f"{WORKFLOW}{task.workflow.definition['name']}"
    if task.agent is not None:
        return f"{AGENT}{task.agent.name}"
    return f"{PACK}{','.join(task.specialist_ids)}" if task.specialist_ids else CHOOSES


def right_for(model: str) -> Scope:
    """Return what must be allowed to those who let a model work."""
    return Scope.WORKFLOWS if model.startswith((AGENT, WORKFLOW)) else Scope.RUNS


def _unknown(model: str, known: Sequence[str]) -> ModelNotFound:
    shown = model if len(model) <= 100 else f"{model[:100]}…"
    return ModelNotFound(f"There is no model {shown!r}", hint=did_you_mean(model, known))
