"""Agents as JSON objects: the same for the command line and for HTTP."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agent_fabric.application.ports.workflows import FoundAgent
from agent_fabric.domain.agents.definition import AgentDefinition, Constraints, Dependency
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.wire.definitions import AGENT_PROBLEM, CheckedFiles
from agent_fabric.wire.shape import Shape


class AgentList(NamedTuple):
    """Every agent, by name."""

    agents: Sequence[FoundAgent]
    folders: Sequence[Path]
    """Where their files are looked for."""


_LINE = "name version=definition.version role=definition.role description file=path usable=is_usable problems"
_LIMITS = (
    "max_tokens max_cost timeout=timeout_s retries parallel_allowed command_allowlist path_allowlist domain_allowlist"
)
_DEFINITION = Shape(
    AgentDefinition,
    "capabilities tools tool_servers pack? model? inputs outputs dependencies prompts constraints metadata",
    parts=[
        Shape(Parameter, "type description required *limits"),
        Shape(Dependency, "type=kind name optional purpose", name="AgentDependency"),
        Shape(Constraints, _LIMITS, name="AgentConstraints"),
    ],
)
AGENTS = Shape(AgentList, parts=[Shape(FoundAgent, _LINE, name="AgentLine", parts=[AGENT_PROBLEM])])
AGENT = Shape(
    FoundAgent,
    f"{_LINE} *definition",
    name="AgentDetails",
    about="Everything about an agent; one that cannot be used has only the fields of the list.",
    parts=[AGENT_PROBLEM, _DEFINITION],
)
CHECKED_AGENTS = Shape(CheckedFiles, "valid files problems", name="CheckedAgents", parts=[AGENT_PROBLEM])


def checked_object(found: Sequence[FoundAgent]) -> dict[str, Any]:
    """Return what is wrong with some files."""
    problems = [problem for each in found if not each.is_usable for problem in each.problems]
    files = [each.path for each in found]
    return CHECKED_AGENTS.dump(CheckedFiles(all(each.is_usable for each in found), files, problems))
