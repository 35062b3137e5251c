"""Whether a task could run on a machine: the same for the command line and for HTTP."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent_fabric.application.models.check_health import CheckHealth, Egress, HealthFinding, Level, SandboxStatus
from agent_fabric.application.models.list_models import ModelList
from agent_fabric.bootstrap.secrets import stored_secrets
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.machine import ThisMachine
from agent_fabric.infrastructure.sandbox.levels import choose_level
from agent_fabric.infrastructure.secrets.keyring import open_keyring


def python_finding() -> HealthFinding:
    """Tell what we run on."""
    facts = ThisMachine().facts()
    return HealthFinding(about="python", level=Level.OK, text=f"{facts.python} on {facts.platform}")


def encryption_finding(root: Path, config: FabricConfig) -> HealthFinding:
    """Tell whether what is kept is sealed, and with which key."""
    about, runs = "encryption", _ENCRYPTED[config.encryption]
    needed = config.encryption != "off" or stored_secrets(root, lambda: open_keyring(os.environ)).path.exists()
    try:
        keyring = open_keyring(os.environ)
        keys = keyring.generations()
    except FabricError as problem:
        bad = Level.FAIL if needed else Level.WARN
        return HealthFinding(about=about, level=bad, text=problem.message, fix=problem.hint)
    state = "off" if config.encryption == "off" else "on"
    older = f" and {len(keys) - 1} older" if len(keys) > 1 else ""
    key = f"key generation {keys[0]}{older}," if keys else "the first need makes a key in"
    return HealthFinding(about=about, level=Level.OK, text=f"{state}: {runs} ({key} {keyring.place})")


_ENCRYPTED = {
    "off": "only secrets are sealed, and runs for which it is asked",
    "sessions": "chats, secrets, and runs for which it is asked are sealed; other runs are not",
    "all": "all runs and secrets are sealed",
}


async def model_findings(
    root: Path, config: FabricConfig, list_models: Callable[[], Awaitable[ModelList]]
) -> list[HealthFinding]:
    """Tell whether there is a model that could do the work, and what is in its way."""
    fallback = config.cloud_fallback
    telemetry = config.telemetry if config.telemetry is not None and config.telemetry.enabled else None
    choice = await asyncio.to_thread(choose_level, config.sandbox)
    check = CheckHealth(
        machine=ThisMachine(),
        root=str(root),
        box=SandboxStatus(choice.level, choice.sentence, (*choice.problems, *_network(config, choice.level))),
        egress=Egress(
            offline=config.offline,
            fallback=None if fallback is None else f"`{fallback.model_key}`, {_POLICIES[fallback.policy]}",
            traces=telemetry.otlp_endpoint if telemetry is not None and telemetry.exporter == "otlp" else None,
        ),
        traces_wanted=telemetry is not None,
    )
    return check(await list_models())


def _network(config: FabricConfig, level: str) -> tuple[str, ...]:
    if config.shell.network != "allowlist":
        return ()
    if level == "A":
        return ("By `shell.network`, they reach the hosts under `egress`, and no others.",)
    return (f"`shell.network: allowlist` has no effect at level {level}: only A has a way out.",)


_POLICIES = {
    "no_tool_calls": "when the local one calls no tool",
    "malformed_args": "when the local one's call cannot be read",
    "always": "always",
}
