"""Tells whether the services answer that several servers share."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent_fabric.application.observability.check_health import HealthFinding, Level
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.secret_references import hide_passwords
from agent_fabric.domain.errors import FabricError, MissingExtra

FindProblem = Callable[[str], Awaitable[str]]
"""Returns why the service at an address cannot be used; empty: it can."""


async def service_findings(config: FabricConfig, root: Path) -> list[HealthFinding]:
    """Return a line for each service that is configured. Without them a task can run all the same."""
    findings = []
    try:
        redis_url, nats_url = config.redis.address(os.environ), config.nats.address(os.environ)
    except ConfigProblem as problem:
        return [HealthFinding(about="services", level=Level.FAIL, text=problem.message, fix=problem.hint)]
    counts, keeps = config.limits.storage == "redis", bool(config.store.url)
    if redis_url is not None and (counts or keeps):
        does = ["counts rates for all servers together"] * counts + ["hands sessions from server to server"] * keeps
        lacks = ["each server counts rates by itself"] * counts + ["sessions are read from the log"] * keeps
        findings.append(
            await _finding(
                "redis",
                redis_url,
                _redis,
                needed_for="`limits.storage: redis`" if counts else "`redis.url`",
                does=" and ".join(does),
                without=f"cannot be reached ({{problem}}): {', '.join(lacks)}",
                fix="Start Redis, or correct `redis.url`. Servers use it as soon as it answers.",
            )
        )
    if nats_url is not None:
        findings.append(
            await _finding(
                "nats",
                nats_url,
                _nats,
                needed_for="`nats.url`",
                does="wakes other servers and workers",
                without="cannot be used ({problem}): servers and workers hear each other at their next poll",
                fix="Start NATS with JetStream (`nats-server -js`), or correct `nats.url`. It is used as soon as it "
                "answers.",
            )
        )
    if config.workspaces.backend and config.store.url:
        findings.append(await _object_finding(config, root))
    return findings


async def _object_finding(config: FabricConfig, root: Path) -> HealthFinding:
    """Store an object and read it again: whoever can only read would fail in the middle of a run."""
    from agent_fabric.bootstrap.secrets import open_secrets  # noqa: PLC0415 - few have one
    from agent_fabric.bootstrap.workspaces import open_objects  # noqa: PLC0415 - as above

    objects = open_objects(config.workspaces, open_secrets(config.secrets, root, os.environ).chain.resolve)
    try:
        await objects.put("doctor/probe", b"agent-fabric")
        await objects.get("doctor/probe")
        await objects.remove("doctor/")
    except FabricError as problem:
        text = f"{problem.message}: runs stop at their next call, and can be resumed later"
        return HealthFinding(about="workspaces", level=Level.WARN, text=text, fix=problem.hint)
    finally:
        await objects.aclose()
    return HealthFinding(about="workspaces", level=Level.OK, text=f"{objects.place} keeps the files of runs")


async def _finding(
    about: str, url: str, load: Callable[[], FindProblem], *, needed_for: str, does: str, without: str, fix: str
) -> HealthFinding:
    shown = hide_passwords(url)
    try:
        find_problem = load()
    except ModuleNotFoundError:
        missing = MissingExtra("cluster", needed_for=needed_for)
        text = f"{missing.message}: `fabric serve` does not start"
        return HealthFinding(about=about, level=Level.WARN, text=text, fix=missing.hint)
    problem = await find_problem(url)
    if not problem:
        return HealthFinding(about=about, level=Level.OK, text=f"{shown} {does}")
    return HealthFinding(about=about, level=Level.WARN, text=f"{shown} {without.format(problem=problem)}", fix=fix)


def _redis() -> FindProblem:
    from agent_fabric.infrastructure.identity.limits.redis_limiter import find_redis_problem  # noqa: PLC0415 - few have one

    return find_redis_problem


def _nats() -> FindProblem:
    from agent_fabric.infrastructure.cluster.nats.connection import find_nats_problem  # noqa: PLC0415 - few have one

    return find_nats_problem
