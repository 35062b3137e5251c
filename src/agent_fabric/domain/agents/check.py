"""Says what is wrong with an agent's definition, in plain words and all at once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final

from agent_fabric.domain.agents.capabilities import CAPABILITIES, SERVER_PREFIX
from agent_fabric.domain.agents.definition import DependencyKind, Role, dependency_from
from agent_fabric.domain.definitions.parameters import problems_in_parameters
from agent_fabric.domain.definitions.problems import MAX_PROBLEMS, Problem, did_you_mean, shown_path
from agent_fabric.domain.errors import InvalidDefinition
from agent_fabric.domain.expressions.references import references
from agent_fabric.domain.expressions.syntax import check_syntax

LONGEST_NAME: Final = 64
MAX_RETRIES: Final = 10
MAX_EXAMPLES: Final = 50
_MAX_COUNTED: Final = 1_000
"""Problems that are counted beside those that are named: each takes time to be found."""

KEYS: Final = (
    *("name", "version", "role", "description", "capabilities", "inputs", "outputs", "dependencies"),
    *("prompts", "constraints", "metadata", "pack", "model"),
)
_PROMPT_KEYS: Final = ("system", "user", "examples")
_CONSTRAINT_KEYS: Final = ("max_tokens", "timeout", "retries", "parallel_allowed")
_DEPENDENCY_KEYS: Final = (*DependencyKind, "name", "optional", "purpose")

KEBAB_CASE: Final = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
SEMVER: Final = r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"

_Path = tuple[str | int, ...]


class AgentInvalid(InvalidDefinition):
    """An agent that cannot be used, with everything that is wrong with it."""

    code = "agent_invalid"

    def __init__(self, problems: Iterable[Problem], *, what: str = "The agent") -> None:
        self.problems = tuple(problems)
        number = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{what} has {number}:", *map(str, self.problems)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToAgents:
    """What there is for an agent to use; None: nobody knows here, so it is not checked."""

    packs: frozenset[str] | None = None
    models: frozenset[str] | None = None
    servers: frozenset[str] | None = None
    agents: frozenset[str] | None = None


def problems_in_agent(plain: object, known: KnownToAgents) -> list[Problem]:
    """Return what must be changed before this can be an agent; nothing: it can.

    Of very many problems the first are returned, and how many more there are.
    """
    if not isinstance(plain, Mapping):
        return [
            Problem(path=(), message="an agent is a mapping of keys to values", hint="Begin with `name: my-agent`.")
        ]
    found = chain(
        _unknown_keys(plain, KEYS, ()),
        _problems_in_head(plain, known),
        _problems_in_capabilities(plain.get("capabilities"), known),
        problems_in_parameters(plain.get("inputs"), ("inputs",)),
        problems_in_parameters(plain.get("outputs"), ("outputs",)),
        _problems_in_dependencies(plain, known),
        _problems_in_prompts(plain),
        _problems_in_constraints(plain.get("constraints")),
        _problems_in_metadata(plain.get("metadata")),
    )
    named = [replace(each, message=f"{shown_path(each.path)}: {each.message}") for each in islice(found, MAX_PROBLEMS)]
    left_out = sum(1 for _ in islice(found, _MAX_COUNTED))
    if left_out:
        number = f"{left_out} more" if next(found, None) is None else f"more than {left_out} others"
        named.append(Problem(path=(), message=f"and {number}", hint="Correct these first."))
    return named


def _problems_in_head(plain: Mapping[str, Any], known: KnownToAgents) -> Iterator[Problem]:
    name = plain.get("name")
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not re.fullmatch(KEBAB_CASE, name):
        message = "a name is missing" if name is None else f"{name!r} cannot be the name of an agent"
        yield Problem(path=("name",), message=message, hint="Use small letters, digits and -, as in `release-notes`.")
    elif name in (known.packs or ()):
        yield Problem(path=("name",), message=f"{name!r} is the name of a pack", hint="Choose another name.")
    version = plain.get("version")
    if version is not None and (not isinstance(version, str) or not re.fullmatch(SEMVER, version)):
        hint = 'Write three numbers, in quotes if need be: version: "1.0.0"'
        yield Problem(path=("version",), message=f"{version!r} is no version", hint=hint)
    role = plain.get("role")
    if role is not None and role not in list(Role):
        hint = did_you_mean(str(role), Role, otherwise=f"Roles: {', '.join(Role)}.")
        yield Problem(path=("role",), message=f"{role!r} is no role", hint=hint)
    for key in ("description", "pack", "model"):
        if not isinstance(plain.get(key) or "", str):
            yield Problem(path=(key,), message="must be text")
    yield from _unless_known(plain.get("pack"), known.packs, ("pack",), "pack")
    yield from _unless_known(plain.get("model"), known.models, ("model",), "model")


def _problems_in_capabilities(plain: object, known: KnownToAgents) -> Iterator[Problem]:
    if plain is None:
        return
    if not isinstance(plain, list):
        yield Problem(path=("capabilities",), message="must be a list", hint=f"Known: {', '.join(CAPABILITIES)}.")
        return
    for nth, name in enumerate(plain):
        path = ("capabilities", nth)
        if isinstance(name, str) and name.startswith(SERVER_PREFIX):
            yield from _unless_known(name.removeprefix(SERVER_PREFIX), known.servers, path, "tool server")
        elif not isinstance(name, str) or name not in CAPABILITIES:
            every = f"Capabilities: {', '.join(CAPABILITIES)}, and {SERVER_PREFIX}NAME for a tool server."
            hint = " ".join(filter(None, [did_you_mean(str(name), CAPABILITIES, otherwise=" "), every])).strip()
            yield Problem(path=path, message=f"{name!r} is no capability", hint=hint)


def _problems_in_dependencies(plain: Mapping[str, Any], known: KnownToAgents) -> Iterator[Problem]:
    wanted = plain.get("dependencies")
    if wanted is None:
        return
    if not isinstance(wanted, list):
        yield Problem(path=("dependencies",), message="must be a list")
        return
    for nth, each in enumerate(wanted):
        path: _Path = ("dependencies", nth)
        problem = _form_of_dependency(each, path)
        if problem is not None:
            yield problem
            continue
        dependency = dependency_from(each)
        if dependency.kind is DependencyKind.AGENT and dependency.name == plain.get("name"):
            yield Problem(path=path, message="an agent cannot need itself")
        elif not dependency.optional:
            there = _there_is(dependency.kind, known)
            yield from _unless_known(dependency.name, there, path, str(dependency.kind))


def _form_of_dependency(plain: object, path: _Path) -> Problem | None:
    hint = "Write a name, `pack:NAME`, `tool:NAME`, `mcp:NAME`, or a mapping such as `{agent: NAME, optional: true}`."
    if isinstance(plain, str):
        kind, colon, name = plain.partition(":")
        sound = bool(name and kind in list(DependencyKind)) if colon else bool(plain)
        return None if sound else Problem(path=path, message=f"{plain!r} names nothing that could be needed", hint=hint)
    if not isinstance(plain, Mapping):
        return Problem(path=path, message="names nothing that could be needed", hint=hint)
    named = [key for key in plain if key == "name" or key in list(DependencyKind)]
    if len(named) != 1 or not isinstance(plain[named[0]], str) or not plain[named[0]]:
        return Problem(path=path, message="must name one thing", hint=hint)
    unknown = next(_unknown_keys(plain, _DEPENDENCY_KEYS, path), None)
    if unknown is None and not isinstance(plain.get("optional", False), bool):
        return Problem(path=(*path, "optional"), message="must be true or false")
    return unknown


def _there_is(kind: DependencyKind, known: KnownToAgents) -> frozenset[str] | None:
    tools = frozenset(tool for each in CAPABILITIES.values() for tool in each.tools)
    return {
        DependencyKind.AGENT: known.agents,
        DependencyKind.PACK: known.packs,
        DependencyKind.TOOL: tools,
        DependencyKind.SERVER: known.servers,
    }[kind]


def _problems_in_prompts(plain: Mapping[str, Any]) -> Iterator[Problem]:
    prompts = plain.get("prompts") or {}
    if not isinstance(prompts, Mapping):
        yield Problem(path=("prompts",), message="must be a mapping with `system`, and `user` if you like")
        return
    yield from _unknown_keys(prompts, _PROMPT_KEYS, ("prompts",))
    if not prompts.get("system") and not plain.get("pack"):
        hint = "Say who the agent is and how it works; in a Markdown file, below the front matter."
        yield Problem(path=("prompts", "system"), message="the system prompt is missing", hint=hint)
    for key in ("system", "user"):
        text = prompts.get(key)
        if text is not None and not isinstance(text, str):
            yield Problem(path=("prompts", key), message="must be text")
        elif text:
            yield from problems_in_template(text, ("prompts", key), _names(plain.get("inputs")))
    yield from _problems_in_examples(prompts.get("examples"))


def problems_in_template(text: str, path: _Path, inputs: frozenset[str]) -> Iterator[Problem]:
    """Say what a prompt would stumble over when it is filled in."""
    wrong = check_syntax(text)
    if wrong:
        yield from (Problem(path=path, message=message) for message in wrong)
        return
    for reference in references(text):
        first, *rest = reference.path
        if first == "inputs" and rest and rest[0] not in inputs and not reference.guarded:
            hint = did_you_mean(str(rest[0]), sorted(inputs), otherwise="Declare it under `inputs`.")
            yield Problem(path=path, message=f"there is no input {rest[0]!r}", hint=hint)
        elif first not in {"inputs", "agent"} and not reference.guarded:
            hint = f"Did you mean `inputs.{first}`?" if first in inputs else "Prompts can use `inputs.NAME`."
            yield Problem(path=path, message=f"nobody knows {first!r} here", hint=hint)


def _problems_in_examples(plain: object) -> Iterator[Problem]:
    path = ("prompts", "examples")
    if plain is None:
        return
    if not isinstance(plain, list) or len(plain) > MAX_EXAMPLES:
        yield Problem(path=path, message=f"must be a list of at most {MAX_EXAMPLES} examples")
        return
    for nth, each in enumerate(plain):
        if not isinstance(each, Mapping) or "output" not in each:
            yield Problem(path=(*path, nth), message="must be a mapping with `input` and `output`")
        else:
            yield from _unknown_keys(each, ("input", "output"), (*path, nth))


def _problems_in_constraints(plain: object) -> Iterator[Problem]:
    if plain is None:
        return
    if not isinstance(plain, Mapping):
        yield Problem(path=("constraints",), message="must be a mapping", hint=f"Keys: {', '.join(_CONSTRAINT_KEYS)}.")
        return
    yield from _unknown_keys(plain, _CONSTRAINT_KEYS, ("constraints",))
    rules: Mapping[str, tuple[Callable[[Any], bool], str]] = {
        "max_tokens": (lambda value: _whole(value) and value > 0, "must be a whole number above 0"),
        "timeout": (lambda value: _number(value) and value > 0, "must be a number of seconds above 0"),
        "retries": (
            lambda value: _whole(value) and 0 <= value <= MAX_RETRIES,
            f"must be a whole number from 0 to {MAX_RETRIES}",
        ),
        "parallel_allowed": (lambda value: isinstance(value, bool), "must be true or false"),
    }
    for key, (fits, message) in rules.items():
        if plain.get(key) is not None and not fits(plain[key]):
            yield Problem(path=("constraints", key), message=message)


def _problems_in_metadata(plain: object) -> Iterator[Problem]:
    if plain is None:
        return
    if not isinstance(plain, Mapping):
        yield Problem(path=("metadata",), message="must be a mapping")
        return
    for key in ("author", "created", "updated"):
        if not isinstance(plain.get(key, ""), str):
            yield Problem(path=("metadata", key), message="must be text")
    tags = plain.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        yield Problem(path=("metadata", "tags"), message="must be a list of words")


def _unknown_keys(plain: Mapping[Any, Any], keys: tuple[str, ...], path: _Path) -> Iterator[Problem]:
    for key in plain:
        if key not in keys:
            hint = did_you_mean(str(key), keys, otherwise=f"Keys: {', '.join(keys)}.")
            yield Problem(path=(*path, str(key)), message="there is no such key here", hint=hint)


def _unless_known(name: object, known: frozenset[str] | None, path: _Path, what: str) -> Iterator[Problem]:
    if known is not None and name and isinstance(name, str) and name not in known:
        hint = did_you_mean(name, sorted(known), otherwise=f"There is none of that name; known: {_listed(known)}.")
        yield Problem(path=path, message=f"there is no {what} {name!r}", hint=hint)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _names(plain: object) -> frozenset[str]:
    return frozenset(map(str, plain)) if isinstance(plain, Mapping) else frozenset()


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
