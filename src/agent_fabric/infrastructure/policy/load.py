"""Makes the policy that the configuration describes.

The built-in rules, the user's own file, the files that the configuration names and the rules in it all hold together:
none replaces another, the strictest that fits wins. A policy file that merely lies somewhere, in a workspace for
example, is never read.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from agent_fabric.config.files import user_folder
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.policy import AllowlistConfig, PolicyConfig
from agent_fabric.config.schema.tools import ShellConfig, WebConfig
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.labels import OutgoingLimits
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.programs import DEFAULT_ALLOWED_COMMANDS
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.infrastructure.policy.rule_files import checked_rules, refuse_doubles, rules_from, rules_in

BUILT_IN = "builtin-2"
"""Changes with what is built in: floors, defaults and tables."""


def policy_from(
    policy: PolicyConfig,
    shell: ShellConfig,
    web: WebConfig,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> RulePolicy:
    """Return the policy in force; relative files are looked for in `folder`, the fabric folder.

    Raises:
        ConfigProblem: a file or a rule cannot be used.
    """
    rules = (
        *_own_rules(os.environ if environ is None else environ),
        *(rule for name in policy.files for rule in rules_in(_path(name, folder))),
        *checked_rules(policy.rules, "configuration"),
    )
    refuse_doubles(rules)
    base = DEFAULT_ALLOWED_COMMANDS if shell.allowed_commands is None else frozenset(shell.allowed_commands)
    return with_rules(
        RulePolicy(
            profile=Profile(policy.profile),
            allowed_commands=base | frozenset(shell.extra_commands),
            capabilities={agent: frozenset(own) for agent, own in policy.capabilities.items()},
            outgoing=OutgoingLimits(
                fetches=web.exposed_fetches,
                task_calls=web.exposed_task_calls,
                searches=web.exposed_searches,
                query_chars=web.exposed_query_chars,
            ),
            floor=_allowlists(policy.allowlist, "the configuration"),
            agent_allowlists={
                agent: _allowlists(each, f"the configuration for {agent}")
                for agent, each in policy.agent_allowlists.items()
            },
        ),
        rules,
    )


def with_rules(policy: RulePolicy, rules: Iterable[Rule]) -> RulePolicy:
    """Return a policy with other rules, and the version that belongs to them."""
    rules = tuple(rules)
    return replace(policy, version=_version(policy, rules), rules=rules)


def with_text(policy: RulePolicy, text: str, path: Path) -> RulePolicy:
    """Return a policy with the rules of a policy file added; `path` is only how problems call it.

    Raises:
        ConfigProblem: the text holds no rules that can be used, or two rules have the same name.
    """
    added = rules_from(text, path)
    known = {rule.id for rule in added}
    # A newer text of a file that is in force already takes its place.
    rules = (*(rule for rule in policy.rules if rule.id not in known), *added)
    refuse_doubles(rules)
    return with_rules(policy, rules)


def _allowlists(written: AllowlistConfig, owner: str) -> Allowlists:
    return Allowlists(commands=written.commands, paths=written.paths, domains=written.domains, owner=owner)


def _own_rules(environ: Mapping[str, str]) -> tuple[Rule, ...]:
    folder = user_folder(environ)
    if folder is None:
        return ()
    found = [path for path in (folder / f"policy{suffix}" for suffix in (".yaml", ".yml", ".json")) if path.exists()]
    if len(found) > 1:
        raise ConfigProblem(f"{folder} has more than one policy file", hint="Keep one of them.")
    return rules_in(found[0]) if found else ()


def _path(name: str, folder: Path | None) -> Path:
    path = Path(name).expanduser()
    if path.is_absolute():
        return path
    if folder is None:
        raise ConfigProblem(f"policy.files: {name!r} must be an absolute path here")
    return folder / path


def _version(policy: RulePolicy, rules: tuple[Rule, ...]) -> str:
    """Name the rules by what they say, not by where they stand; examples and reasons do not matter."""
    said: list[object] = [
        policy.profile.value,
        sorted(policy.allowed_commands),
        sorted((agent, sorted(own)) for agent, own in policy.capabilities.items()),
        sorted(
            [
                rule.id,
                rule.verdict.value,
                *map(list, (rule.tools, rule.paths, rule.domains, rule.agents, rule.nodes)),
                [[pattern.text, pattern.expression is not None] for pattern in rule.commands],
                sorted(rule.effects),
                *([list(rule.scopes), list(rule.unless_scopes)] if rule.scopes or rule.unless_scopes else []),
            ]
            for rule in rules
        ),
    ]
    lists = [(agent, each) for agent, each in [("", policy.floor), *sorted(policy.agent_allowlists.items())] if each]
    said += [[agent, each.commands, each.paths, each.domains] for agent, each in lists]
    digest = hashlib.sha256(json.dumps([BUILT_IN, said]).encode()).hexdigest()
    return f"{BUILT_IN}-{digest[:12]}"
