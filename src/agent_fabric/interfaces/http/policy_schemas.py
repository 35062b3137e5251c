"""What the routes about the policy take and give."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from agent_fabric.interfaces.http.identity_schemas import ScopeName

_IN = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, hide_input_in_errors=True)
_OUT = ConfigDict(use_attribute_docstrings=True)
_OPEN = ConfigDict(extra="allow", use_attribute_docstrings=True)

Verdict = Literal["allow", "ask", "block"]


class RuleInForce(BaseModel):
    """One rule, with the conditions that it has: `tools`, `commands`, `paths`, `domains`, and others."""

    model_config = _OPEN

    id: str
    verdict: Verdict
    reason: str
    origin: str
    """Where it is written."""


class AllowlistInForce(BaseModel):
    """The only commands, paths and domains that may be used; an empty list does not limit."""

    commands: list[str]
    paths: list[str]
    domains: list[str]


class PolicyInForce(BaseModel):
    """What may happen without a question, what asks, and what never happens."""

    version: str
    profile: str
    rules: list[RuleInForce]
    allowed_commands: list[str]
    capabilities: dict[str, list[str]]
    allowlist: AllowlistInForce
    """For every call."""
    agent_allowlists: dict[str, AllowlistInForce]


class CommandToCheck(BaseModel):
    """A command line, as an agent would send it."""

    model_config = _IN | ConfigDict(json_schema_extra={"examples": [{"command": "make test && git push"}]})

    command: Annotated[str, StringConstraints(max_length=100_000)]
    agent: Annotated[str, StringConstraints(max_length=200)] = ""
    """The specialist or agent who sends it."""
    level: Literal["A", "A+", "B", "C"] = "A"
    """Level of the box that it runs in."""
    scopes: list[ScopeName] = []
    """Scopes of the user behind the run; none: not limited."""


class RulingShown(BaseModel):
    """What a rule says about something."""

    verdict: Verdict
    rule: str
    subject: str
    reason: str


class CheckedPart(RulingShown):
    """One part of a command line."""

    model_config = _OUT

    said: list[RulingShown]
    """Every rule that fits; the strictest one has decided."""


class CheckedCommand(RulingShown):
    """What would become of a command line."""

    model_config = _OUT

    alike: str
    """What would be allowed with it for a whole run."""
    policy_version: str
    level: str
    parts: list[CheckedPart]


class RulesToTry(BaseModel):
    """A policy file to be held against past calls."""

    model_config = _IN | ConfigDict(
        json_schema_extra={
            "examples": [{"text": "rules: [{id: no-push, verdict: block, commands: [git push]}]", "since_s": 86_400}]
        }
    )

    text: Annotated[str, StringConstraints(max_length=256 * 1024)]
    """What stands in it."""
    file: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*[^\x00/.]\.(yaml|yml|json)$")] = (
        "policy.yaml"
    )
    """What it is called; nothing of this name is read."""
    since_s: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 30 * 86_400.0
    """How far to look back."""


class ChangedRuling(BaseModel):
    """A call that would be decided otherwise."""

    model_config = _OUT

    run_id: str
    ts: float
    tool: str
    args: dict[str, Any]
    what: str
    """The call in a few words."""
    before: RulingShown
    after: RulingShown


class PolicySimulation(BaseModel):
    """What more rules would have changed."""

    runs: int
    calls: int
    changes: list[ChangedRuling]
