"""Makes a task of what was asked for, with what the configuration says about the rest."""

from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

from agent_fabric.application.packs.recruit import parse_pack_names
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.secrets import Encryption
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import Budget, Priority, Profile, Task, TaskForceMode


def task_from(
    config: FabricConfig,
    prompt: str,
    *,
    pack: str | None = None,
    model_key: str | None = None,
    network_allowed: bool = True,
    priority: Priority = Priority.INTERACTIVE,
    project: Path | None = None,
    encrypted: bool = False,
) -> Task:
    """Make a task of what a person typed; what is not `encrypted` may still become so by the configuration.

    Raises:
        ConfigError: there is no such model, or `pack` names none.
    """
    key = model_key or config.default_model_key
    if key not in config.models:
        raise ConfigError(f"There is no model {key!r}", hint=f"Configured models: {', '.join(config.models)}.")
    packs = parse_pack_names(pack or "")
    if pack is not None and not packs:
        raise ConfigError(
            "No pack is named", hint=f"Name one, or leave it out. Packs: {', '.join(config.specialists)}."
        )
    return Task(
        prompt=prompt,
        specialist_ids=packs,
        task_force_mode=TaskForceMode(config.task_force_mode),
        model_key=key,
        network_allowed=network_allowed,
        budget=Budget.of(
            Profile.TASK,
            max_steps=_max_steps(config, packs),
            max_tokens=config.budget.max_tokens,
            max_seconds=config.budget.max_seconds,
            max_calls_per_turn=config.budget.max_calls_per_turn,
        ),
        priority=priority,
        workspace="" if project is None else str(project),
        encrypted=encrypted,
    )


def _max_steps(config: FabricConfig, packs: Sequence[str]) -> int:
    """Return how many model answers a run may take: one specialist alone may have a limit of its own."""
    alone = config.specialists.get(packs[0]) if len(packs) == 1 else None
    own = alone.max_steps if alone is not None else None
    return config.budget.max_steps if own is None else own


def encrypted_by(wanted: Encryption, task: Task) -> bool:
    """Tell whether the configuration wants the run of a task to be encrypted."""
    match wanted:
        case "all":
            return True
        case "sessions":
            return task.profile is Profile.CHAT
        case "off":
            return False
        case unknown:
            assert_never(unknown)
