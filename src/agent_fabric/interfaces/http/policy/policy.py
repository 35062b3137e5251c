"""What may happen, and why. Nothing is run, and nothing changed."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Request
from pydantic import Field, StringConstraints

from agent_fabric.application.policy.simulate_policy import SimulatePolicy, Simulation
from agent_fabric.bootstrap.runs import may_leave_box, policy_of
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.infrastructure.policy.rule_files import rules_from
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.identity.identity import ScopeName
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.views.policy import check_command, with_added
from agent_fabric.wire.policy import CHECKED_COMMAND, POLICY, SIMULATION, CheckedCommand


class CommandToCheck(RequestBody, json_schema_extra={"examples": [{"command": "make test && git push"}]}):
    """A command line, as an agent would send it."""

    command: Annotated[str, StringConstraints(max_length=100_000)]
    agent: Annotated[str, StringConstraints(max_length=200)] = ""
    """The specialist or agent who sends it."""
    level: Literal["A", "A+", "B", "C"] = "A"
    """Level of the box that it runs in."""
    scopes: list[ScopeName] = Field(default=[])
    """Scopes of the user behind the run; none: not limited."""


class RulesToTry(
    RequestBody,
    json_schema_extra={
        "examples": [{"text": "rules: [{id: no-push, verdict: block, commands: [git push]}]", "since_s": 86_400}]
    },
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


def add_policy(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes. The policy is the one that the server has started with."""
    in_force = policy_of(fabric.records, fabric.config)
    may_leave = may_leave_box(fabric.config)
    simulate_policy = SimulatePolicy(fabric.catalogue, fabric.records.runs)

    @routes.get("/api/v1/policy", Scope.RUNS_READ, "Show the rules in force", POLICY)
    async def show() -> RulePolicy:
        """The same as `fabric policy show --json`."""
        return in_force

    @routes.post(
        "/api/v1/policy/check", Scope.RUNS_READ, "Explain what the policy says about a command line", CHECKED_COMMAND
    )
    async def check(wish: CommandToCheck) -> CheckedCommand:
        """The same as `fabric policy check --json`: every part, and each rule that fits it. Nothing is run."""
        return check_command(
            in_force, wish.command, agent=wish.agent, level=wish.level, scopes=wish.scopes, may_leave=may_leave
        )

    @routes.post(
        "/api/v1/policy/simulate", Scope.RUNS_READ, "Judge past calls again, with more rules", SIMULATION, fails=[503]
    )
    async def simulate(wish: RulesToTry, request: Request) -> Simulation:
        """The same as `fabric policy simulate --json`: what would change in one's own and the team's runs."""
        try:
            # Not here: a caller who may only look must not hold up all others with a long text.
            after = await on_own_thread(lambda: with_added(in_force, rules_from(wish.text, Path(wish.file))))
        except ConfigProblem as problem:
            raise ConfigError(problem.message, hint=problem.hint) from None
        viewer = replace(Viewer.of(who_asks(request)), sees_all=False)
        return await simulate_policy(in_force, after, since=time.time() - wish.since_s, viewer=viewer)
