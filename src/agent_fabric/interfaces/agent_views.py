"""Agents as JSON objects: the same for the command line and for HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.domain.agents.capabilities import servers_of, tools_of
from agent_fabric.domain.agents.definition import AgentDefinition
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.infrastructure.agents.agent_files import FoundAgent
from agent_fabric.wire.definitions import AGENT_PROBLEM


def agent_line(found: FoundAgent) -> dict[str, Any]:
    """Return what a list shows of an agent."""
    agent = found.definition
    return {
        "name": found.name,
        "version": agent.version if agent else None,
        "role": agent.role.value if agent else None,
        "description": agent.description if agent else "",
        "file": str(found.path),
        "usable": agent is not None,
        "problems": [AGENT_PROBLEM.dump(each) for each in found.problems],
    }


def agent_object(found: FoundAgent) -> dict[str, Any]:
    """Return everything about an agent."""
    return agent_line(found) if found.definition is None else {**agent_line(found), **_details(found.definition)}


def checked_object(found: Sequence[FoundAgent]) -> dict[str, Any]:
    """Return what is wrong with some files."""
    wrong = [each for each in found if each.definition is None]
    problems = [AGENT_PROBLEM.dump(problem) for each in wrong for problem in each.problems]
    return {"valid": not wrong, "files": [str(each.path) for each in found], "problems": problems}


def _details(agent: AgentDefinition) -> dict[str, Any]:
    limits = agent.constraints
    return {
        "capabilities": list(agent.capabilities),
        "tools": sorted(tools_of(agent.capabilities)),
        "tool_servers": list(servers_of(agent.capabilities)),
        "pack": agent.pack or None,
        "model": agent.model or None,
        "inputs": _parameters(agent.inputs),
        "outputs": _parameters(agent.outputs),
        "dependencies": [
            {"type": each.kind.value, "name": each.name, "optional": each.optional, "purpose": each.purpose}
            for each in agent.dependencies
        ],
        "prompts": {
            "system": agent.prompts.system,
            "user": agent.prompts.user,
            "examples": [{"input": each.input, "output": each.output} for each in agent.prompts.examples],
        },
        "constraints": {
            "max_tokens": limits.max_tokens,
            "timeout": limits.timeout_s,
            "retries": limits.retries,
            "parallel_allowed": limits.parallel_allowed,
            "command_allowlist": list(limits.command_allowlist),
            "path_allowlist": list(limits.path_allowlist),
            "domain_allowlist": list(limits.domain_allowlist),
        },
        "metadata": dict(agent.metadata),
    }


def _parameters(declared: Mapping[str, Parameter]) -> dict[str, Any]:
    return {
        name: {
            "type": each.type,
            "description": each.description,
            "required": each.required,
            **({"default": each.default} if each.has_default else {}),
            **({"enum": list(each.choices)} if each.choices else {}),
        }
        for name, each in declared.items()
    }
