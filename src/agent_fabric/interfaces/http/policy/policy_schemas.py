"""What the routes about the policy take and give."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.identity.identity_schemas import ScopeName


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
