"""`fabric init`: write AGENTS.md for a project."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.application.agents.survey_project import SurveyProject
from agent_fabric.domain.agents.project_survey import ProjectCommand, ProjectSurvey, notes_text
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.tools.project_notes import NOTES_AT_TOP
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import configuration, is_confirmed, require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Folder, Place

app = new_app("Write AGENTS.md for a project.")


@app.command()
def init(
    no_run: Annotated[bool, typer.Option("--no-run", help="Do not try the commands.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before commands run without a box.")] = False,
    *,
    at: Folder,
) -> int:
    """Write AGENTS.md for the project in this folder: its languages, and how to build, test and lint it.

    The commands are tried in the box that runs have. What they leave behind stays.
    """
    require_a_person()
    folder = Path.cwd()
    target = folder / NOTES_AT_TOP[0]
    if os.path.lexists(target):
        raise ConfigError(f"{target.name} is there already", hint="Edit it, or move it away to have one written.")
    survey = asyncio.run(_survey(folder, at, run=not no_run, yes=yes))
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(notes_text(survey))
    except OSError as problem:
        raise ConfigError(f"{target} cannot be written: {problem.strerror or problem}") from None
    shown = {
        "file": str(target),
        "languages": list(survey.languages),
        "commands": [{**each._asdict(), "purpose": each.purpose.value} for each in survey.commands],
    }
    return at.print(shown, f"{plain(str(target))} is written. Read it, and add what an agent should know.\n")


async def _survey(folder: Path, at: Place, *, run: bool, yes: bool) -> ProjectSurvey:
    from agent_fabric.bootstrap.local import open_project_box  # noqa: PLC0415 - `--help` needs no engine

    root = at.root()
    async with open_project_box(root, folder, configuration(root).config) as sandbox:
        if run and sandbox.level == "C":
            question = "There is no box here: the project's build, tests and linter run with all your rights. Run them?"
            run = is_confirmed(question, yes=yes, hint="Or leave them out: --no-run.")

        def tell(command: ProjectCommand) -> None:
            sys.stderr.write(f"trying: {plain(command.line)}\n")

        return await SurveyProject(sandbox)(run=run, on_command=tell)
