"""What may happen, and why. Nothing is run, and nothing changed."""

import time
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agent_fabric.application.policy.check_command import CheckedCommand
from agent_fabric.application.policy.simulate_policy import SimulatePolicy, Simulation
from agent_fabric.bootstrap.runs import check_command, policy_of, policy_with
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.identity.identity import ScopeName
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.policy import CHECKED_COMMAND, POLICY, SIMULATION


class CommandToCheck(RequestBody, example={"command": "make test && git push"}):
    """A command line, as an agent would send it."""

    command: Annotated[str, StringConstraints(max_length=100_000)]
    agent: Annotated[str, StringConstraints(max_length=200)] = ""
    """The specialist or agent who sends it."""
    level: Literal["A", "A+", "B", "C"] = "A"
    """Level of the box that it runs in."""
    scopes: list[ScopeName] = Field(default=[])
    """Scopes of the user behind the run; none: not limited."""


class RulesToTry(
    RequestBody, example={"text": "rules: [{id: no-push, verdict: block, commands: [git push]}]", "since_s": 86_400}
):
    """A policy file to be held against past calls."""

    text: Annotated[str, StringConstraints(max_length=256 * 1024)]
    """What stands in it."""
    file: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*[^\x00/.]\.(yaml|yml|json)$")] = (
        "policy.yaml"
    )
    """What it is called; nothing of this name is read."""
    since_s: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 30 * 86_400.0
    """How far to look back."""


def add_policy(routes: Routes, runs: ServedRuns) -> None:
    """Add the routes. The policy is the one that the server has started with."""
    in_force = policy_of(runs.records, runs.config)
    check_line = check_command(in_force, runs.config)
    simulate_policy = SimulatePolicy(runs.catalogue, runs.records.runs)

    @routes.get("", Scope.RUNS_READ, "Show the rules in force", POLICY)
    async def show() -> RulePolicy:
        """The same as `fabric policy show --json`."""
        return in_force

    @routes.post("/check", Scope.RUNS_READ, "Explain what the policy says about a command line", CHECKED_COMMAND)
    async def check(wish: CommandToCheck) -> CheckedCommand:
        """The same as `fabric policy check --json`: every part, and each rule that fits it. Nothing is run."""
        return check_line(wish.command, agent=wish.agent, level=wish.level, scopes=wish.scopes)

    @routes.post("/simulate", Scope.RUNS_READ, "Judge past calls again, with more rules", SIMULATION, fails=[503])
    async def simulate(wish: RulesToTry, by: Principal) -> Simulation:
        """The same as `fabric policy simulate --json`: what would change in one's own and the team's runs."""
        after = await policy_with(in_force, wish.text, wish.file)
        viewer = replace(Viewer.of(by), sees_all=False)
        return await simulate_policy(in_force, after, since=time.time() - wish.since_s, viewer=viewer)
