"""`fabric config`: the configuration in force."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.bootstrap.this_machine import trust_folder
from agent_fabric.config.dotenv import NAME, read_dotenv
from agent_fabric.config.files import project_file, read_settings, user_file, user_folder
from agent_fabric.config.layers import DEFAULT
from agent_fabric.config.show import show_config, show_origins
from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import configuration, require_a_person
from agent_fabric.interfaces.cli.output import plain, plain_lines, print_json
from agent_fabric.interfaces.cli.place import Folder

app = new_app("Show the configuration and where it comes from.")


@app.callback()
def config() -> None:
    """Show the configuration and where it comes from."""


@app.command()
def trust(*, at: Folder) -> int:
    """Trust a fabric folder that was made elsewhere: use its configuration and resume its runs."""
    require_a_person()
    root = at.root()
    variables = sorted(read_dotenv(root))
    if not root.is_dir() and not variables:
        raise ConfigError(f"There is no folder {root}", hint="Change to the project whose .fabric you mean.")
    file = project_file(root)
    settings = {} if file is None else read_settings(file)
    try:
        trust_folder(root)
    except OSError as problem:
        raise ConfigError(
            f"{root} cannot be marked: {problem.strerror}", hint="You must be able to write there."
        ) from None
    says = (
        f"its configuration sets {', '.join(map(plain, sorted(settings)))}" if settings else "it has no configuration"
    )
    if variables:
        says += f"; {root.parent / NAME} sets {', '.join(variables)}"
    text = f"{plain(str(root))} is trusted from now on; {says}.\n"
    return at.print({"trusted": str(root), "sets": sorted(settings) + variables}, text)


@app.command()
def status(*, at: Folder) -> int:
    """Show which settings differ from their defaults, and which files can set some."""
    root = at.root()
    loaded = configuration(root)
    changed = [each for each in show_origins(loaded) if each.origin != DEFAULT]
    places = {"user": user_file(os.environ), "project": project_file(root)}
    lines = [f"{each.path} = {json.dumps(each.value, ensure_ascii=False)}  [{each.origin}]" for each in changed]
    text = "\n".join(
        [
            *(lines or ["Every setting has its default."]),
            "",
            *(f"{_WHOSE[who]}: {_file_or_place(who, file, root)}" for who, file in places.items()),
            "everything in force: fabric config show; where each setting comes from: fabric config show --origin",
        ]
    )
    found = {
        "changed": {each.path: {"value": each.value, "origin": each.origin} for each in changed},
        "files": {who: None if file is None else str(file) for who, file in places.items()},
    }
    return at.print(found, plain_lines(text) + "\n")


_WHOSE = {"user": "your own file", "project": "the file of this project"}


def _file_or_place(who: str, file: Path | None, root: Path) -> str:
    folder = user_folder(os.environ) if who == "user" else root
    return str(file) if file is not None else f"none; it would be {folder or '~'}/config.toml"


@app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Show for each setting where it comes from.")] = False,
    *,
    at: Folder,
) -> None:
    """Show the configuration in force. What looks like a secret is hidden."""
    loaded = configuration(at.root())
    if not origin:
        print_json(show_config(loaded.config))
        return
    settings = show_origins(loaded)
    lines = (f"{each.path} = {json.dumps(each.value, ensure_ascii=False)}  [{each.origin}]\n" for each in settings)
    at.print({each.path: {"value": each.value, "origin": each.origin} for each in settings}, "".join(lines))
