"""Allowlists: the only commands, paths and domains that calls may use."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent_fabric.domain.policy.globs import domain_fits, path_fits

_SHOWN = 10


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


def refuse_domain(limits: Iterable[Allowlists], host: str) -> str:
    """Return why a host may not be reached; empty if it is on every list."""
    for each in limits:
        if each.domains and not any(domain_fits(domain, host) for domain in each.domains):
            return _refusal("domain", host or "an address without a host", each.domains, each.owner)
    return ""


def refuse_path(limits: Iterable[Allowlists], path: str) -> str:
    """Return why a path may not be used; empty if it is on every list."""
    for each in limits:
        if each.paths and not any(path_fits(pattern, path) for pattern in each.paths):
            return _refusal("path", path, each.paths, each.owner)
    return ""


def _refusal(kind: str, subject: str, listed: tuple[str, ...], owner: str) -> str:
    shown = ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
    return f"{subject[:200]!r} is not on the {kind} allowlist of {owner}: {shown}. Use only what is on it."
