"""Options that several commands have, and what they mean."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_fabric.bootstrap.records import has_store
from agent_fabric.bootstrap.this_machine import find_root, require_made_here, require_ours
from agent_fabric.config.constants import POOL_PATTERN
from agent_fabric.domain.errors import ApprovalRefused, ConfigError, RunNotFound
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.interfaces.cli.output import print_warning

if TYPE_CHECKING:
    from agent_fabric.config.loader import Loaded

Workspace = Annotated[
    str | None,
    typer.Option("--workspace", metavar="DIR", help="The fabric folder; by default the nearest .fabric upwards."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON value to standard output.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show what the model says and what tools print.")]
Encrypt = Annotated[bool, typer.Option("--encrypt", help="Store the run encrypted, regardless of `encryption`.")]
Here = Annotated[bool, typer.Option("--here", help="Work on the project in this folder; `fabric undo` reverts it.")]
NetworkAllowed = Annotated[bool, typer.Option(help="Whether tools may use the network.")]
NoOutside = Annotated[
    bool,
    typer.Option("--no-outside", help="Run nothing outside the box: a `git push` is refused, and nobody is asked."),
]
RequireProof = Annotated[
    bool, typer.Option("--require-proof", help="Fail, with exit code 5, where nothing bears the result out.")
]
MaxCost = Annotated[
    float | None,
    typer.Option(metavar="AMOUNT", help="What the answers of models may cost together, as `models.KEY.price` says."),
]
Untrusted = Annotated[
    bool,
    typer.Option("--untrusted", help="With --here: the project is not yours, so sending anything out asks."),
]
SeenBy = Annotated[
    Visibility | None,
    typer.Option("--visibility", help="Who besides its owner sees the run; by default `identity.visibility` decides."),
]
Pool = Annotated[
    str | None,
    typer.Option("--pool", metavar="POOL", help="Workers that may drive the run; by default those of `default`."),
]
RunIdArgument = Annotated[
    str | None, typer.Argument(metavar="RUN_ID", help="The run, or the beginning of its id; else --last.")
]
Last = Annotated[bool, typer.Option("--last", help="Your newest run, instead of RUN_ID.")]


def strangers_text(untrusted: bool, *, here: bool) -> dict[str, object]:
    """Return the settings for a run in a project whose files the owner did not write."""
    if untrusted and not here:
        raise ConfigError("--untrusted is about the files of a project", hint="Use it together with --here.")
    return {"policy": {"workspace_text": "exposed"}} if untrusted else {}


def pool_name(pool: str | None) -> str:
    """Return the pool that a run is to be of; empty: the default one."""
    if pool is not None and re.fullmatch(POOL_PATTERN, pool) is None:
        raise ConfigError(
            f"No pool can be called {pool!r}", hint="Small letters, digits, - and _; the first one is no sign."
        )
    return pool or ""


def require_a_person() -> None:
    """Refuse what only a person may do when a process of a run calls us.

    Raises:
        ApprovalRefused: it does.
    """
    from agent_fabric.bootstrap.this_machine import acting_run  # noqa: PLC0415 - most commands need it not

    if acting_run():
        raise ApprovalRefused(
            "A run cannot answer its own questions, nor trust anything",
            hint="A person does that, in a terminal of their own.",
        )


def is_confirmed(question: str, *, yes: bool, hint: str) -> bool:
    """Ask the person at the terminal; where there is none, only --yes agrees, and `hint` says when to add it."""
    if not yes and not sys.stdin.isatty():
        raise ConfigError("This needs confirmation; add --yes.", hint=hint)
    return yes or typer.confirm(question, err=True)


def fabric_root(workspace: str | None) -> Path:
    """Return the fabric folder that a command works on."""
    if workspace == "":
        raise ConfigError("--workspace needs the name of a folder", hint="For example: --workspace .fabric")
    try:
        return find_root(Path.cwd()) if workspace is None else Path(workspace).expanduser().absolute()
    except (OSError, RuntimeError) as problem:
        raise ConfigError(f"The folder cannot be found: {problem}", hint="Change to one that exists.") from None


def existing_root(workspace: str | None) -> Path:
    """Return the fabric folder of a command that only makes sense where there are runs.

    Raises:
        RunNotFound: there is none.
    """
    root = fabric_root(workspace)
    if not has_store(root):
        raise RunNotFound(f"There are no runs in {root}", hint='Start one with: fabric run "…"')
    return root


def own_root(workspace: str | None) -> Path:
    """Return the fabric folder of a command that changes files because of what is recorded there.

    Raises:
        RunNotFound: there is none.
        ConfigError: it was made elsewhere and is not trusted.
    """
    root = existing_root(workspace)
    require_made_here(root)
    return root


def configuration(root: Path, overrides: dict[str, object] | None = None) -> "Loaded":
    """Return the configuration in force for a fabric folder; warn of packs that had to be left out.

    Raises:
        ConfigProblem: it is wrong.
        ConfigError: the folder or its configuration came from somewhere else, and was not
            declared trusted.
    """
    from agent_fabric.config.installed_packs import installed_packs  # noqa: PLC0415 - commands that only read need none
    from agent_fabric.config.loader import load_config  # noqa: PLC0415 - pydantic takes its time

    require_ours(root)
    loaded = load_config(overrides, fabric_folder=root, packages=installed_packs)
    for sentence in loaded.left_out.values():
        print_warning(sentence)
    return loaded
