"""`fabric workflow`: graphs of steps, defined in files."""

import sys
from typing import Annotated

import typer

from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, USAGE
from agent_fabric.interfaces.cli.output import from_here, plain_lines, print_json
from agent_fabric.interfaces.cli.place import Place, PlainPlace
from agent_fabric.interfaces.cli.workflows.definition_problems import count_checked, print_problems
from agent_fabric.interfaces.cli.workflows.workflow_lineage import lineage
from agent_fabric.interfaces.cli.workflows.workflow_options import NameOrFile
from agent_fabric.interfaces.cli.workflows.workflow_places import check_at, find_at, list_at
from agent_fabric.interfaces.cli.workflows.workflow_runs import cancel, resume, run, signal
from agent_fabric.interfaces.cli.workflows.workflow_texts import listed, shown_workflow
from agent_fabric.interfaces.views.workflows.graph import FORMATS, graph_dot, graph_mermaid, graph_text
from agent_fabric.interfaces.views.workflows.views import workflow_object

_HELP = """\
See and run workflows: files in workflow-definitions/, as JSON or YAML.

\b
Examples:
  fabric workflow list
  fabric workflow validate release.yaml
  fabric workflow run release.yaml -i version=1.2 --dry-run
"""

app = new_app(_HELP)


@app.callback()
def workflow() -> None:
    """See and run workflows."""


@app.command("list")
def list_workflows(*, at: Place) -> None:
    """Show every workflow, and which files are wrong."""
    found = list_at(at)
    at.print(found, listed(found["workflows"]))


@app.command()
def validate(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Which ones; by default all of them.")
    ] = None,
    *,
    at: Place,
) -> int:
    """Say everything that is wrong with workflows, with file and line. Nothing is run.

    With a server, files of this machine are checked together with the server's agents and workflows.

    Exit codes: 0 all can be run, 2 something is wrong.
    """
    checked = check_at(at, files or [])
    if at.as_json:
        print_json({key: value for key, value in checked.items() if key != "noted"})
        return COMPLETED if checked["valid"] else USAGE
    print_problems(checked["problems"])
    for each in checked["noted"]:
        note = f"{from_here(each['file'])}: note: {each['note']}"
        sys.stdout.write(f"{plain_lines(note)}\n")
    sys.stdout.write(f"{count_checked(checked)}\n")
    return COMPLETED if checked["valid"] else USAGE


@app.command()
def show(name: NameOrFile, *, at: Place) -> int:
    """Show a workflow: what it takes, what it gives, and its steps."""
    found = find_at(at, name)
    at.print(workflow_object(found), shown_workflow(found, sys.stdout))
    return USAGE if found.definition is None else COMPLETED


@app.command()
def graph(
    name: NameOrFile,
    form: Annotated[str, typer.Option("--format", metavar="text|mermaid|dot", help="How to draw it.")] = "text",
    *,
    at: PlainPlace,
) -> None:
    """Draw a workflow: which step waits for which."""
    if form not in FORMATS:
        raise ConfigError(f"There is no format {form!r}", hint=f"Choose: {', '.join(FORMATS)}.")
    definition = find_at(at, name).usable()
    draw = {"text": graph_text, "mermaid": graph_mermaid, "dot": graph_dot}[form]
    sys.stdout.write(draw(definition))


for command in (run, resume, cancel, signal, lineage):
    app.command()(command)
