"""Where we ourselves are installed, if that is in a workspace: what a command changes there, we would execute.

A project's own virtual environment is a usual place for us. The next start, or the next module that is loaded, would
run what a run has put there, outside its box.
"""

import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

from agent_fabric.domain.errors import ConfigError

_HINT = "Install agent-fabric outside the project: `pipx install agent-fabric` or `uv tool install agent-fabric`."


def own_program(workspace: Path) -> tuple[PurePath, ...]:
    """Return the folders from which we run, as paths from the workspace on, none inside another; mostly none.

    Raises:
        ConfigError: they cannot be kept from commands: the workspace is one of them, or a link leads to one.
    """
    return _within(workspace, (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]))


def require_elsewhere(workspace: Path) -> None:
    """Refuse a workspace in which we are installed, where nothing in it can be made read-only.

    Raises:
        ConfigError: we are.
    """
    if found := own_program(workspace):
        raise ConfigError(
            f"agent-fabric itself is installed in the project, in {found[0]}, and commands could change it", hint=_HINT
        )


def covers_of(workspace: Path, names: tuple[PurePath, ...]) -> Iterator[tuple[Path, bool]]:
    """Yield what to mount over itself, outer ones first, and whether it may be written: see `ProtectedPaths.cover`."""
    for name in names:
        yield from ((workspace / around, True) for around in reversed(name.parents[:-1]))
        yield workspace / name, False


def _within(workspace: Path, places: tuple[Path, ...]) -> tuple[PurePath, ...]:
    found: list[PurePath] = []
    for top in (workspace.absolute(), workspace.resolve()):
        names = {place.relative_to(top) for place in places if place.is_relative_to(top)}
        for name in sorted(names, key=lambda one: len(one.parts)):
            way = [top / part for part in (name, *name.parents[:-1])]
            if not name.parts or any(part.is_symlink() for part in way):
                raise ConfigError(
                    f"agent-fabric itself is installed in the project, in {top / name}, where it cannot be protected",
                    hint=_HINT,
                )
            if not any(name.is_relative_to(outer) for outer in found):
                found.append(name)
    return tuple(found)
