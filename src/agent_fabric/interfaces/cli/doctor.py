"""`fabric doctor`: could a task run here, and if not, what to do."""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric import __version__
from agent_fabric.application.observability.check_health import can_run
from agent_fabric.bootstrap.models import open_models
from agent_fabric.bootstrap.observability import answering_keys, missing_prerequisites
from agent_fabric.bootstrap.records import (
    configured_address,
    has_store,
    open_records,
    open_secrets,
    service_findings,
    store_findings,
)
from agent_fabric.config.loader import Loaded
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import ConfigError, FabricError, Forbidden
from agent_fabric.domain.observability.findings import HealthFinding, Level
from agent_fabric.domain.plural import count_of
from agent_fabric.infrastructure.policy.load import policy_from
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import configuration, fabric_root
from agent_fabric.interfaces.cli.output import colour, for_this_installation, plain_lines
from agent_fabric.interfaces.cli.place import Place, with_client
from agent_fabric.interfaces.views.examination import (
    LIMITS,
    encryption_finding,
    model_findings,
    policy_findings,
    python_finding,
)
from agent_fabric.wire.operations import DIAGNOSIS, Diagnosis

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient, Health

app = new_app("Diagnose the installation.")

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@app.command()
def doctor(*, at: Place) -> int:
    """Check whether a task could run here, or at a server; for each problem, say what to do.

    It only looks: nothing is started, downloaded, or sent to another machine, except that Redis and NATS, where they
    are configured, are asked whether they answer. Exit codes: 0 a task could run, 1 not.

    Example: fabric doctor
    """
    url = at.url()
    findings = _examine(at.workspace) if url is None else with_client(url, _examine_at)
    good = can_run(findings)
    at.print(DIAGNOSIS.dump(Diagnosis(good, findings)), _text(findings, good=good))
    return COMPLETED if good else FAILED


def _examine(workspace: str | None) -> list[HealthFinding]:
    findings = [python_finding()]
    about = "configuration"
    try:
        root = fabric_root(workspace)
        loaded = configuration(root)
        findings.append(HealthFinding(about=about, level=Level.OK, text=_origins(loaded)))
        about = "policy"
        config = loaded.config
        findings += policy_findings(policy_from(config.policy, config.shell, config.web, folder=root))
        about = "store"
        findings += store_findings(root, configured_address(loaded.config.store, os.environ))
        if not can_run(findings):
            return findings  # all else needs the store
        findings.append(encryption_finding(root, loaded.config))
        about = "models"
        return [*findings, *asyncio.run(_prerequisites_and_models(root, loaded.config))]
    except (ConfigProblem, ConfigError) as problem:
        fix = problem.hint or "fabric config show --origin"
        return [*findings, HealthFinding(about=about, level=Level.FAIL, text=problem.message, fix=fix)]


async def _prerequisites_and_models(root: Path, config: FabricConfig) -> list[HealthFinding]:
    resolve = open_secrets(config.secrets, root, os.environ).chain.resolve
    missing = await missing_prerequisites(root, config, resolve)()
    if has_store(root):  # else there are no keys
        with open_records(root) as records:
            missing += await answering_keys(config, resolve, records.storage)()
    missing += await service_findings(config, root)
    async with open_models(config, resolve, root) as here:
        return [*missing, *await model_findings(root, config, here.list_models)]


async def _examine_at(client: "FabricClient") -> list[HealthFinding]:
    """Return the state of a server, our identity there, and what it reports about itself."""
    findings: list[HealthFinding] = []
    try:
        findings += _health(client.url, await client.health())
        failing = ", ".join(await client.not_ready_because())
        ready = HealthFinding(about="readiness", level=Level.OK, text="work is welcome")
        not_ready = replace(ready, level=Level.FAIL, text=f"not ready: {failing}", fix=_NOT_READY)
        findings.append(not_ready if failing else ready)
        who = await client.me()
        may = ", ".join(sorted(who.scopes))
        starts = "" if who.scopes & _STARTING else "; not start runs"
        findings.append(
            HealthFinding(about="you", level=Level.OK, text=f"{who.name} ({who.kind}), who may: {may}{starts}")
        )
        return [*findings, *DIAGNOSIS.load(await client.examine()).findings]
    except Forbidden:
        return [*findings, HealthFinding(about="machine", level=Level.OK, text="shown to admins of the server only")]
    except FabricError as problem:
        return [*findings, HealthFinding(about="server", level=Level.FAIL, text=problem.message, fix=problem.hint)]


_STARTING = frozenset({"runs", "workflows", "admin"})
_NOT_READY = "See its log; `fabric db status` shows the store and the disk."


def _health(url: str, health: "Health") -> list[HealthFinding]:
    at = f"agent-fabric {health.version} at {url}"
    if not health.ok:
        fix = "Restart it: the store was deleted or replaced."
        return [HealthFinding(about="server", level=Level.FAIL, text=f"{at}; it cannot keep runs", fix=fix)]
    text = f"{at}; {count_of(health.running, 'run')} active, {health.queued} queued"
    found = [HealthFinding(about="server", level=Level.OK, text=text)]
    if health.version != __version__:
        text = f"the server is {health.version}, this is {__version__}"
        found.append(HealthFinding(about="versions", level=Level.WARN, text=text, fix="Use the same on both sides."))
    return found


def _origins(loaded: Loaded) -> str:
    origins = [origin for origin in dict.fromkeys(loaded.origins.values()) if origin.startswith(("file ", "env "))]
    return "valid; " + (f"set by {', '.join(origins)}" if origins else "nothing is set, so the built-in defaults apply")


def _text(findings: list[HealthFinding], *, good: bool) -> str:
    lines: list[str] = []
    for finding in findings:
        mark = colour(f"{finding.level.value:<4}", _STYLES[finding.level], sys.stdout)
        text = plain_lines(finding.text).replace("\n", "\n" + " " * 24)
        lines.append(f"{mark}  {finding.about:<16}  {text}")
        if finding.fix:
            fix = plain_lines(for_this_installation(finding.fix)).replace("\n", "\n" + " " * 26)
            lines.append(f"{' ' * 24}→ {fix}")
    return "\n".join((*lines, "", verdict_of(findings, good=good))) + "\n"


def verdict_of(findings: list[HealthFinding], *, good: bool) -> str:
    """Say whether tasks can run."""
    if not good:
        return "No task can run until what is marked fail is repaired."
    limited = any(finding.level is Level.WARN and LIMITS in finding.text for finding in findings)
    return "Tasks can run, but for those that are named above." if limited else "A task can run."
