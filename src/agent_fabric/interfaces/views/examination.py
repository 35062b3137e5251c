"""Whether a task could run on a machine: the same for the command line and for HTTP."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from agent_fabric.application.models.list_models import ModelList
from agent_fabric.application.observability.check_health import CheckHealth, Egress, Need, SandboxStatus
from agent_fabric.bootstrap.records import key_needs
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.tools import BROWSER
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.observability.findings import HealthFinding, Level
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.infrastructure.machine import ThisMachine
from agent_fabric.infrastructure.sandbox.levels import choose_level
from agent_fabric.infrastructure.secrets.folder_secrets import stored_secrets
from agent_fabric.infrastructure.secrets.key_needs import LOST, SealedContents
from agent_fabric.infrastructure.secrets.keyring import open_keyring


def python_finding() -> HealthFinding:
    """Tell what we run on."""
    facts = ThisMachine().facts()
    return HealthFinding(about="python", level=Level.OK, text=f"{facts.python} on {facts.platform}")


def encryption_finding(root: Path, config: FabricConfig) -> HealthFinding:
    """Tell whether what is kept is sealed, with which key, and whether the keys of all that is sealed are here."""
    about, runs = "encryption", _ENCRYPTED[config.encryption]
    needed = config.encryption != "off" or stored_secrets(root, lambda: open_keyring(os.environ)).path.exists()
    try:
        keyring = open_keyring(os.environ)
        keys = keyring.generations()
        contents = key_needs().contents(root, keyring)
    except FabricError as problem:
        bad = Level.FAIL if needed else Level.WARN
        return HealthFinding(about=about, level=bad, text=problem.message, fix=problem.hint)
    if LOST in contents.runs or LOST in contents.secrets:
        return _lost_keys(contents, keyring.place)
    state = "off" if config.encryption == "off" else "on"
    older = f" and {len(keys) - 1} older" if len(keys) > 1 else ""
    key = f"key generation {keys[0]}{older}," if keys else "a key is made when first needed, in"
    return HealthFinding(about=about, level=Level.OK, text=f"{state}: {runs} ({key} {keyring.place})")


def _lost_keys(contents: SealedContents, place: str) -> HealthFinding:
    counts = ((contents.runs, "encrypted run"), (contents.secrets, "secret"))
    lost = " and ".join(
        f"{count[LOST]} of {total} {word}{'' if total == 1 else 's'}"
        for count, word in counts
        if LOST in count and (total := sum(count.values()))
    )
    return HealthFinding(
        about="encryption",
        level=Level.WARN,
        text=f"{lost} cannot be opened: the key is not in {place}",
        fix="Restore the key file from a backup, or put the key last in ENCRYPTION_KEY. They need it.",
    )


LIMITS = "; without it, tasks of "
"""Stands in a finding because of which some tasks fail."""
_ENCRYPTED = {
    "off": "only secrets are sealed, and runs for which it is asked",
    "sessions": "chats, secrets, and runs for which it is asked are sealed; other runs are not",
    "all": "all runs and secrets are sealed; documents in memory and facts that people add are not",
}


def policy_findings(policy: RulePolicy) -> list[HealthFinding]:
    """Warn of rules that allow without an end."""
    return [
        HealthFinding(
            about="policy",
            level=Level.WARN,
            text=f"the rule {rule.id} {rule.warning} ({rule.origin})",
            fix="Name the commands, tools or hosts that are meant. `fabric policy check` shows what a rule allows.",
        )
        for rule in policy.rules
        if rule.warning
    ]


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
        needs=extras_needed(config, traces=telemetry is not None),
    )
    return [*check(await list_models()), *_missing_programs(config)]


def _missing_programs(config: FabricConfig) -> Iterator[HealthFinding]:
    """Name the programs of tool servers that this machine does not have."""
    for specialist, each in config.specialists.items():
        for server in each.mcp_servers:
            if server.transport == "stdio" and shutil.which(server.command[0]) is None:
                yield HealthFinding(
                    about="tool server",
                    level=Level.WARN,
                    text=f"{server.name}: there is no program {server.command[0]}, so {specialist} does without",
                    fix=f"Install it, or name another one under specialists.{specialist}.mcp_servers.",
                )


def extras_needed(config: FabricConfig, *, traces: bool) -> dict[str, Need]:
    """Return what the configuration needs each extra for."""
    needs = {"telemetry": Need("OpenTelemetry traces")} if traces else {}
    servers = {name: each.mcp_servers for name, each in config.specialists.items() if each.mcp_servers}
    if servers:
        named = ", ".join(dict.fromkeys(server.name for each in servers.values() for server in each))
        text = f"the tool servers {named}{LIMITS}{', '.join(servers)} fail"
        needs["mcp"] = Need(text, by_all=len(servers) == len(config.specialists))
    browsing = [name for name, each in config.specialists.items() if BROWSER in each.tools]
    if browsing and config.browser.enabled:
        text = f"the browser{LIMITS}{', '.join(browsing)} fail"
        needs["browser"] = Need(text, by_all=len(browsing) == len(config.specialists))
    return needs


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
