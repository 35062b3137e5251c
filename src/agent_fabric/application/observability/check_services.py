"""Tells whether the services answer that several servers share."""

from collections.abc import Awaitable, Callable, Mapping

from agent_fabric.application.ports.workspace_archive import ObjectStore
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.secret_references import hide_passwords
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, MissingExtra
from agent_fabric.domain.observability.findings import HealthFinding, Level

FindProblem = Callable[[str], Awaitable[str]]
"""Returns why the service at an address cannot be used; empty: it can."""


@dataclass(frozen=True, slots=True)
class CheckServices:
    """Use case: find out which of the configured services cannot be used."""

    redis: Callable[[], FindProblem]
    """Loads the client of Redis; ModuleNotFoundError: it is not installed."""
    nats: Callable[[], FindProblem]
    open_objects: Callable[[], ObjectStore]
    """Opens the store of the files of runs."""

    async def __call__(self, config: FabricConfig, environ: Mapping[str, str]) -> list[HealthFinding]:
        """Return a line for each service that is configured."""
        findings = []
        try:
            redis_url, nats_url = config.redis.address(environ), config.nats.address(environ)
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
                    self.redis,
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
                    self.nats,
                    needed_for="`nats.url`",
                    does="wakes other servers and workers",
                    without="cannot be used ({problem}): servers and workers hear each other at their next poll",
                    fix="Start NATS with JetStream (`nats-server -js`), or correct `nats.url`. It is used as soon as "
                    "it answers.",
                )
            )
        if config.workspaces.backend and config.store.url:
            findings.append(await _object_finding(self.open_objects()))
        return findings


async def _object_finding(objects: ObjectStore) -> HealthFinding:
    """Store an object and read it again: read access alone would fail in the middle of a run."""
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
