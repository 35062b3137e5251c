"""What may happen on a node: its own floor and the hub's policy for it, judged together on both ends.

In force is the stricter of the two. The hub can tighten the floor and never loosen it. A document of either has the
seed's fields (`hitl_enabled`, `blocked_commands`, `requires_approval_for`) and, beside them, a profile and rules. With
`hitl_enabled` every call asks, one that only reads too; without it the profile decides.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS, SHELL
from agent_fabric.domain.fleet.protocol import canonical
from agent_fabric.domain.fleet.served_tools import MCP_PROXY
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import Judgement, RulePolicy, strictest
from agent_fabric.domain.policy.linear_expressions import UnknownExpression, linear_expression
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect, ToolSpec

MAX_RULES: Final = 500
MAX_DOCUMENT_BYTES: Final = 200_000
_KEYS: Final = frozenset({"profile", "hitl_enabled", "blocked_commands", "requires_approval_for", "rules"})
_RULE_KEYS: Final = frozenset(
    {"id", "verdict", "reason", "tools", "commands", "commands_matching", "paths", "matches", "matches_not"}
)
_LISTS: Final = ("tools", "commands", "commands_matching", "paths", "matches", "matches_not")
HITL_RULE: Final = "hitl_enabled"
"""The rule by which every call asks."""
NO_DOCUMENT: Final[Mapping[str, Any]] = {}


class PolicyProblem(ValueError):
    """A document cannot be used; the message says what is wrong with it. Nothing of it is in force."""


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """A `Policy` of one node: the stricter of its floor and the hub's document."""

    floor: RulePolicy
    hub: RulePolicy
    version: str
    documents: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default=({}, {}), compare=False, repr=False)

    def judge(self, call: ProposedCall) -> Ruling:
        """Decide about one call; never raises."""
        ruling = strictest([self.floor.judge(call), self.hub.judge(call)])
        if call.tool == SHELL and ruling.verdict is Verdict.ALLOW:  # no rule can tell what will be typed
            return Ruling(Verdict.ASK, "Every session of a shell needs an approval of its own.", "shell_session", SHELL)
        if call.args.get("environment") and ruling.verdict is Verdict.ALLOW and not self._asks_for_nothing:
            reason = "Variables can make a command do something else than it says."
            return Ruling(Verdict.ASK, reason, "command_environment", call.tool)
        return ruling

    @property
    def _asks_for_nothing(self) -> bool:
        return self.floor.profile is Profile.OPEN and self.hub.profile is Profile.OPEN

    def explain(self, call: ProposedCall) -> tuple[Judgement, ...]:
        """Tell what was said about each part, by the floor and then by the hub."""
        return (*self.floor.explain(call), *self.hub.explain(call))


def node_policy(
    floor: Mapping[str, Any], hub: Mapping[str, Any] = NO_DOCUMENT, roots: Sequence[str] = ()
) -> NodePolicy:
    """Join the two documents; `roots` are the folders that the node's own file names.

    They are no part of the version: a hub that does not know of them sends what the node then refuses.

    Raises:
        PolicyProblem: one of them cannot be used.
    """
    return NodePolicy(
        replace(rules_of(floor, "the node's floor"), roots=() if "/" in roots else tuple(roots)),
        rules_of(hub, "the hub's policy for the node"),
        version_in_force(floor, hub),
        (floor, hub),
    )


def version_in_force(floor: Mapping[str, Any], hub: Mapping[str, Any]) -> str:
    """Return what names exactly these two documents."""
    return f"node-{hashlib.sha256(canonical([dict(floor), dict(hub)])).hexdigest()[:16]}"


def rules_of(document: Mapping[str, Any], origin: str) -> RulePolicy:
    """Make a policy of a document.

    Raises:
        PolicyProblem: it has unknown keys, or a rule that is none.
    """
    if unknown := sorted(map(str, set(document) - _KEYS)):
        raise PolicyProblem(f"{origin} has unknown keys: {', '.join(unknown)}")
    if len(canonical(dict(document))) > MAX_DOCUMENT_BYTES:
        raise PolicyProblem(f"{origin} is larger than {MAX_DOCUMENT_BYTES:,} bytes")
    profile = document.get("profile", Profile.NODE.value)
    if profile not in {Profile.NODE.value, Profile.OPEN.value}:
        raise PolicyProblem(f"{origin}: profile is `node` or `open`, not {profile!r}")
    asks_always = document.get("hitl_enabled", False)
    if not isinstance(asks_always, bool):
        raise PolicyProblem(f"{origin}: hitl_enabled is true or false")
    rules = [
        *_every_call_asks(asks_always, origin),
        *_blocked_rules(_texts(document, "blocked_commands", origin), origin),
        *_asking(_texts(document, "requires_approval_for", origin), origin),
        *_read_rules(document.get("rules", ()), origin),
    ]
    if len(rules) > MAX_RULES:
        raise PolicyProblem(f"{origin} has more than {MAX_RULES} rules")
    if broken := next((rule.pipe_problem for rule in rules if rule.pipe_problem), ""):
        raise PolicyProblem(f"{origin} {broken}")
    names = [rule.id for rule in rules]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise PolicyProblem(f"{origin} has two rules called {doubles[0]!r}")
    return RulePolicy(version=version_in_force(document, {}), profile=Profile(profile), rules=tuple(rules))


def _texts(table: Mapping[str, Any], key: str, origin: str) -> tuple[str, ...]:
    values = table.get(key, ())
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) and each.strip() for each in values):
        raise PolicyProblem(f"{origin}: {key} is a list of texts")
    return tuple(values)


def _blocked_rules(commands: Sequence[str], origin: str) -> list[Rule]:
    return [
        Rule(
            id=f"blocked_commands.{number}",
            verdict=Verdict.BLOCK,
            reason=f"{command!r} is blocked by {origin}.",
            commands=(CommandPattern(text=command),),
            origin=origin,
        )
        for number, command in enumerate(commands)
    ]


def _every_call_asks(asks_always: bool, origin: str) -> list[Rule]:
    reason = f"{origin[0].upper()}{origin[1:]} has hitl_enabled: every call needs an approval."
    return [Rule(id=HITL_RULE, verdict=Verdict.ASK, reason=reason, origin=origin)] if asks_always else []


def _asking(names: Sequence[str], origin: str) -> list[Rule]:
    return [
        Rule(
            id=f"requires_approval_for.{number}",
            verdict=Verdict.ASK,
            reason=f"{name!r} needs an approval by {origin}.",
            tools=(name,) if name in NODE_TOOLS or "." in name else (),
            commands=() if name in NODE_TOOLS or "." in name else (CommandPattern(text=name),),
            origin=origin,
        )
        for number, name in enumerate(names)
    ]


def _read_rules(written: Any, origin: str) -> list[Rule]:
    if not isinstance(written, list | tuple):
        raise PolicyProblem(f"{origin}: rules is a list of tables")
    return [_rule(each, origin) for each in written]


def _rule(plain: Any, origin: str) -> Rule:
    if not isinstance(plain, Mapping):
        raise PolicyProblem(f"{origin}: a rule is a table")
    name = plain.get("id")
    if not isinstance(name, str) or not name or len(name) > 64:
        raise PolicyProblem(f"{origin}: every rule needs an `id` of at most 64 characters")
    where = f"{origin}: rule {name!r}"
    if unknown := sorted(map(str, set(plain) - _RULE_KEYS)):
        raise PolicyProblem(f"{where} has unknown keys: {', '.join(unknown)}")
    if plain.get("verdict") not in list(Verdict):
        raise PolicyProblem(f"{where}: verdict is allow, ask or block")
    texts = {key: _texts(plain, key, where) for key in _LISTS}
    try:
        expressions = [linear_expression(text) for text in texts["commands_matching"]]
    except UnknownExpression as problem:
        raise PolicyProblem(f"{where}: commands_matching cannot be used: {problem}") from None
    rule = Rule(
        id=name,
        verdict=Verdict(plain["verdict"]),
        reason=str(plain.get("reason", "")),
        tools=texts["tools"],
        commands=(
            *(CommandPattern(text=text) for text in texts["commands"]),
            *(CommandPattern(text=each.text, expression=each.search, whole=each.fullmatch) for each in expressions),
        ),
        paths=texts["paths"],
        matches=texts["matches"],
        matches_not=texts["matches_not"],
        origin=origin,
    )
    if rule.allows and not (rule.tools or rule.commands or rule.paths):
        raise PolicyProblem(f"{where} allows everything; name tools, commands or paths")
    if rule.matches or rule.matches_not:
        _require_examples(rule, where)
    return rule


def _require_examples(rule: Rule, where: str) -> None:
    from agent_fabric.domain.policy.examples import misfits  # noqa: PLC0415 - few write examples, and it reads much

    if wrong := misfits(rule):
        raise PolicyProblem(f"{where} {'fits' if wrong.fits else 'does not fit'} its example {wrong.example!r}")


def proposed_call(spec: ToolSpec, arguments: Mapping[str, Any], node: str) -> ProposedCall:
    """Return a call of a node's tool as its policies see it; of a proxied request, the one inside counts."""
    if spec.name == MCP_PROXY:
        inner = arguments.get("inner_request")
        request = inner if isinstance(inner, Mapping) else {}
        return proposed_proxy_call(str(arguments.get("target_server", "")), request, node)
    paths = (str(arguments[name]) for name in spec.path_arguments if arguments.get(name))
    return ProposedCall(
        tool=spec.name,
        args=arguments,
        effect=spec.effect,
        command=str(arguments.get(spec.command_argument, "")) if spec.command_argument else "",
        paths=tuple(paths),
        node=node,
        folder=str(arguments.get("cwd") or ""),
    )


def proposed_proxy_call(server: str, request: Mapping[str, Any], node: str) -> ProposedCall:
    """Return a request to a tool server of a node: calls of tools change something until a rule allows them."""
    method = str(request.get("method", ""))
    given = request.get("params")
    params = given if isinstance(given, Mapping) else {}
    reads = method in {
        "initialize",
        "ping",
        "tools/list",
        "resources/list",
        "prompts/list",
        "notifications/initialized",
    }
    name = f"{server}.{params.get('name', '')}" if method == "tools/call" else f"{server}.{method}"
    effect = Effect.READS if reads else Effect.LEAVES_SANDBOX
    return ProposedCall(tool=name, args=dict(params), effect=effect, node=node)
