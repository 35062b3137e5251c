"""The only commands, paths and domains that calls may use."""

from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowlists:
    """The only commands, paths and domains that may be used; an empty list does not limit."""

    commands: tuple[str, ...] = ()
    """Programs by name; `*` allowed."""
    paths: tuple[str, ...] = ()
    """Relative to the workspace, or absolute: `docs/**`, `*.md`."""
    domains: tuple[str, ...] = ()
    """`example.org` with everything below it, or `*.example.org`."""
    owner: str = "the configuration"
    """Where the lists are written, for messages."""

    def __bool__(self) -> bool:
        return bool(self.commands or self.paths or self.domains)


NO_ALLOWLISTS = Allowlists()
