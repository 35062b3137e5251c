"""`fabric policy`: what may happen, and why."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.application.policy.simulate_policy import SimulatePolicy, Simulation
from agent_fabric.bootstrap.lazy_outside import may_leave_box
from agent_fabric.bootstrap.records import open_records
from agent_fabric.domain.errors import ConfigError, RunNotFound
from agent_fabric.domain.plural import counted
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.infrastructure.policy.load import policy_from
from agent_fabric.infrastructure.policy.rule_files import rules_from, text_of
from agent_fabric.infrastructure.runs.changes.exposed_files import ExposedFiles
from agent_fabric.infrastructure.runs.changes.project_folder import project_folder
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.interfaces.cli.durations import seconds_in
from agent_fabric.interfaces.cli.identity.identity_options import read_scopes
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, WAITING
from agent_fabric.interfaces.cli.options import (
    configuration,
    existing_root,
    fabric_root,
    require_a_person,
)
from agent_fabric.interfaces.cli.output import fitted, plain, print_json, styled
from agent_fabric.interfaces.cli.place import Folder, Place, with_client
from agent_fabric.interfaces.views.policy import LEVELS, check_command, with_added
from agent_fabric.wire.policy import CHECKED_COMMAND, POLICY, SIMULATION
from agent_fabric.wire.shape import Json

app = new_app("Explain the policy: check, show, simulate; vouch for files.")

_STYLES = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.BLOCK: "red"}
_CODES = {Verdict.ALLOW: COMPLETED, Verdict.ASK: WAITING, Verdict.BLOCK: FAILED}
MAX_SHOWN = 50
_WITHOUT_RULE = {
    Profile.WORKSPACE: "If no rule matches: {programs} programs run without a question in a box; what leaves it asks.",
    Profile.NODE: "If no rule matches: what certainly only reads runs without a question; everything else asks.",
    Profile.OPEN: "If no rule matches: everything runs except destructive commands; what may be destructive asks.",
}
_FACTS = frozenset({"id", "verdict", "reason", "origin", "warning"})
"""What a rule has beside its conditions."""


@app.callback()
def policy() -> None:
    """See what may happen without a question, what asks, and what never happens."""


@app.command()
def check(
    command: Annotated[str, typer.Argument(help="A command line, as an agent would send it.")],
    agent: Annotated[str, typer.Option(help="The specialist or agent who sends it.")] = "",
    level: Annotated[str, typer.Option(help="Level of the box that it runs in: A, A+, B or C.")] = "A",
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="A scope of the user behind the run; repeatable."),
    ] = None,
    *,
    at: Place,
) -> int:
    """Explain what the policy says about a command line, part by part. Nothing is run.

    It is judged as in a run in this folder (--here): at level C its git settings count. With --server they do not.

    Exit codes: 0 it would run, 3 a person would be asked, 1 it is blocked.

    Example: fabric policy check "make test && git push"
    """
    if level not in LEVELS:
        raise ConfigError(f"There is no level {level!r}", hint=f"Choose: {', '.join(LEVELS)}.")
    wanted = read_scopes(scopes) or ()
    url = at.url()
    if url is None:
        folder = _project(at.workspace)
        leaves = may_leave_box(configuration(at.root()).config)
        found = check_command(
            _policy(at.workspace), command, agent=agent, level=level, scopes=wanted, folder=folder, may_leave=leaves
        )
        checked: Json = CHECKED_COMMAND.dump(found)
    else:
        checked = with_client(url, lambda client: client.policy.check(command, agent=agent, level=level, scopes=wanted))
    if at.as_json:
        print_json(checked)
    else:
        _print_parts(checked)
    return _CODES[Verdict(checked["verdict"])]


@app.command()
def show(*, at: Place) -> None:
    """Show the rules in force and where they are written.

    Example: fabric policy show
    """
    url = at.url()
    shown = POLICY.dump(_policy(at.workspace)) if url is None else with_client(url, lambda client: client.policy.show())
    if at.as_json:
        print_json(shown)
        return
    sys.stdout.write(f"Profile: {plain(shown['profile'])}   Version: {plain(shown['version'])}\n")
    for rule in shown["rules"]:
        conditions = "; ".join(f"{key}: {', '.join(rule[key])}" for key in rule if key not in _FACTS) or "everything"
        sys.stdout.write(
            f"{_verdict(rule)} {plain(rule['id'])}  [{plain(rule['origin'])}]\n"
            f"      {fitted(conditions, 200, sys.stdout)}\n"
        )
        if rule.get("warning"):
            sys.stdout.write(styled(f"      warning: {plain(rule['warning'])}", "yellow", sys.stdout) + "\n")
    if not shown["rules"]:
        sys.stdout.write("No rules besides the built-in ones.\n")
    sys.stdout.write(_WITHOUT_RULE[Profile(shown["profile"])].format(programs=len(shown["allowed_commands"])) + "\n")


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(help="A policy file, as YAML or JSON.")],
    since: Annotated[str, typer.Option(help="How far to look back, such as 12h, 30d or 4w.")] = "30d",
    *,
    at: Place,
) -> None:
    """Judge past calls again, with the rules of a file added, and show what would change. Nothing is run.

    Example: fabric policy simulate stricter.yaml --since 30d
    """
    seconds = seconds_in(since)
    text = text_of(file)
    url = at.url()
    if url is None:
        result: Json = SIMULATION.dump(asyncio.run(_simulated(at.workspace, text, file, time.time() - seconds)))
    else:
        result = with_client(url, lambda client: client.policy.simulate(text, file=str(file), since_s=seconds))
    if at.as_json:
        print_json(result)
        return
    changes = result["changes"]
    most = MAX_SHOWN if sys.stdout.isatty() else len(changes)
    for each in changes[:most]:
        sys.stdout.write(
            f"{_verdict(each['before'])} → {_verdict(each['after'])}"
            f" {plain(each['run_id'])}  {fitted(each['what'], 70, sys.stdout)}  ({plain(each['after']['rule'])})\n"
        )
    if len(changes) > most:
        sys.stdout.write(f"… and {len(changes) - most} more; --json shows all\n")
    calls, runs = counted(result["calls"], "call"), counted(result["runs"], "run")
    sys.stdout.write(f"{len(changes)} of {calls} in {runs} would be decided differently.\n")


@app.command()
def vouch(
    paths: Annotated[list[str], typer.Argument(metavar="PATH…", help="Files or folders; `.` is everything.")],
    *,
    at: Folder,
) -> None:
    """Vouch for files of the project in this folder that runs wrote after reading untrusted text.

    Runs that read such a file count as having read that text. Vouch for it once you have read it yourself.

    Example: fabric policy vouch docs/
    """
    require_a_person()
    root = at.root()
    folder = project_folder(Path.cwd(), fabric_root=root)
    found = ExposedFiles(Layout(root).exposed_files).vouch(str(folder), paths)
    at.print(
        {"vouched": found}, "".join(f"{plain(path)}\n" for path in found) or "None of these was noted as untrusted.\n"
    )


async def _simulated(workspace: str | None, text: str, file: Path, since: float) -> Simulation:
    before = _policy(workspace)
    after = with_added(before, rules_from(text, file))
    try:
        root = existing_root(workspace)
    except RunNotFound:
        return Simulation(0, 0, ())
    with open_records(root) as records:
        return await SimulatePolicy(records.catalogue, records.runs)(before, after, since=since)


def _policy(workspace: str | None) -> RulePolicy:
    root = fabric_root(workspace)
    config = configuration(root).config
    return policy_from(config.policy, config.shell, config.web, folder=root)


def _project(workspace: str | None) -> str:
    """Return this folder if a run may work in it; empty: it would get a folder of its own."""
    try:
        return str(project_folder(Path.cwd(), fabric_root=fabric_root(workspace)))
    except ConfigError:
        return ""


def _print_parts(checked: Json) -> None:
    for part in checked["parts"]:
        sys.stdout.write(f"{_verdict(part)} {fitted(part['subject'], 90, sys.stdout) or '(nothing)'}\n")
        for ruling in part["said"]:
            sys.stdout.write(f"        {plain(ruling['rule'])}: {plain(ruling['reason'])}\n")
    sys.stdout.write(f"So: {_verdict(checked).strip()} ({plain(checked['rule'])})\n")
    if checked.get("outside"):
        sys.stdout.write("Once approved, it runs outside the box, with your network access and credentials.\n")
    elif refusal := checked.get("outside_refusal"):
        sys.stdout.write(f"In the box it is refused: {plain(refusal)}\n")


def _verdict(ruling: Json) -> str:
    verdict = Verdict(ruling["verdict"])
    return styled(f"{verdict.value:<5}", _STYLES[verdict], sys.stdout)
