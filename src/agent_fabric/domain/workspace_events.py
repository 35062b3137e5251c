"""What was seen of a run's files before its result was judged; see `events` for the contract."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceCompared:
    """The workspace was compared with how the run found it. What the run put back itself is no change."""

    kind: ClassVar = "workspace_compared"

    created: tuple[str, ...] = ()
    """Paths from the workspace on; folders end in a slash."""
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    """Changed paths that are not listed."""
    tests: tuple[str, ...] = ()
    """Files with tests that use what was changed, or that were changed themselves."""
    known: bool = True
    """False: nobody knows how the workspace was before, so nothing can be said about changes."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All changed paths that are listed."""
        return (*self.created, *self.modified, *self.deleted)

    @property
    def unchanged(self) -> bool:
        """Whether it is known that nothing is different."""
        return self.known and not self.paths and not self.more
