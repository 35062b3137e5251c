"""Options that several commands have, and what they mean."""

from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.config.loader import Loaded, load_config
from agent_fabric.infrastructure.runlog.layout import FOLDER, find_root

Workspace = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="The fabric folder; by default the nearest .fabric upwards."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object to standard output.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show what the model says and what tools print.")]
RunIdArgument = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run, or the beginning of its id.")]


def fabric_root(workspace: Path | None) -> Path:
    """Return the fabric folder that a command works on."""
    return find_root(Path.cwd()) if workspace is None else workspace.expanduser().absolute()


def configuration(root: Path, overrides: dict[str, object] | None = None) -> Loaded:
    """Return the configuration in force for a fabric folder.

    Raises:
        ConfigProblem: it is wrong.
    """
    project = root.parent if root.name == FOLDER else None
    return load_config(overrides, project_root=project)
