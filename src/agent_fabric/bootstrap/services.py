"""Tells whether the services answer that several servers share."""

from agent_fabric.application.models.check_health import HealthFinding, Level
from agent_fabric.config.passwords_in_urls import hide_passwords
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import MissingExtra


async def service_findings(config: FabricConfig) -> list[HealthFinding]:
    """Return a line for each service that is configured. Without them a task can run all the same."""
    findings = []
    if config.redis.url is not None and config.limits.storage == "redis":
        findings.append(await _redis_finding(config.redis.url))
    if config.nats.url is not None:
        findings.append(await _nats_finding(config.nats.url))
    return findings


async def _redis_finding(url: str) -> HealthFinding:
    shown = hide_passwords(url)
    try:
        from agent_fabric.infrastructure.limits.redis_check import find_redis_problem  # noqa: PLC0415 - few have one
    except ModuleNotFoundError:
        missing = MissingExtra("cluster", needed_for="`limits.storage: redis`")
        text = f"{missing.message}: `fabric serve` does not start"
        return HealthFinding(about="redis", level=Level.WARN, text=text, fix=missing.hint)
    problem = await find_redis_problem(url)
    if not problem:
        return HealthFinding(about="redis", level=Level.OK, text=f"{shown} counts rates for all servers together")
    return HealthFinding(
        about="redis",
        level=Level.WARN,
        text=f"{shown} cannot be reached ({problem}): each server counts rates by itself",
        fix="Start Redis, or correct `redis.url`. Servers use it as soon as it answers.",
    )


async def _nats_finding(url: str) -> HealthFinding:
    shown = hide_passwords(url)
    try:
        from agent_fabric.infrastructure.nats.check import find_nats_problem  # noqa: PLC0415 - few have one
    except ModuleNotFoundError:
        missing = MissingExtra("cluster", needed_for="`nats.url`")
        text = f"{missing.message}: `fabric serve` does not start"
        return HealthFinding(about="nats", level=Level.WARN, text=text, fix=missing.hint)
    problem = await find_nats_problem(url)
    if not problem:
        return HealthFinding(about="nats", level=Level.OK, text=f"{shown} wakes other servers and workers")
    return HealthFinding(
        about="nats",
        level=Level.WARN,
        text=f"{shown} cannot be used ({problem}): servers and workers hear each other at their next poll",
        fix="Start NATS with JetStream (`nats-server -js`), or correct `nats.url`. It is used as soon as it answers.",
    )
