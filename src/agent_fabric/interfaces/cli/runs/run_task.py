"""How `fabric run` carries out a task: in this process, or at a server."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent_fabric.application.runs.new_task import on_terms, task_from
from agent_fabric.client.tasks import TaskRequest
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import RunResult, Task
from agent_fabric.infrastructure.runs.changes.project_folder import project_folder
from agent_fabric.infrastructure.sandbox.levels import choose_level
from agent_fabric.interfaces.cli.options import configuration, strangers_text
from agent_fabric.interfaces.cli.place import Place, RunChoice, refuse_if
from agent_fabric.interfaces.cli.runs.driving import drive_in_foreground
from agent_fabric.interfaces.cli.runs.foreground import LocalForeground, foreground_elsewhere, foreground_here

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.runs.foreground_remote import RemoteForeground


class Manner(NamedTuple):
    """How a task is carried out and shown; what is to be done stands in the request."""

    here: bool
    untrusted: bool
    no_ensure: bool
    verbose: bool
    explain_routing: bool


def run_task(wish: TaskRequest, chosen: RunChoice | None, manner: Manner, at: Place) -> int:
    """Run a task, or follow up the chosen run; show what it does, and return the exit code."""
    show = partial(drive_in_foreground, verbose=manner.verbose, explain_routing=manner.explain_routing)
    overrides = strangers_text(manner.untrusted, here=manner.here)
    url = at.url(local_only=manner.here or manner.no_ensure)
    if url is not None:
        opens = foreground_elsewhere(url, here=manner.here)
        refuse_if(
            manner.no_ensure, "--no-ensure does not work with a server", hint="The server's configuration decides this."
        )
        return show(opens, lambda there: _start_there(there, wish, chosen), at)
    root = at.root() if chosen is None else at.existing_root()
    if manner.no_ensure:
        overrides["local_llm_ensure_available"] = False
    loaded = configuration(root, {**overrides, **_limits(wish)})
    task = _task(wish, loaded.config, project_here(root, loaded.config) if manner.here else None)

    async def start(foreground: LocalForeground) -> RunResult:
        if chosen is None:
            return await foreground.start(task)
        earlier = await chosen.find(foreground.runs)
        following = await foreground.fabric.continue_run(earlier, task, keep_model=wish.model_key is None)
        if following.project:
            require_hideable(root, Path(following.workspace), loaded.config)
        return await foreground.start(following)

    return show(foreground_here(root, loaded), start, at)


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
    task = replace(task, outside_allowed=wish.outside_allowed, plan=wish.plan)
    task = replace(task, visibility=wish.visibility, pool=wish.pool or "")
    return on_terms(config, task, require_proof=wish.require_proof, max_cost=wish.max_cost)


async def _start_there(there: "RemoteForeground", wish: TaskRequest, chosen: RunChoice | None) -> RunResult:
    earlier = None if chosen is None else await chosen.find(there.runs)
    return await there.start(there.client.runs.start(replace(wish, continues=earlier), deltas=there.deltas))


def project_here(root: Path, config: FabricConfig) -> Path:
    """Return the project in the current folder, for a run to work on."""
    return project_in(Path.cwd(), root, config)


def project_in(path: Path, root: Path, config: FabricConfig) -> Path:
    """Return the project in a folder, for a run to work on.

    Raises:
        ConfigError: it is no project, or the fabric folder could not be hidden in it.
    """
    folder = project_folder(path, fabric_root=root)
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
