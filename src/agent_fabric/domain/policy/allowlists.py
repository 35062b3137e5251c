"""Allowlists: the only commands, paths and domains that calls may use."""

from collections.abc import Iterable

from agent_fabric.domain.policy.globs import domain_fits, path_fits
from agent_fabric.domain.tools.allowlists import Allowlists

_SHOWN = 10


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
