"""`fabric agents`: named agents, defined in files."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.application.agents.run_agent import RunAgent
from agent_fabric.bootstrap.agents import open_agents, task_for_agent
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.domain.agents.definition import AgentDefinition
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Priority, RunResult
from agent_fabric.infrastructure.agents.agent_files import AgentFolder, FoundAgent
from agent_fabric.interfaces.agent_views import agent_line, agent_object, problem_object
from agent_fabric.interfaces.cli.driving import drive_in_foreground
from agent_fabric.interfaces.cli.inputs import Inputs, typed_inputs
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, USAGE
from agent_fabric.interfaces.cli.options import AsJson, Verbose, Workspace, configuration, fabric_root
from agent_fabric.interfaces.cli.output import from_here, plain, plain_lines, print_json, shortened, styled
from agent_fabric.interfaces.cli.run import project_here

_HELP = """\
See and run agents: files in agent-definitions/, as JSON, YAML, or Markdown with front matter.

\b
Examples:
  fabric agents list
  fabric agents validate
  fabric agents run greeter -i name=Ada
"""

app = new_app(_HELP)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent.")]


@app.callback()
def agents() -> None:
    """See and run agents."""


@app.command("list")
def list_agents(workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show every agent, and which files are wrong."""
    folder = _folder(workspace)
    found = folder.all()
    if as_json:
        print_json({"agents": [agent_line(each) for each in found], "folders": [str(each) for each in folder.folders]})
        return
    if not found:
        where = ", ".join(plain(str(each)) for each in folder.folders)
        sys.stdout.write(f"There are no agents in {where}. See docs/guides/agents.md for a first one.\n")
        return
    width = max(len(each.name) for each in found)
    for each in found:
        sys.stdout.write(_line(each, width))


@app.command()
def show(name: Name, workspace: Workspace = None, as_json: AsJson = False) -> int:
    """Show an agent: what it takes, what it gives, and what it may do."""
    found = _folder(workspace).find(name)
    if as_json:
        print_json(agent_object(found))
    elif found.definition is None:
        _print_problems(found)
    else:
        sys.stdout.write("\n".join(_shown(found, found.definition)) + "\n")
    return USAGE if found.definition is None else COMPLETED


@app.command()
def validate(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE…]", help="The files; by default all in the folders.")
    ] = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Check files of agents: every problem with its line. Nothing is run.

    Exit codes: 0 all can be used, 2 something is wrong.
    """
    folder = _folder(workspace)
    found = folder.all() if not files else [folder.check(each) for each in files]
    wrong = [each for each in found if each.definition is None]
    if as_json:
        listed = [problem_object(problem) for each in wrong for problem in each.problems]
        print_json({"valid": not wrong, "files": [str(each.path) for each in found], "problems": listed})
        return USAGE if wrong else COMPLETED
    for each in wrong:
        _print_problems(each)
    number = f"{len(found)} {'file' if len(found) == 1 else 'files'}"
    said = f"{number} checked: {len(wrong)} wrong" if wrong else f"{number} checked: no problems"
    sys.stdout.write(f"{said}\n")
    return USAGE if wrong else COMPLETED


@app.command()
def run(
    name: Name,
    inputs: Inputs = None,
    model_key: Annotated[str | None, typer.Option(metavar="KEY", help="The configured model to use.")] = None,
    network_allowed: Annotated[bool, typer.Option(help="Whether tools may use the network.")] = True,
    here: Annotated[
        bool, typer.Option("--here", help="Work on the project in this folder; `fabric undo` takes it back.")
    ] = False,
    verbose: Verbose = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Run an agent with inputs, as a run that survives anything.

    Exit codes: 0 completed, 1 failed, 2 wrong usage, inputs or definition, 3 waiting for someone, 130 interrupted.

    \b
    Examples:
      fabric agents run greeter -i name=Ada
      fabric agents run summariser -i text=@notes.md --json
    """  # noqa: D301 - the mark makes lines stay as they are
    root = fabric_root(workspace)
    loaded = configuration(root)
    agent = open_agents(root, loaded.config).get(name)
    task = task_for_agent(
        loaded.config,
        brief_for(agent, typed_inputs(inputs, agent.inputs, of=f"The agent {agent.name!r}")),
        model_key=model_key,
        network_allowed=network_allowed,
        priority=Priority.INTERACTIVE,
        project=project_here(root, loaded.config) if here else None,
    )

    async def work(fabric: LocalFabric, on_created: Callable[[RunId], None]) -> RunResult:
        return await RunAgent(fabric.execute_task)(task, on_created=on_created)

    return drive_in_foreground(root, loaded, work, verbose=verbose, as_json=as_json)


def _folder(workspace: str | None) -> AgentFolder:
    root = fabric_root(workspace)
    return open_agents(root, configuration(root).config)


def _line(found: FoundAgent, width: int) -> str:
    if found.definition is None:
        said = shortened(found.problems[0].message, 80) if found.problems else ""
        return f"{plain(found.name):<{width}}  {styled('cannot be used', 'red', sys.stdout)}: {said}\n"
    agent = found.definition
    return f"{plain(found.name):<{width}}  {plain(agent.version)}  {agent.role}  {shortened(agent.description, 80)}\n"


def _print_problems(found: FoundAgent) -> None:
    for problem in found.problems:
        sys.stdout.write(f"{plain_lines(str(replace(problem, file=from_here(problem.file))))}\n")


def _shown(found: FoundAgent, agent: AgentDefinition) -> Sequence[str]:
    facts = agent_object(found)
    lines = [f"{styled(agent.name, 'bold', sys.stdout)} {agent.version} ({agent.role})"]
    if agent.description:
        lines.append(plain(agent.description))
    for title in ("inputs", "outputs"):
        lines.append(f"{title}:" if facts[title] else f"{title}: none")
        lines.extend(_parameter_line(name, each) for name, each in facts[title].items())
    tools = [*facts["tools"], *(f"those of {server}" for server in facts["tool_servers"])]
    from_pack = f"those of the pack {agent.pack}" if agent.pack and not agent.capabilities else ""
    lines.append(f"tools: {', '.join(filter(None, [*tools, from_pack])) or 'none'}")
    lines.extend(f"{key}: {plain(facts[key])}" for key in ("pack", "model") if facts[key])
    limits = [f"{key} {value}" for key, value in facts["constraints"].items() if value and value is not True]
    if not agent.constraints.parallel_allowed:
        limits.append("one at a time")
    if limits:
        lines.append(f"constraints: {', '.join(limits)}")
    lines.extend(
        f"needs: {each['type']} {plain(each['name'])}{' (optional)' if each['optional'] else ''}"
        for each in facts["dependencies"]
    )
    lines.append(f"file: {plain(str(found.path))}")
    return lines


def _parameter_line(name: str, facts: dict[str, object]) -> str:
    mark = "required" if facts["required"] else f"default {facts['default']!r}" if "default" in facts else "optional"
    about = f": {shortened(str(facts['description']), 80)}" if facts["description"] else ""
    return f"  {plain(name)} ({facts['type']}, {mark}){about}"
