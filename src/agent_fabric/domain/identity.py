"""Who is asking, and what they may do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """One thing that may be allowed. What is not allowed is forbidden."""

    RUNS_READ = "runs:read"
    """See runs, their events and files, what they ask, and what there is to run."""
    RUNS = "runs"
    """Start, resume, cancel and undo runs."""
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
    Scope.APPROVALS: frozenset({Scope.RUNS_READ}),
    Scope.WORKFLOWS: frozenset({Scope.RUNS_READ}),
    Scope.ADMIN: frozenset(Scope),
}
"""What a scope brings along: nobody can answer for what they cannot see."""


class Role(StrEnum):
    """A usual set of scopes, for people."""

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
"""What each role may. A new person is a viewer unless somebody says otherwise."""


class Kind(StrEnum):
    """How somebody showed who they are."""

    LOCAL = "local"
    """With the token in the fabric folder: whoever can read it owns the folder."""
    USER = "user"
    """With a token that we signed after a login."""
    KEY = "key"
    """With an API key."""
    EXTERNAL = "external"
    """With a token of another identity provider."""


def widened(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """Return scopes together with all that they bring along."""
    given = frozenset(scopes)
    return given.union(*(_ALSO.get(scope, frozenset()) for scope in given))


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks, after they have shown who they are."""

    name: str
    """For people and logs: a user's or a key's name."""
    kind: Kind
    scopes: frozenset[Scope]
    """All that they may, widened."""

    @property
    def id(self) -> str:
        """Tells them apart from everybody else, for limits and repeated requests."""
        return f"{self.kind}:{self.name}"

    def may(self, scope: Scope) -> bool:
        """Tell whether they are allowed something."""
        return scope in self.scopes
