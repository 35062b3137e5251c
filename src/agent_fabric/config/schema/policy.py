"""What may happen without a question, what asks, and what never happens."""

from collections.abc import Mapping
from typing import Annotated, Literal

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import AfterValidator, Field, Settings, Strict
from agent_fabric.config.schema.values import SECTION, EntryKey, Scopes, Text, Texts, matching

Effects = Annotated[
    tuple[Literal["reads", "idempotent", "changes_workspace", "leaves_sandbox"], ...], Strict(strict=False)
]


class RuleConfig(Settings):
    """One rule; every condition that is set must hold, and the strictest rule that fits wins."""

    id: Annotated[
        str,
        matching(
            r"[a-z0-9][a-z0-9_.-]{0,63}",
            "must be at most 64 of a-z, 0-9, - _ and . and start with a letter or digit",
        ),
    ]
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


class PolicyFile(Settings):
    """What stands in a policy file."""

    rules: Annotated[tuple[RuleConfig, ...], Strict(strict=False)] = ()
    """The rules."""


def _listed_domain(name: str) -> str:
    if not name.isascii() or set("/:@ ") & set(name):
        raise ConfigProblem(
            "must be a host such as 'example.org', which includes all below it, or '*.example.org'",
            hint="Write no https://, no port and no path.",
        )
    return name.lower().removesuffix(".")


class AllowlistConfig(Settings):
    """The only commands, paths and domains that may be used; an empty list does not limit."""

    commands: Texts = ()
    """Programs that commands may start, by name; `*` stands for anything. Others are blocked without a question, unlike
    those that are merely missing in `shell.allowed_commands`. What is part of bash itself needs no entry."""
    paths: Texts = ()
    """Files and folders that file tools and commands may use, relative to the workspace: `docs/**`, `*.md`."""
    domains: Annotated[tuple[Annotated[Text, AfterValidator(_listed_domain)], ...], Strict(strict=False)] = ()
    """Hosts that `fetch_url`, `http-request`, the browser and commands may reach, redirects and everything that a page
    loads included: `example.org` and all below it."""


class PolicyConfig(Settings):
    """What may happen without a question, what asks, and what never happens."""

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
    allowlist: AllowlistConfig = SECTION
    """Allowlists for every call, a floor: agents can narrow them, never widen them."""
    agent_allowlists: Mapping[EntryKey, AllowlistConfig] = {}
    """Further allowlists for a specialist or agent, by its name. An agent's own file can have some, too."""
    workspace_text: Literal["own", "exposed"] = "own"
    """Whose text the files of a project folder are. `own`: yours. `exposed`: a stranger's, so that whatever a run there
    wants to send out asks, as after reading a web page; the same as `--untrusted` for one run."""
    outside: Literal["ask", "never"] = "ask"
    """Whether commands that need the network, such as `git push`, run outside the box once a person has agreed to
    exactly that call. `never`: where there is a box they are refused, and no question is asked. `--no-outside` does the
    same for one run."""
    approval_timeout_s: float = Field(default=86_400.0, gt=0, le=30 * 86_400)
    """How long a question to a person stays open; then the answer is no."""
