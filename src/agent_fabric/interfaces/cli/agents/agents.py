"""`fabric agents`: named agents, defined in files."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.bootstrap.agents import open_agents
from agent_fabric.config.files import read_text
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.agents.check import KnownToAgents
from agent_fabric.infrastructure.agents.agent_files import AgentFolder
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, USAGE
from agent_fabric.interfaces.cli.options import (
    Encrypt,
    Here,
    MaxCost,
    NetworkAllowed,
    RequireProof,
    SeenBy,
    Untrusted,
    Verbose,
    configuration,
)
from agent_fabric.interfaces.cli.output import colour, fit_width, plain
from agent_fabric.interfaces.cli.place import Noun, Place, with_client
from agent_fabric.interfaces.cli.place import here as here_at
from agent_fabric.interfaces.cli.workflows.definition_problems import count_checked, join_checks, problem_lines
from agent_fabric.interfaces.cli.workflows.inputs import Inputs
from agent_fabric.interfaces.views.agents import AGENT, AGENTS, AgentList, checked_object
from agent_fabric.wire.shape import Json

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


class _LocalAgents:
    """The agents of a fabric folder."""

    def __init__(self, at: Place) -> None:
        root = at.root()
        self.folder = open_agents(root, configuration(root).config)

    async def everything(self) -> Json:
        return AGENTS.dump(AgentList(self.folder.all(), self.folder.folders))

    async def show(self, name: str) -> Json:
        return AGENT.dump(self.folder.find(name))


_agents = Noun(here_at(_LocalAgents), lambda client: client.agents)


@app.command("list")
def list_agents(*, at: Place) -> int:
    """Show every agent, and which files are wrong."""
    shown = _agents(at, lambda agents: agents.everything())
    found = shown["agents"]
    width = max((len(each["name"]) for each in found), default=0)
    where = ", ".join(plain(each) for each in shown["folders"])
    none = f"There are no agents in {where}. See docs/guides/agents.md for a first one.\n"
    return at.print(shown, "".join(_line(each, width) for each in found) or none)


@app.command()
def show(name: Name, *, at: Place) -> int:
    """Show an agent: what it takes, what it gives, and what it may do."""
    found = _agents(at, lambda agents: agents.show(name))
    at.print(found, "".join(f"{line}\n" for line in (_lines if found["usable"] else problem_lines)(found)))
    return COMPLETED if found["usable"] else USAGE


@app.command()
def validate(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE…]", help="The files; by default all in the folders.")
    ] = None,
    *,
    at: Place,
) -> int:
    """Check files of agents: every problem with its line. Nothing is run.

    With a server, files of this machine are checked together with the server's agents.

    Exit codes: 0 all can be used, 2 something is wrong.
    """
    url = at.url()
    if url is None:
        folder = _LocalAgents(at).folder
        checked: Json = checked_object(folder.all() if not files else [folder.check(each) for each in files])
    elif not files:
        checked = with_client(url, lambda client: client.agents.validate())
    else:
        checked = join_checks(_checked_at(url, each.absolute()) for each in files)
    at.print(checked, "".join(f"{line}\n" for line in (*problem_lines(checked), count_checked(checked))))
    return COMPLETED if checked["valid"] else USAGE


def _checked_at(url: str, path: Path) -> Json:
    """Let a server check a file of this machine."""
    try:
        text = read_text(path)
    except ConfigProblem:
        return checked_object([AgentFolder((), KnownToAgents()).check(path)])  # says why it cannot be read
    return with_client(url, lambda client: client.agents.validate(text, file=str(path)))


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the options are a contract with the users
    name: Name,
    inputs: Inputs = None,
    model_key: Annotated[str | None, typer.Option(metavar="KEY", help="The configured model to use.")] = None,
    network_allowed: NetworkAllowed = True,
    here: Here = False,
    untrusted: Untrusted = False,
    encrypt: Encrypt = False,
    visibility: SeenBy = None,
    verbose: Verbose = False,
    require_proof: RequireProof = False,
    max_cost: MaxCost = None,
    *,
    at: Place,
) -> int:
    """Run an agent with inputs, as a durable run.

    Exit codes: 0 completed, 1 failed, 2 wrong usage, inputs or definition, 3 waiting for input, 4 what it was for was
    denied or failed, 5 nothing bears the result out though proof was required, 130 interrupted.

    \b
    Examples:
      fabric agents run greeter -i name=Ada
      fabric agents run summariser -i text=@notes.md --json
    """  # noqa: D301 - the mark makes lines stay as they are
    from agent_fabric.interfaces.cli.agents.driving import AgentCall, run_agent  # noqa: PLC0415 - what drives runs takes its time

    call = AgentCall(
        name, inputs or (), model_key, network_allowed, here, untrusted, encrypt, visibility, require_proof, max_cost
    )
    return run_agent(call, at, verbose=verbose)


def _line(found: Json, width: int) -> str:
    name = f"{plain(found['name']):<{width}}"
    if not found["usable"]:
        said = fit_width(found["problems"][0]["message"], 80, sys.stdout) if found["problems"] else ""
        return f"{name}  {colour('cannot be used', 'red', sys.stdout)}: {said}\n"
    about = fit_width(found["description"], 80, sys.stdout)
    return f"{name}  {plain(found['version'])}  {plain(found['role'])}  {about}\n"


def _lines(facts: Json) -> Sequence[str]:
    lines = [f"{colour(plain(facts['name']), 'bold', sys.stdout)} {plain(facts['version'])} ({plain(facts['role'])})"]
    if facts["description"]:
        lines.append(plain(facts["description"]))
    for title in ("inputs", "outputs"):
        lines.append(f"{title}:" if facts[title] else f"{title}: none")
        lines.extend(_parameter_line(name, each) for name, each in facts[title].items())
    tools = [*facts["tools"], *(f"those of {server}" for server in facts["tool_servers"])]
    from_pack = f"those of the pack {facts['pack']}" if facts["pack"] and not facts["capabilities"] else ""
    lines.append(f"tools: {plain(', '.join(filter(None, [*tools, from_pack]))) or 'none'}")
    lines.extend(f"{key}: {plain(facts[key])}" for key in ("pack", "model") if facts[key])
    limits = [f"{key} {value}" for key, value in facts["constraints"].items() if value and value is not True]
    if not facts["constraints"]["parallel_allowed"]:
        limits.append("one at a time")
    if limits:
        lines.append(f"constraints: {', '.join(limits)}")
    lines.extend(
        f"needs: {plain(each['type'])} {plain(each['name'])}{' (optional)' if each['optional'] else ''}"
        for each in facts["dependencies"]
    )
    lines.append(f"file: {plain(facts['file'])}")
    return lines


def _parameter_line(name: str, facts: dict[str, object]) -> str:
    mark = "required" if facts["required"] else f"default {facts['default']!r}" if "default" in facts else "optional"
    about = f": {fit_width(str(facts['description']), 80, sys.stdout)}" if facts["description"] else ""
    return f"  {plain(name)} ({plain(str(facts['type']))}, {plain(mark)}){about}"
