"""What was seen of a run's files before its result was judged; see `events` for the contract."""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar, Self

from agent_fabric.domain.dataclass import dataclass

_LEFT_BEHIND = re.compile(
    r"(?:.*/)?(?:\.benchmarks|\.hypothesis|\.nyc_output|htmlcov|\.coverage|coverage\.xml|[^/]+\.egg-info)(?:/|\.[^/]*$|$)"
)
"""What runs of tests write for themselves."""


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
    check_scripts: tuple[str, ...] = ()
    """Files with the name of tests that use what was changed, are as they were, and hold checks that run with the file
    itself: no runner would find a test in them."""
    test_functions: int = 0
    """Tests in those of them that are in Python: so many have to be executed at least; 0: not known."""
    beyond_unittest: tuple[str, ...] = ()
    """Those of them that `python3 -m unittest` does not execute by itself: functions, or in a folder without
    `__init__.py`."""
    weakened: tuple[str, ...] = ()
    """What the changed tests check less than before, in words; empty: nothing."""
    rewritten_tests: tuple[str, ...] = ()
    """Files with tests that were there before, and some of whose checks are other ones now."""
    without_tests: tuple[str, ...] = ()
    """Programs that were changed, or that the task is about, and that no test names, nor any program that one uses."""
    meant: tuple[str, ...] = ()
    """Programs that the task is about, and that are as they were."""
    meant_tests: tuple[str, ...] = ()
    """Files with tests of those."""
    idle_tests: tuple[str, ...] = ()
    """Changed files with tests in which nothing is checked, or nothing of the workspace."""
    touched_at: float = 0.0
    """When a changed program or test was last written, in seconds since 1970; 0: not known."""
    known: bool = True
    """False: it is not known how the workspace was before, so nothing can be said about changes."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All changed paths that are listed."""
        return (*self.created, *self.modified, *self.deleted)

    def without(self, paths: Collection[str]) -> Self:
        """Return the same without some of its paths."""
        created, modified, deleted = (
            tuple(path for path in listed if path not in paths)
            for listed in (self.created, self.modified, self.deleted)
        )
        return replace(self, created=created, modified=modified, deleted=deleted)

    @property
    def unchanged(self) -> bool:
        """Whether it is known that nothing is different, apart from what test runners leave behind."""
        return self.known and not self.more and all(map(_LEFT_BEHIND.match, self.paths))
