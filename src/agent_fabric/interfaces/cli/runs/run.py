"""`fabric run`: run a task."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.client.tasks import TaskRequest
from agent_fabric.config.constants import MAX_PROMPT_CHARS
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import Priority, RunResult, Task
from agent_fabric.domain.runs.task import TaskForceMode as Mode
from agent_fabric.infrastructure.runs.changes.project_folder import project_folder
from agent_fabric.infrastructure.sandbox.levels import choose_level
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import (
    Encrypt,
    Here,
    Last,
    NetworkAllowed,
    NoOutside,
    Pool,
    SeenBy,
    Untrusted,
    Verbose,
    configuration,
    pool_name,
    strangers_text,
)
from agent_fabric.interfaces.cli.place import Place, RunChoice, refuse_if
from agent_fabric.interfaces.cli.runs.driving import drive_in_foreground
from agent_fabric.interfaces.cli.runs.foreground import LocalForeground, foreground_elsewhere, foreground_here

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.runs.foreground_remote import RemoteForeground

app = new_app("Run a task.")


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the options are a contract with the users
    words: Annotated[
        list[str],
        typer.Argument(metavar="PROMPT", help="What to do; `-` is standard input. With --continue: [RUN_ID] PROMPT."),
    ],
    continues: Annotated[
        bool,
        typer.Option("--continue", help="Follow up a run that has ended, in its workspace; by default your newest."),
    ] = False,
    last: Last = False,
    pack: Annotated[
        str | None,
        typer.Option(metavar="NAME[,NAME…]", help="The specialist, or several; chosen automatically by default."),
    ] = None,
    model_key: Annotated[str | None, typer.Option(metavar="KEY", help="The configured model to use.")] = None,
    network_allowed: NetworkAllowed = True,
    no_outside: NoOutside = False,
    verbose: Verbose = False,
    max_steps: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Maximum number of model answers of a specialist.")
    ] = None,
    task_force_mode: Annotated[
        Mode | None, typer.Option(help="Whether several specialists work one after another or all at once.")
    ] = None,
    priority: Annotated[Priority, typer.Option(help="Priority in the queue of a model server.")] = Priority.INTERACTIVE,
    explain_routing: Annotated[
        bool, typer.Option("--explain-routing", help="Explain why these specialists were chosen.")
    ] = False,
    here: Here = False,
    untrusted: Untrusted = False,
    encrypt: Encrypt = False,
    visibility: SeenBy = None,
    pool: Pool = None,
    no_ensure: Annotated[
        bool, typer.Option("--no-ensure", help="Start no model server, and download nothing.")
    ] = False,
    *,
    at: Place,
) -> int:
    """Run a task with a specialist, in a workspace of its own. The run is durable: it can be resumed after any crash.

    Exit codes: 0 completed, 1 failed, 2 wrong usage or configuration, 3 waiting for input, 4 what the task is about was
    denied or failed, 130 interrupted.
    """
    chosen, prompt = _follow_up(words, continues=continues, last=last)
    refuse_if(chosen is not None and here, "--continue works where the earlier run did", hint="Leave out --here.")
    wish = TaskRequest(
        prompt=_prompt(prompt),
        pack=pack,
        model_key=model_key,
        network_allowed=network_allowed,
        outside_allowed=not no_outside,
        max_steps=max_steps,
        task_force_mode=task_force_mode,
        priority=priority,
        encrypt=encrypt,
        visibility=visibility,
        pool=pool_name(pool) or None,
    )
    show = partial(drive_in_foreground, verbose=verbose, explain_routing=explain_routing)
    overrides = strangers_text(untrusted, here=here)
    url = at.url(local_only=here or no_ensure)
    if url is not None:
        opens = foreground_elsewhere(url, here=here)
        refuse_if(no_ensure, "--no-ensure does not work with a server", hint="The server's configuration decides this.")
        return show(opens, lambda there: _start_there(there, wish, chosen), at)
    root = at.root() if chosen is None else at.existing_root()
    if no_ensure:
        overrides["local_llm_ensure_available"] = False
    loaded = configuration(root, {**overrides, **_limits(wish)})
    task = _task(wish, loaded.config, project_here(root, loaded.config) if here else None)

    async def start(foreground: LocalForeground) -> RunResult:
        if chosen is None:
            return await foreground.start(task)
        earlier = await chosen.find(foreground.runs)
        following = await foreground.fabric.continue_run(earlier, task, keep_model=model_key is None)
        if following.project:
            require_hideable(root, Path(following.workspace), loaded.config)
        return await foreground.start(following)

    return show(foreground_here(root, loaded), start, at)


def _follow_up(words: Sequence[str], *, continues: bool, last: bool) -> tuple[RunChoice | None, str]:
    """Return the run to follow up, if any, and the prompt."""
    *named, prompt = words
    refuse_if(last and not continues, "--last names the run to follow up", hint="Use it together with --continue.")
    refuse_if(
        len(named) > (continues and not last), f"Got unexpected extra argument ({prompt})", hint="Quote the prompt."
    )
    return (RunChoice(named[0] if named else None) if continues else None), prompt


def _limits(wish: TaskRequest) -> dict[str, object]:
    """Return the settings that a task changes."""
    limits: dict[str, object] = {}
    if wish.max_steps is not None:
        limits["budget"] = {"max_steps": wish.max_steps}
    if wish.task_force_mode is not None:
        limits["task_force_mode"] = wish.task_force_mode.value
    return limits


def _task(wish: TaskRequest, config: FabricConfig, project: Path | None) -> Task:
    task = task_from(
        config,
        wish.prompt,
        pack=wish.pack,
        model_key=wish.model_key,
        network_allowed=wish.network_allowed,
        priority=wish.priority,
        project=project,
        encrypted=wish.encrypt,
    )
    return replace(task, visibility=wish.visibility, outside_allowed=wish.outside_allowed, pool=wish.pool or "")


async def _start_there(there: "RemoteForeground", wish: TaskRequest, chosen: RunChoice | None) -> RunResult:
    earlier = None if chosen is None else await chosen.find(there.runs)
    return await there.start(there.client.runs.start(replace(wish, continues=earlier), deltas=there.deltas))


def project_here(root: Path, config: FabricConfig) -> Path:
    """Return the project in the current folder, for a run to work on."""
    folder = project_folder(Path.cwd(), fabric_root=root)
    require_hideable(root, folder, config)
    return folder


def require_hideable(root: Path, folder: Path, config: FabricConfig) -> None:
    """Refuse a project folder in which the fabric folder could not be hidden from a run.

    Raises:
        ConfigError: it could not.
    """
    if root.is_relative_to(folder) and choose_level(config.sandbox).level == "B":
        raise ConfigError(
            f"At sandbox level B nothing in a folder can be hidden, and {root} lies in this one",
            hint="Install bubblewrap for level A, or keep fabric's folder elsewhere: --workspace DIR.",
        )


def _standard_input() -> str:
    if sys.stdin is None:  # closed before we started
        return ""
    return sys.stdin.buffer.read(4 * MAX_PROMPT_CHARS + 1).decode("utf-8", "replace")


def _prompt(argument: str) -> str:
    text = _standard_input() if argument == "-" else argument
    # Bytes that are no UTF-8 reach us as surrogates, which no model and no log could take.
    text = text.encode("utf-8", "replace").decode("utf-8", "replace").strip()
    if not text:
        raise ConfigError("There is no task", hint='Say what to do: fabric run "…"')
    if len(text) > MAX_PROMPT_CHARS:
        raise ConfigError(
            f"The task is longer than {MAX_PROMPT_CHARS:,} characters", hint="Put long material into a file."
        )
    return text
