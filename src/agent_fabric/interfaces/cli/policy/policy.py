"""`fabric policy`: what may happen, and why."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.application.policy.check_command import LEVELS
from agent_fabric.application.policy.simulate_policy import SimulatePolicy, Simulation
from agent_fabric.bootstrap.records import open_records
from agent_fabric.bootstrap.runs import check_command, policy_with
from agent_fabric.domain.errors import ConfigError, RunNotFound
from agent_fabric.domain.identity.principals import AnyScope
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.infrastructure.policy.load import policy_from
from agent_fabric.infrastructure.policy.rule_files import text_of
from agent_fabric.infrastructure.runs.changes.exposed_files import ExposedFiles
from agent_fabric.infrastructure.runs.changes.project_folder import project_folder
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.interfaces.cli.durations import seconds_in
from agent_fabric.interfaces.cli.identity.identity_options import read_scopes
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, WAITING
from agent_fabric.interfaces.cli.options import (
    configuration,
    require_a_person,
)
from agent_fabric.interfaces.cli.output import colour, fit_width, plain
from agent_fabric.interfaces.cli.place import Folder, Noun, Place, here
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


class _LocalPolicy:
    """The policy of a fabric folder."""

    def __init__(self, at: Place) -> None:
        self._at = at
        self._root = at.root()
        self._config = config = configuration(self._root).config
        self._policy = policy_from(config.policy, config.shell, config.web, folder=self._root)

    async def show(self) -> Json:
        return POLICY.dump(self._policy)

    async def check(self, command: str, *, agent: str, level: str, scopes: Sequence[AnyScope]) -> Json:
        judge = check_command(self._policy, self._config)
        found = judge(command, agent=agent, level=level, scopes=scopes, folder=self._project())
        return CHECKED_COMMAND.dump(found)

    def _project(self) -> str:
        """Return this folder if a run may work in it; empty: it would get a folder of its own."""
        try:
            return str(project_folder(Path.cwd(), fabric_root=self._root))
        except ConfigError:
            return ""

    async def simulate(self, text: str, *, file: str, since_s: float) -> Json:
        after = await policy_with(self._policy, text, file)
        try:
            root = self._at.existing_root()
        except RunNotFound:
            return SIMULATION.dump(Simulation(0, 0, ()))
        with open_records(root) as records:
            replay = SimulatePolicy(records.catalogue, records.runs)
            return SIMULATION.dump(await replay(self._policy, after, since=time.time() - since_s))


_policy = Noun(here(_LocalPolicy), lambda client: client.policy)


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
    checked = _policy(at, lambda rules: rules.check(command, agent=agent, level=level, scopes=wanted))
    at.print(checked, _parts_text(checked))
    return _CODES[Verdict(checked["verdict"])]


@app.command()
def show(*, at: Place) -> int:
    """Show the rules in force and where they are written.

    Example: fabric policy show
    """
    found = _policy(at, lambda rules: rules.show())
    lines = [f"Profile: {plain(found['profile'])}   Version: {plain(found['version'])}"]
    for rule in found["rules"]:
        conditions = "; ".join(f"{key}: {', '.join(rule[key])}" for key in rule if key not in _FACTS) or "everything"
        lines.append(f"{_verdict(rule)} {plain(rule['id'])}  [{plain(rule['origin'])}]")
        lines.append(f"      {fit_width(conditions, 200, sys.stdout)}")
        if rule.get("warning"):
            lines.append(colour(f"      warning: {plain(rule['warning'])}", "yellow", sys.stdout))
    if not found["rules"]:
        lines.append("No rules besides the built-in ones.")
    lines.append(_WITHOUT_RULE[Profile(found["profile"])].format(programs=len(found["allowed_commands"])))
    return at.print(found, "".join(f"{line}\n" for line in lines))


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(help="A policy file, as YAML or JSON.")],
    since: Annotated[str, typer.Option(help="How far to look back, such as 12h, 30d or 4w.")] = "30d",
    *,
    at: Place,
) -> int:
    """Judge past calls again, with the rules of a file added, and show what would change. Nothing is run.

    Example: fabric policy simulate stricter.yaml --since 30d
    """
    seconds = seconds_in(since)
    text = text_of(file)
    result = _policy(at, lambda rules: rules.simulate(text, file=str(file), since_s=seconds))
    changes = result["changes"]
    most = MAX_SHOWN if sys.stdout.isatty() else len(changes)
    lines = [
        f"{_verdict(each['before'])} → {_verdict(each['after'])}"
        f" {plain(each['run_id'])}  {fit_width(each['what'], 70, sys.stdout)}  ({plain(each['after']['rule'])})"
        for each in changes[:most]
    ]
    if len(changes) > most:
        lines.append(f"… and {len(changes) - most} more; --json shows all")
    calls, runs = count_of(result["calls"], "call"), count_of(result["runs"], "run")
    lines.append(f"{len(changes)} of {calls} in {runs} would be decided differently.")
    return at.print(result, "".join(f"{line}\n" for line in lines))


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


def _parts_text(checked: Json) -> str:
    lines = []
    for part in checked["parts"]:
        lines.append(f"{_verdict(part)} {fit_width(part['subject'], 90, sys.stdout) or '(nothing)'}")
        lines += [f"        {plain(ruling['rule'])}: {plain(ruling['reason'])}" for ruling in part["said"]]
    lines.append(f"So: {_verdict(checked).strip()} ({plain(checked['rule'])})")
    if checked.get("outside"):
        lines.append("Once approved, it runs outside the box, with your network access and credentials.")
    elif refusal := checked.get("outside_refusal"):
        lines.append(f"In the box it is refused: {plain(refusal)}")
    return "".join(f"{line}\n" for line in lines)


def _verdict(ruling: Json) -> str:
    verdict = Verdict(ruling["verdict"])
    return colour(f"{verdict.value:<5}", _STYLES[verdict], sys.stdout)
