"""`fabric skills`: instructions for certain kinds of work, in the open Agent Skills format."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.bootstrap.this_machine import open_skills
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, USAGE
from agent_fabric.interfaces.cli.options import is_confirmed, require_a_person
from agent_fabric.interfaces.cli.output import colour, fit_width, plain, plain_lines
from agent_fabric.interfaces.cli.place import Folder, Noun, Place
from agent_fabric.interfaces.cli.place import here as here_at
from agent_fabric.wire.shape import Json
from agent_fabric.wire.skills import SKILL_TEXT, SKILLS, SkillLine, SkillText

_HELP = """\
See, add and trust skills: folders with a SKILL.md, in the open Agent Skills format.

\b
Examples:
  fabric skills list
  fabric skills show release-notes
  fabric skills add ~/downloads/release-notes
  fabric skills trust release-notes        one that came with the project
"""

app = new_app(_HELP)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The skill.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback()
def skills() -> None:
    """See, add and trust skills."""


class _LocalSkills:
    """The skills for a fabric folder."""

    def __init__(self, at: Place) -> None:
        self.skills = open_skills(at.root())

    async def list(self) -> Json:
        return SKILLS.dump(map(SkillLine.of, self.skills.all()))

    async def show(self, name: str) -> Json:
        found = self.skills.find(name)
        return SKILL_TEXT.dump(SkillText.of(found))


_skills = Noun(here_at(_LocalSkills), lambda client: client.skills)
_STYLES = {"ready": "green", "needs_trust": "yellow", "broken": "red"}


@app.command("list")
def list_skills(*, at: Place) -> int:
    """Show every skill, and whether runs are offered it."""
    found = _skills(at, lambda found: found.list())
    text = "".join(map(_line, found["skills"]))
    return at.print(found, text or "There are no skills. See docs/guides/skills.md.\n")


@app.command()
def show(name: Name, *, at: Place) -> int:
    """Show a skill: where it is from, what it may use, and what it says."""
    found = _skills(at, lambda found: found.show(name))
    return at.print(found, _line(found["skill"]) + _text(found))


@app.command()
def validate(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER…", help="Folders with a SKILL.md.")],
    *,
    at: Folder,
) -> int:
    """Check skills by the rules of the format. Nothing is run.

    Exit codes: 0 all are sound, 2 something is wrong.
    """
    shelf = open_skills(at.root()).shelf
    found = [SkillLine.of(shelf.look(folder.expanduser())) for folder in folders]
    valid = not any(each.problems for each in found)
    lines = [f"{plain(each.folder)}: {'; '.join(map(plain, each.problems)) or 'sound'}\n" for each in found]
    at.print({"valid": valid, **SKILLS.dump(found)}, "".join(lines))
    return COMPLETED if valid else USAGE


@app.command()
def add(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder with the SKILL.md.")],
    project: Annotated[
        bool, typer.Option("--project", help="Copy it into .agents/skills of the project, for all who work there.")
    ] = False,
    yes: Yes = False,
    *,
    at: Folder,
) -> int:
    """Copy a skill to your own; runs are offered it from now on.

    Example: fabric skills add ~/downloads/release-notes
    """
    require_a_person()
    found = open_skills(at.root())
    skill = found.shelf.look(folder.expanduser())
    if not skill.problems and not _agrees(at, SkillText.of(skill), yes=yes):
        at.print({"added": False}, "Nothing was added.\n")
        return FAILED
    added = found.add(folder.expanduser(), to_project=project)
    return at.print(
        {"added": True, "skill": SKILL_TEXT.dump(SkillText.of(added))["skill"]},
        f"{plain(added.name)} is in {plain(added.folder)}; runs are offered it.\n",
    )


@app.command()
def trust(name: Name, yes: Yes = False, *, at: Folder) -> int:
    """Let runs be offered a skill that came with the project, as it is now. One that changes asks again."""
    require_a_person()
    found = open_skills(at.root())
    skill = found.find_to_trust(name)
    text = SkillText.of(skill)
    if not skill.trusted and not skill.problems and not _agrees(at, text, yes=yes):
        at.print({"skill": name, "trusted": False}, "Nothing was trusted.\n")
        return FAILED
    found.trust(skill)
    return at.print({"skill": name, "trusted": True}, f"{plain(name)} is trusted as it is now.\n")


@app.command()
def remove(name: Name, *, at: Folder) -> int:
    """Delete a skill of your own, or no longer trust one of the project."""
    require_a_person()
    gone = open_skills(at.root()).remove(name)
    what = "no longer trusted" if gone.source == "project" else "deleted"
    return at.print({"skill": name, "removed": what}, f"{plain(name)} is {what}.\n")


def _agrees(at: Place, found: SkillText, *, yes: bool) -> bool:
    if not at.as_json:
        sys.stderr.write(_text(SKILL_TEXT.dump(found)))
    ask = partial(is_confirmed, yes=yes, hint="Add it if you have read the skill.")
    return ask("Offer this skill to models as it is now?")


def _line(each: Json) -> str:
    state = each["state"]
    head = (
        f"{colour(plain(each['name']), 'bold', sys.stdout)}  {plain(each['source'])}  "
        f"{colour(state.replace('_', ' '), _STYLES.get(state, 'dim'), sys.stdout)}"
    )
    problems = [f"  {plain(problem)}" for problem in each["problems"]]
    return "".join(f"{line}\n" for line in (head, f"  {fit_width(each['description'], 110, sys.stdout)}", *problems))


def _text(found: Json) -> str:
    facts = [
        ("folder", found["skill"]["folder"]),
        ("license", found["license"]),
        ("needs", found["compatibility"]),
        ("allows only", " ".join(found["allowed_tools"])),
        ("files", ", ".join(found["files"])),
        ("content", found["digest"][:12]),
    ]
    lines = [f"  {name}: {plain(value)}" for name, value in facts if value]
    if found["signals"]:
        said = f"  warning: this reads like orders to a model ({', '.join(map(plain, found['signals']))})"
        lines.append(colour(said, "yellow", sys.stdout))
    return "".join(f"{line}\n" for line in (*lines, "", plain_lines(found["instructions"])))
