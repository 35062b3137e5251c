"""Whose run it is, and who sees it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Self

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.principals import Kind, Principal, Scope
from agent_fabric.domain.ids import RunId

LOCAL_OWNER: Final = "local"
"""The owner of runs that are started in the fabric folder itself, or with its token."""


class Visibility(StrEnum):
    """Who sees a run beside its owner, admins and holders of `runs:all`."""

    PRIVATE = "private"
    TEAM = "team"
    """Every caller with `runs:read`."""


class OwnedRun(NamedTuple):
    """A run, and whose it is."""

    run_id: RunId
    owner: str
    visibility: Visibility


@dataclass(frozen=True, slots=True)
class Viewer:
    """A caller as one that looks at runs."""

    owners: tuple[str, ...] = ()
    """The owners whose runs are the caller's own."""
    sees_all: bool = True

    @classmethod
    def of(cls, principal: Principal) -> Self:
        """Return the viewer that an authenticated caller is."""
        return cls((owner_of(principal),), principal.may(Scope.RUNS_ALL))

    @classmethod
    def of_run(cls, owner: str) -> Self:
        """Return the viewer that a run is: it sees what its owner shares, and nothing by an admin's right."""
        return cls((owner,), owner in {LOCAL_OWNER, ""})

    def owns(self, owner: str) -> bool:
        """Tell whether runs of an owner are the caller's own."""
        return owner in self.owners

    def sees(self, owner: str, visibility: Visibility) -> bool:
        """Tell whether a run exists for the caller."""
        return self.sees_all or visibility is Visibility.TEAM or self.owns(owner)


EVERYTHING: Final = Viewer()
"""Sees every run: the store's own owner."""


def owner_of(principal: Principal) -> str:
    """Return the owner of runs that a caller starts: its id, as names of users and keys may be the same."""
    return LOCAL_OWNER if principal.kind is Kind.LOCAL else principal.id


def is_owner(wanted: str, owner: str) -> bool:
    """Tell whether a filter means an owner: by its whole name, such as `user:ada`, or without the kind."""
    return wanted in (owner, owner.partition(":")[2])


def visibility_from(text: str) -> Visibility:
    """Return a stored visibility; one that a newer program wrote counts as private."""
    return _KNOWN.get(text, Visibility.PRIVATE)


_KNOWN: Mapping[str, Visibility] = {each.value: each for each in Visibility}
