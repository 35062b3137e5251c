"""Makes a task of what was asked for, with what the configuration says about the rest."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from agent_fabric.application.packs.recruit import parse_pack_names
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.secrets import Encryption
from agent_fabric.domain.errors import ConfigError, InvalidInputs
from agent_fabric.domain.models.messages import MAX_COST
from agent_fabric.domain.runs.task import Budget, Priority, Profile, Task, TaskForceMode, lower_of


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
            max_cost=config.budget.max_cost,
            max_calls_per_turn=config.budget.max_calls_per_turn,
        ),
        priority=priority,
        workspace="" if project is None else str(project),
        encrypted=encrypted,
        require_proof=config.require_proof,
    )


def on_terms(config: FabricConfig, task: Task, *, require_proof: bool = False, max_cost: float | None = None) -> Task:
    """Return a task with what its caller wants of it beside; the lowest of several limits holds.

    Raises:
        InvalidInputs: its cost is limited, and its model has no price; or the limit is none.
    """
    if max_cost is not None:
        if not 0 < max_cost <= MAX_COST:
            raise InvalidInputs(f"A run cannot cost {max_cost:g} at most", hint="Give an amount above 0, such as 0.50.")
        _require_price(config, task.model_key)
        task = replace(task, budget=replace(task.budget, max_cost=lower_of(task.budget.max_cost, max_cost)))
    return replace(task, require_proof=True) if require_proof else task


def _require_price(config: FabricConfig, key: str) -> None:
    """Check that what a model costs is known: a limit that nothing counts against would hold nothing back."""
    fallback = config.cloud_fallback
    keys = (key, *([] if fallback is None else [fallback.model_key]))
    if all(config.models[each].price is None for each in keys):
        raise InvalidInputs(
            f"The cost of a run cannot be limited: the model {key!r} has no price",
            hint=f"Set models.{key}.price in the configuration: what a million tokens cost, 0 if they cost nothing. Or "
            "leave out the limit.",
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
