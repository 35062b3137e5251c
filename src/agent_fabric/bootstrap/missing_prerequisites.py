"""What settings of the server count on that is not there: it starts all the same, but somebody should know."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from agent_fabric.application.models.check_health import HealthFinding, Level
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.secret_references import reference_in
from agent_fabric.domain.errors import ConfigError, FabricError

_LOOKED_UP = frozenset({"env", "file"})
"""Where secrets can be looked for without asking another machine."""


async def unmet_settings(root: Path, config: FabricConfig, resolve: Resolve) -> list[HealthFinding]:
    """Tell which secrets of webhooks and alerts are not set, and which workflows of webhooks cannot be started."""
    unset = [each for setting, reference in _secrets(config) if (each := await _unset(setting, reference, resolve))]
    return [*unset, *await asyncio.to_thread(_not_startable, root, config)]


def _secrets(config: FabricConfig) -> Iterator[tuple[str, str]]:
    for name, webhook in config.webhooks.items():
        yield f"webhooks.{name}", webhook.secret
    for alert in config.alerts:
        if alert.enabled and alert.secret is not None:
            yield f"alerts.{alert.name}", alert.secret


async def _unset(setting: str, reference: str, resolve: Resolve) -> HealthFinding | None:
    found = reference_in(reference)
    if found is None or found.source not in _LOOKED_UP:
        return None
    try:
        await resolve(reference)
    except ConfigError as problem:
        fix = f"Set {found.name} where `fabric serve` is started." if found.source == "env" else problem.hint
        return _warning(setting, f"`{setting}.secret`: {problem.message}", fix)
    return None


def _not_startable(root: Path, config: FabricConfig) -> list[HealthFinding]:
    wanted = {name: each.workflow for name, each in config.webhooks.items() if each.workflow is not None}
    workflows = open_workflows(root, config) if wanted else None
    findings: list[HealthFinding] = []
    for name, workflow in wanted.items():
        try:
            assert workflows is not None
            workflows.get(workflow)
        except FabricError as problem:
            setting = f"webhooks.{name}"
            findings.append(_warning(setting, f"`{setting}.workflow`: {problem.message}", problem.hint))
    return findings


def _warning(setting: str, text: str, fix: str) -> HealthFinding:
    return HealthFinding(about=setting.partition(".")[0], level=Level.WARN, text=text, fix=fix)
