"""How `fabric agents run` carries out an agent: in this process, or at a server."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_fabric.application.agents.agent_task import task_for_agent
from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.application.agents.run_agent import RunAgent, worth_another_attempt
from agent_fabric.application.runs.new_task import on_terms
from agent_fabric.bootstrap.agents import open_agents
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.runs.task import Priority, RunResult
from agent_fabric.interfaces.cli.options import configuration, strangers_text
from agent_fabric.interfaces.cli.place import Place
from agent_fabric.interfaces.cli.runs.driving import drive_in_foreground
from agent_fabric.interfaces.cli.runs.foreground import LocalForeground, foreground_elsewhere, foreground_here
from agent_fabric.interfaces.cli.runs.run_task import project_here
from agent_fabric.interfaces.cli.workflows.inputs import typed_inputs

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.runs.foreground_remote import RemoteForeground


class AgentCall(NamedTuple):
    """An agent with what was typed for it."""

    name: str
    inputs: Sequence[str]
    model_key: str | None
    network_allowed: bool
    here: bool
    untrusted: bool
    encrypt: bool
    visibility: Visibility | None
    require_proof: bool
    max_cost: float | None


def run_agent(call: AgentCall, at: Place, *, verbose: bool) -> int:
    """Run an agent, show what it does, and return the exit code."""
    url = at.url(local_only=call.here)
    overrides = strangers_text(call.untrusted, here=call.here)
    if url is not None:
        opens = foreground_elsewhere(url, here=call.here)
        options: dict[str, Any] = {"model_key": call.model_key, "network_allowed": call.network_allowed}
        options |= {"encrypt": call.encrypt, "visibility": call.visibility}
        options |= {"require_proof": call.require_proof, "max_cost": call.max_cost}
        return drive_in_foreground(
            opens, lambda there: _run_there(there, call.name, call.inputs, options), at, verbose=verbose
        )
    root = at.root()
    loaded = configuration(root, overrides)
    agent = open_agents(root, loaded.config).get(call.name)
    task = task_for_agent(
        loaded.config,
        brief_for(agent, typed_inputs(call.inputs, agent.inputs, of=f"The agent {agent.name!r}")),
        model_key=call.model_key,
        network_allowed=call.network_allowed,
        priority=Priority.INTERACTIVE,
        project=project_here(root, loaded.config) if call.here else None,
    )
    task = replace(task, encrypted=task.encrypted or call.encrypt, visibility=call.visibility)
    task = on_terms(loaded.config, task, require_proof=call.require_proof, max_cost=call.max_cost)

    async def work(foreground: LocalForeground) -> RunResult:
        return await RunAgent(foreground.fabric.execute_task)(task, on_created=foreground.note_created)

    return drive_in_foreground(foreground_here(root, loaded), work, at, verbose=verbose)


async def _run_there(there: "RemoteForeground", name: str, inputs: Sequence[str], options: dict[str, Any]) -> RunResult:
    """Let a server run the agent; what fails for now is tried again as often as the agent says, as here."""
    agents = there.client.agents
    found = await agents.show(name)
    given: dict[str, Any] = {}
    if found["usable"]:  # if not, the server says why
        declared = {key: Parameter.from_plain(each) for key, each in found["inputs"].items()}
        given = typed_inputs(inputs, declared, of=f"The agent {found['name']!r}")
    for _ in range(found["constraints"]["retries"] if found["usable"] else 0):
        result = await there.start(agents.start(name, given, **options))
        if not worth_another_attempt(result):
            return result
    return await there.start(agents.start(name, given, **options))
