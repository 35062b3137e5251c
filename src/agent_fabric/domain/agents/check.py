"""Says what is wrong with an agent's definition, all at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.domain.agents.definition import Dependency, DependencyKind
from agent_fabric.domain.agents.shape import AGENT
from agent_fabric.domain.definitions.declarations import declared_parameters
from agent_fabric.domain.definitions.expressions.references import check_syntax, references
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.problems import CheckPosition, Problem, ProblemCollector, show_value
from agent_fabric.domain.definitions.validate import check_kind, is_plain
from agent_fabric.domain.tools.capabilities import CAPABILITIES, SERVER_PREFIX

_PROMPT_NAMES = frozenset({"inputs", "agent", "steps", "workflow"})
"""What prompts can refer to; the last two in workflows only."""
_CAN_USE = "Prompts can use `inputs.NAME`, and in a workflow `steps.ID.OUTPUT` and `workflow.inputs.NAME`."
_TOOLS = frozenset(tool for each in CAPABILITIES.values() for tool in each.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToAgents:
    """What an agent can refer to; None: unknown here, so it is not checked."""

    packs: frozenset[str] | None = None
    models: frozenset[str] | None = None
    servers: frozenset[str] | None = None
    agents: frozenset[str] | None = None


def problems_in_agent(plain: object, known: KnownToAgents) -> list[Problem]:
    """Return what must be changed before this can be an agent; an empty list means nothing.

    At most fifty problems are named; one more entry then tells how many are left.
    """
    findings = ProblemCollector()
    if not is_plain(plain, findings):
        return findings.all()
    if not isinstance(plain, dict):
        findings.add(
            CheckPosition(), f"an agent must be a mapping, not {show_value(plain)}", "Begin with `name: my-agent`."
        )
        return findings.all()
    check_kind(plain, AGENT, CheckPosition(), findings)
    inputs = declared_parameters(plain.get("inputs"), CheckPosition(("inputs",)), findings)
    declared_parameters(plain.get("outputs"), CheckPosition(("outputs",)), findings)
    _Names(plain, known, findings).check()
    _check_prompts(plain, inputs, findings)
    return findings.all()


@dataclass(frozen=True, slots=True)
class _Names:
    """The check of all names that a definition refers to."""

    plain: Mapping[str, Any]
    known: KnownToAgents
    findings: ProblemCollector

    def check(self) -> None:
        name = self.plain.get("name")
        if isinstance(name, str) and name in (self.known.packs or ()):
            self.findings.add(CheckPosition(("name",)), f"name: {name!r} is the name of a pack", "Choose another name.")
        self._require(self.plain.get("pack"), self.known.packs, CheckPosition(("pack",)), "pack")
        self._require(self.plain.get("model"), self.known.models, CheckPosition(("model",)), "model")
        for nth, each in enumerate(self._items("capabilities")):
            if isinstance(each, str) and each.startswith(SERVER_PREFIX):
                server = each.removeprefix(SERVER_PREFIX)
                self._require(server, self.known.servers, CheckPosition(("capabilities", nth)), "tool server")
        for nth, each in enumerate(self._items("dependencies")):
            self._check_dependency(each, CheckPosition(("dependencies", nth)))

    def _items(self, key: str) -> list[Any]:
        value = self.plain.get(key)
        return value if isinstance(value, list) else []

    def _check_dependency(self, plain: Any, place: CheckPosition) -> None:
        if isinstance(plain, dict):
            names = [plain[key] for key in plain if key == "name" or key in list(DependencyKind)]
            if len(names) != 1:
                self.findings.add(place, f"{place.name} must name one thing", "Split it into several entries.")
            if len(names) != 1 or not isinstance(names[0], str) or not names[0]:
                return
        elif not isinstance(plain, str) or (":" in plain and plain.partition(":")[0] not in list(DependencyKind)):
            return
        dependency = Dependency.from_plain(plain)
        if dependency.kind is DependencyKind.AGENT and dependency.name == self.plain.get("name"):
            self.findings.add(place, f"{place.name}: an agent cannot need itself")
        elif not dependency.optional:
            there = {
                DependencyKind.AGENT: self.known.agents,
                DependencyKind.PACK: self.known.packs,
                DependencyKind.TOOL: _TOOLS,
                DependencyKind.SERVER: self.known.servers,
            }
            self._require(dependency.name, there[dependency.kind], place, str(dependency.kind))

    def _require(self, name: object, known: frozenset[str] | None, place: CheckPosition, what: str) -> None:
        if known is not None and name and isinstance(name, str) and name not in known:
            otherwise = f"There is none of that name; known: {', '.join(sorted(known)) or 'none'}."
            hint = self.findings.did_you_mean(name, sorted(known), otherwise=otherwise)
            self.findings.add(place, f"{place.name}: there is no {what} {name!r}", hint)


def _check_prompts(plain: Mapping[str, Any], inputs: Mapping[str, Parameter], findings: ProblemCollector) -> None:
    prompts = plain.get("prompts") or {}
    if not isinstance(prompts, dict):
        return
    if not prompts.get("system") and not plain.get("pack"):
        hint = "Say who the agent is and how it works; in a Markdown file, below the front matter."
        findings.add(CheckPosition(("prompts", "system")), "prompts.system: the system prompt is missing", hint)
    for key in ("system", "user"):
        if isinstance(text := prompts.get(key), str):
            _check_template(text, CheckPosition(("prompts", key)), inputs, findings)


def _check_template(
    text: str, place: CheckPosition, inputs: Mapping[str, Parameter], findings: ProblemCollector
) -> None:
    wrong = check_syntax(text)
    for message in wrong:
        findings.add(place, f"{place.name}: {message}")
    for reference in () if wrong else references(text):
        first, *rest = reference.path
        if reference.guarded:
            continue
        if first == "inputs" and rest and rest[0] not in inputs:
            hint = findings.did_you_mean(str(rest[0]), sorted(inputs), otherwise="Declare it under `inputs`.")
            findings.add(place, f"{place.name}: there is no input {rest[0]!r}", hint)
        elif first not in _PROMPT_NAMES:
            hint = f"Did you mean `inputs.{first}`?" if first in inputs else _CAN_USE
            findings.add(place, f"{place.name}: {first!r} is not known here", hint)
