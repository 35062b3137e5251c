"""`fabric workflow`: graphs of steps, defined in files."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.bootstrap.workflows import Workflows, open_workflows
from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, USAGE
from agent_fabric.interfaces.cli.options import AsJson, Workspace, configuration, fabric_root
from agent_fabric.interfaces.cli.output import from_here, plain_lines, print_json
from agent_fabric.interfaces.cli.workflow_lineage import lineage
from agent_fabric.interfaces.cli.workflow_options import NameOrFile, find
from agent_fabric.interfaces.cli.workflow_runs import cancel, resume, run, signal
from agent_fabric.interfaces.cli.workflow_texts import listed, shown_workflow
from agent_fabric.interfaces.workflow_graph import FORMATS, graph_dot, graph_mermaid, graph_text
from agent_fabric.interfaces.workflow_views import problem_object, workflow_line, workflow_object

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
def list_workflows(workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show every workflow, and which files are wrong."""
    found = _opened(fabric_root(workspace)).files.list()
    if as_json:
        print_json({"workflows": [workflow_line(each) for each in found]})
    else:
        sys.stdout.write(listed(found))


@app.command()
def validate(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Which; without any, all of them.")
    ] = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Say everything that is wrong with workflows, with file and line. Nothing is run.

    Exit codes: 0 all can be run, 2 something is wrong.
    """
    workflows = _opened(fabric_root(workspace))
    found = [find(workflows, each) for each in files] if files else workflows.files.list()
    wrong = [each for each in found if each.definition is None]
    if as_json:
        problems = [problem_object(problem) for each in wrong for problem in each.problems]
        notes = [note for each in found for note in each.notes]
        print_json(
            {"valid": not wrong, "files": [str(each.path) for each in found], "problems": problems, "notes": notes}
        )
        return USAGE if wrong else COMPLETED
    for each in found:
        for problem in each.problems:
            shown = str(replace(problem, file=from_here(problem.file)))
            sys.stdout.write(f"{plain_lines(shown)}\n")
        for note in each.notes:
            sys.stdout.write(f"{plain_lines(f'{from_here(each.path)}: note: {note}')}\n")
    number = f"{len(found)} {'file' if len(found) == 1 else 'files'} checked"
    sys.stdout.write(f"{number}: {f'{len(wrong)} wrong' if wrong else 'no problems'}\n")
    return USAGE if wrong else COMPLETED


@app.command()
def show(name: NameOrFile, workspace: Workspace = None, as_json: AsJson = False) -> int:
    """Show a workflow: what it takes, what it gives, and its steps."""
    found = find(_opened(fabric_root(workspace)), name)
    if as_json:
        print_json(workflow_object(found))
    else:
        sys.stdout.write(shown_workflow(found, sys.stdout))
    return USAGE if found.definition is None else COMPLETED


@app.command()
def graph(
    name: NameOrFile,
    form: Annotated[str, typer.Option("--format", metavar="text|mermaid|dot", help="How to draw it.")] = "text",
    workspace: Workspace = None,
) -> None:
    """Draw a workflow: which step waits for which."""
    if form not in FORMATS:
        raise ConfigError(f"There is no format {form!r}", hint=f"Choose: {', '.join(FORMATS)}.")
    definition = find(_opened(fabric_root(workspace)), name).usable()
    draw = {"text": graph_text, "mermaid": graph_mermaid, "dot": graph_dot}[form]
    sys.stdout.write(draw(definition))


for command in (run, resume, cancel, signal, lineage):
    app.command()(command)


def _opened(root: Path) -> Workflows:
    """Return the workflows of a fabric folder."""
    return open_workflows(root, configuration(root).config)
