"""`fabric doctor`: could a task run here, and if not, what to do."""

import asyncio
import sys

from agent_fabric.application.models.check_health import Box, CheckHealth, Egress, Finding, Level, can_run
from agent_fabric.bootstrap.models_here import open_models
from agent_fabric.config.loader import Loaded
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.machine import ThisMachine
from agent_fabric.infrastructure.sandbox.levels import choose_level
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import AsJson, Workspace, configuration, fabric_root
from agent_fabric.interfaces.cli.output import plain_lines, print_json, styled

app = new_app("Check whether a task could run here.")

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@app.command()
def doctor(workspace: Workspace = None, as_json: AsJson = False) -> int:
    """Check whether a task could run here; for each problem, say what to do.

    Looks only: nothing is started, downloaded, or sent to another machine. Exit codes: 0 a task could run, 1 not.

    Example: fabric doctor
    """
    findings = _examine(workspace)
    good = can_run(findings)
    if as_json:
        shown = [{"about": f.about, "level": f.level.value, "text": f.text, "fix": f.fix} for f in findings]
        print_json({"ok": good, "findings": shown})
    else:
        _show(findings, good=good)
    return COMPLETED if good else FAILED


def _examine(workspace: str | None) -> list[Finding]:
    facts = ThisMachine().facts()
    findings = [Finding(about="python", level=Level.OK, text=f"{facts.python} on {facts.platform}")]
    about = "configuration"
    try:
        root = fabric_root(workspace)
        loaded = configuration(root)
        findings.append(Finding(about=about, level=Level.OK, text=_origins(loaded)))
        about = "models"
        return [*findings, *asyncio.run(_models(str(root), loaded.config))]
    except (ConfigProblem, ConfigError) as problem:
        fix = problem.hint or "fabric config show --origin"
        return [*findings, Finding(about=about, level=Level.FAIL, text=problem.message, fix=fix)]


async def _models(root: str, config: FabricConfig) -> list[Finding]:
    fallback = config.cloud_fallback
    telemetry = config.telemetry if config.telemetry is not None and config.telemetry.enabled else None
    choice = await asyncio.to_thread(choose_level, config.sandbox)
    check = CheckHealth(
        machine=ThisMachine(),
        root=root,
        box=Box(choice.level, choice.sentence, (*choice.problems, *_network(config, choice.level))),
        egress=Egress(
            offline=config.offline,
            fallback=None if fallback is None else f"`{fallback.model_key}`, {_POLICIES[fallback.policy]}",
            traces=telemetry.otlp_endpoint if telemetry is not None and telemetry.exporter == "otlp" else None,
        ),
        traces_wanted=telemetry is not None,
    )
    async with open_models(config) as here:
        return check(await here.list_models())


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


def _origins(loaded: Loaded) -> str:
    origins = [origin for origin in dict.fromkeys(loaded.origins.values()) if origin.startswith(("file ", "env "))]
    return "valid; " + (f"set by {', '.join(origins)}" if origins else "nothing is set, so what is built in holds")


def _show(findings: list[Finding], *, good: bool) -> None:
    out = sys.stdout
    for finding in findings:
        mark = styled(f"{finding.level.value:<4}", _STYLES[finding.level], out)
        text = plain_lines(finding.text).replace("\n", "\n" + " " * 24)
        out.write(f"{mark}  {finding.about:<16}  {text}\n")
        if finding.fix:
            fix = plain_lines(finding.fix).replace("\n", "\n" + " " * 26)
            out.write(f"{' ' * 24}→ {fix}\n")
    verdict = "A task can run." if good else "No task can run until what is marked fail is repaired."
    out.write(f"\n{verdict}\n")
