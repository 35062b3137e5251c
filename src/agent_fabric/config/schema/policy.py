"""What may happen without a question, what asks, and what never happens."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, Field, Strict

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import SETTINGS, EntryKey, Scopes, Texts

_RULE_ID: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def _rule_id(name: str) -> str:
    if not _RULE_ID.fullmatch(name):
        raise ConfigProblem("must be at most 64 of a-z, 0-9, - _ and . and start with a letter or digit")
    return name


Effects = Annotated[
    tuple[Literal["reads", "idempotent", "changes_workspace", "leaves_sandbox"], ...], Strict(strict=False)
]


class RuleConfig(BaseModel):
    """One rule; every condition that is set must hold, and the strictest rule that fits wins."""

    model_config = SETTINGS

    id: Annotated[str, AfterValidator(_rule_id)]
    """Its name in logs and explanations."""
    verdict: Literal["block", "ask", "allow"]
    """What happens: it does not run, a person is asked, or it runs."""
    reason: str = Field(default="", max_length=500)
    """Why, in a sentence for the model and for people."""
    tools: Texts = ()
    """Names of tools; `*` stands for anything, as in `mcp__files__*`."""
    commands: Texts = ()
    """Commands, each a program and what must stand behind it: `curl`, `git push`, `rm -r`, `mkfs*`."""
    commands_matching: Texts = ()
    """Regular expressions (RE2) for a command as it is written without its quotes. A rule that allows must fit the
    whole of it, another one any part."""
    paths: Texts = ()
    """Files and folders, relative to the workspace: `docs/**`, `*.env`, `secrets/`."""
    domains: Texts = ()
    """Hosts, each with all that lies below it: `example.org`."""
    effects: Effects = ()
    """What the tool does to the world."""
    agents: Texts = ()
    """Specialists or agents; `*` stands for anything."""
    nodes: Texts = ()
    """Machines; `*` stands for anything."""
    scopes: Scopes = ()
    """The rule holds only for users who have one of these scopes, such as `tools:shell`."""
    unless_scopes: Scopes = ()
    """The rule does not hold for users who have one of these scopes: a rule that blocks then requires it. The owner of
    the fabric folder and admins have every scope."""
    matches: Texts = ()
    """Examples that the rule must fit, checked when it is read: commands, paths, addresses or names of tools."""
    matches_not: Texts = ()
    """Examples that it must not fit."""


class PolicyFile(BaseModel):
    """What stands in a policy file."""

    model_config = SETTINGS

    rules: Annotated[tuple[RuleConfig, ...], Strict(strict=False)] = ()
    """The rules."""


class PolicyConfig(BaseModel):
    """What may happen without a question, what asks, and what never happens."""

    model_config = SETTINGS

    profile: Literal["workspace", "node", "open"] = "workspace"
    """What holds where no rule fits. `workspace`: programs of the allowlist run in their box, what leaves the machine
    asks. `node`: whatever does not only read asks. `open`: everything runs but catastrophes."""
    rules: Annotated[tuple[RuleConfig, ...], Strict(strict=False)] = ()
    """Rules beside the built-in ones."""
    files: Texts = ()
    """Files with further rules; relative ones are looked for in the fabric folder. No file is read that is not named
    here, but for `policy.yaml` or `policy.json` in your own configuration folder."""
    capabilities: Mapping[EntryKey, Texts] = {}
    """Which tools a specialist or agent may use, as a list of capabilities such as `file-read`, `file-write`,
    `code-execution`, `web-search`; one that is not named here may use all that it has."""
    approval_timeout_s: float = Field(default=86_400.0, gt=0, le=30 * 86_400)
    """How long a question to a person stays open; then the answer is no."""
