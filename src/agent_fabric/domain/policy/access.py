"""Limits by the agent's capabilities and the user's scopes. They hold beside the rules, never instead of them."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from agent_fabric.domain.identity.principals import TOOLS_PREFIX, Scope, holds_scope, tool_scopes
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.tools.specs import FINISH_TASK, Effect

CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "file-read": ("read_file", "list_files", "search_files", "look", "file_ops"),
    "file-write": ("write_file", "edit_file", "write_*", "edit_*", "file_ops"),
    "code-execution": ("shell", "run_command", "python*"),
    "web-search": ("web_search", "fetch_url", "web_fetch", "fetch_*"),
    "web-browse": ("browser*", "browse_*", "fetch_url", "web_fetch"),
    "research": (
        "web_search",
        "fetch_url",
        "web_fetch",
        "cross_run_search",
        "record_evidence",
        "read_file",
        "write_file",
        "list_files",
    ),
    "memory": ("cross_run_search", "recall*", "remember*", "memory_*"),
    "mcp": ("mcp__*",),
    "node-command": ("node_*", "*.*.*"),
    "messaging": ("send_*", "message_*"),
}
"""Which tools an agent with a capability may use (A33-022)."""

_ALWAYS = frozenset({FINISH_TASK})

EFFECT_SCOPES: Mapping[str, tuple[Effect, ...]] = {
    "tools:read": (Effect.READS,),
    "tools:write": (Effect.READS, Effect.IDEMPOTENT, Effect.CHANGES_WORKSPACE),
    "tools:execute": tuple(Effect),
}
"""The effects that a tool may have for users with a scope (A33-017)."""


def tools_of(capabilities: Iterable[str]) -> tuple[str, ...]:
    """Return patterns of the tools that capabilities include; an unknown capability includes none."""
    return tuple(dict.fromkeys(tool for name in capabilities for tool in CAPABILITIES.get(name, ())))


def lacks_capability(call: ProposedCall, capabilities: Mapping[str, frozenset[str]]) -> str:
    """Return why the agent may not use the tool; empty if it may, or if it is not limited."""
    own = capabilities.get(call.agent)
    if own is None or call.tool in _ALWAYS:
        return ""
    if any(fnmatchcase(call.tool, pattern) for pattern in tools_of(own)):
        return ""
    listed = ", ".join(sorted(own)) or "none"
    return f"The agent {call.agent!r} may not use {call.tool!r}; its capabilities are: {listed}."


def lacks_scope(call: ProposedCall) -> str:
    """Return why the user behind the run may not use the tool; empty if the user may.

    A user without any tool scope may use every tool.
    """
    granted = tool_scopes(call.scopes)
    if not granted or Scope.ADMIN in call.scopes or call.tool in _ALWAYS:
        return ""
    if holds_scope(granted, f"{TOOLS_PREFIX}{call.tool}"):
        return ""
    if any(call.effect in EFFECT_SCOPES.get(scope, ()) for scope in granted):
        return ""
    listed = ", ".join(sorted(granted))
    return (
        f"The user behind this run may not use {call.tool!r}: it needs the scope '{TOOLS_PREFIX}{call.tool}', and the "
        f"user has {listed}."
    )
