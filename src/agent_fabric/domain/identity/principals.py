"""Principals, roles and scopes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, NewType, Self

from agent_fabric.domain.dataclass import dataclass

UNKNOWN_RUN: Final = "unknown"
"""A run whose id is not known."""


class Scope(StrEnum):
    """A permission on the server. What is not granted is forbidden."""

    RUNS_READ = "runs:read"
    """See one's own runs and those shared with the team: events, files, what they ask; and what there is to run."""
    RUNS = "runs"
    """Start, resume, cancel and undo runs."""
    RUNS_ALL = "runs:all"
    """See private runs of others, too. Each read of one is recorded."""
    APPROVALS = "approvals"
    """Answer what runs ask."""
    WORKFLOWS = "workflows"
    """Run workflows and agents, and signal them."""
    NODES = "nodes"
    """Operate enrolled machines."""
    ADMIN = "admin"
    """Everything, also people, keys, secrets and the server itself."""


_ALSO: Mapping[Scope, frozenset[Scope]] = {
    Scope.RUNS: frozenset({Scope.RUNS_READ}),
    Scope.RUNS_ALL: frozenset({Scope.RUNS_READ}),
    Scope.APPROVALS: frozenset({Scope.RUNS_READ}),
    Scope.WORKFLOWS: frozenset({Scope.RUNS_READ}),
    Scope.ADMIN: frozenset(Scope),
}
"""Scopes that a scope implies: answering a question requires seeing it."""

ToolScope = NewType("ToolScope", str)
"""Tools that runs of a user or key may use: `tools:*`, `tools:shell`, `tools:mcp__files__*`, or a class of effects."""

AnyScope = Scope | ToolScope

TOOLS_PREFIX: Final = "tools:"
ALL_TOOLS: Final = ToolScope("tools:*")
NO_TOOLS: Final = ToolScope("tools:none")
_TOOL_SCOPE: Final = re.compile(r"tools:[A-Za-z0-9_.*-]{1,128}")
_CLASSES: Final = ("tools:read", "tools:write", "tools:execute")
"""Classes of effects, each including those before it."""
SCOPE_PATTERN: Final = "^(" + "|".join(Scope) + "|" + _TOOL_SCOPE.pattern + ")$"


def scope_from(text: str) -> AnyScope:
    """Return the scope of a name.

    Raises:
        ValueError: there is no such scope.
    """
    if _TOOL_SCOPE.fullmatch(text):
        return ToolScope(text)
    if text in list(Scope):
        return Scope(text)
    raise ValueError(f"there is no scope {text[:80]!r}; scopes: {', '.join(Scope)}, tools:* and tools:NAME")


def known_scopes(texts: Iterable[object]) -> frozenset[AnyScope]:
    """Return stored scopes without unknown ones, which grant nothing. A tool scope stays: it can only narrow."""
    names = {text for text in texts if isinstance(text, str)}
    tools = (ToolScope(name) for name in names if name.startswith(TOOLS_PREFIX))
    return frozenset((*(scope for scope in Scope if scope in names), *tools))


def tool_scopes(scopes: Iterable[str]) -> frozenset[ToolScope]:
    """Return the scopes about tools. None at all means that every tool may be used."""
    return frozenset(ToolScope(scope) for scope in scopes if scope.startswith(TOOLS_PREFIX))


def holds_scope(scopes: frozenset[str], wanted: str) -> bool:
    """Tell whether one of the scopes is `wanted` or includes it."""
    return Scope.ADMIN in scopes or any(_includes(scope, wanted) for scope in scopes)


def _includes(scope: str, wanted: str) -> bool:
    if scope == wanted or (scope == ALL_TOOLS and wanted.startswith(TOOLS_PREFIX)):
        return True
    if scope in _CLASSES or wanted in _CLASSES:
        return scope in _CLASSES and wanted in _CLASSES and _CLASSES.index(scope) > _CLASSES.index(wanted)
    return wanted.startswith(TOOLS_PREFIX) and fnmatchcase(wanted, scope)


def narrow_scopes(scopes: frozenset[AnyScope], limit: frozenset[AnyScope]) -> frozenset[AnyScope]:
    """Return the scopes that lie within a limit, as for a token of a user. Tools are never more than the limit's."""
    plain = frozenset(scope for scope in scopes & limit if isinstance(scope, Scope))
    own, most = tool_scopes(scopes), tool_scopes(limit)
    if Scope.ADMIN in limit or not most:
        return plain | own
    if not own:
        return plain | most
    common = {each for each in own if holds_scope(most, each)} | {each for each in most if holds_scope(own, each)}
    return plain | (frozenset(common) or frozenset({NO_TOOLS}))


class Role(StrEnum):
    """A named set of scopes for users."""

    VIEWER = "viewer"
    MEMBER = "member"
    APPROVER = "approver"
    OPERATOR = "operator"
    ADMIN = "admin"


SCOPES_OF: Mapping[Role, frozenset[Scope]] = {
    Role.VIEWER: frozenset({Scope.RUNS_READ}),
    Role.MEMBER: frozenset({Scope.RUNS, Scope.WORKFLOWS}),
    Role.APPROVER: frozenset({Scope.APPROVALS}),
    Role.OPERATOR: frozenset({Scope.RUNS, Scope.WORKFLOWS, Scope.APPROVALS, Scope.NODES}),
    Role.ADMIN: frozenset({Scope.ADMIN}),
}
"""The scopes of each role. Runs of every role may use all tools, unless a tool scope narrows them."""


RUN_HEADER: Final = "X-Fabric-Run"
"""The header of a request that is made on behalf of a run."""
RUN_META: Final = "agent-fabric/run"
"""The field of `_meta` in which a call of MCP names the run that makes it."""


class Kind(StrEnum):
    """The credential that a principal authenticated with."""

    LOCAL = "local"
    """The token in the fabric folder, readable only by its owner."""
    USER = "user"
    """A token signed here after a login."""
    KEY = "key"
    """An API key."""
    EXTERNAL = "external"
    """A token of another identity provider."""


def widen(scopes: Iterable[AnyScope]) -> frozenset[AnyScope]:
    """Return scopes together with those that they imply."""
    given = frozenset(scopes)
    return given.union(*(_ALSO.get(scope, frozenset()) for scope in given if isinstance(scope, Scope)))


_FOR_PEOPLE: Final = frozenset({Scope.ADMIN, Scope.APPROVALS, Scope.NODES, Scope.RUNS_ALL})
"""Scopes that no run has, whatever credential it has got hold of."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller."""

    name: str
    """The user's or key's name, for people and logs."""
    kind: Kind
    scopes: frozenset[AnyScope]
    """All scopes, with implied ones."""
    run: str = ""
    """The run that uses the credential; empty: a person, or a program of theirs."""
    expires_at: float | None = field(default=None, compare=False)
    """When the credential expires; None: never."""
    login: str = field(default="", compare=False)
    """The login that the credential belongs to; empty: a token that was issued for a script, a key, the local token."""

    def acting_for(self, run: str) -> Self:
        """Return the same caller as one that a run acts through: no run agrees to anything or administers anything."""
        return replace(self, scopes=frozenset(self.scopes) - _FOR_PEOPLE, run=run)

    @property
    def id(self) -> str:
        """Identifies the caller for limits and idempotency."""
        return f"{self.kind}:{self.name}"

    def may(self, scope: Scope) -> bool:
        """Tell whether a scope is granted."""
        return scope in self.scopes
