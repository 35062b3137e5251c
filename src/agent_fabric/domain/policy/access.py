"""What an agent's capabilities and a person's scopes let through: limits beside the rules, never instead of them."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.tools import FINISH_TASK, Effect

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
    "node-command": ("node_*",),
    "messaging": ("send_*", "message_*"),
}
"""Which tools an agent with a capability may use (A33-022)."""

_ALWAYS = frozenset({FINISH_TASK})

SCOPES: Mapping[str, tuple[Effect, ...]] = {
    "tools:read": (Effect.READS,),
    "tools:write": (Effect.READS, Effect.IDEMPOTENT, Effect.CHANGES_WORKSPACE),
    "tools:execute": tuple(Effect),
}
"""What the tools may do that a person with a scope lets run (A33-017). A scope may also name one tool: `tool:shell`."""


def tools_of(capabilities: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns of the tools that these capabilities open; a capability nobody knows opens none."""
    return tuple(dict.fromkeys(tool for name in capabilities for tool in CAPABILITIES.get(name, ())))


def lacks_capability(call: ProposedCall, capabilities: Mapping[str, frozenset[str]]) -> str:
    """Say why the agent may not use the tool; empty if it may, or if nobody has limited it."""
    own = capabilities.get(call.agent)
    if own is None or call.tool in _ALWAYS:
        return ""
    if any(fnmatchcase(call.tool, pattern) for pattern in tools_of(own)):
        return ""
    listed = ", ".join(sorted(own)) or "none"
    return f"The agent {call.agent!r} may not use {call.tool!r}; its capabilities are: {listed}."


def lacks_scope(call: ProposedCall) -> str:
    """Say why the person behind the run may not let this happen; empty if they may, or if nobody has limited them."""
    scopes = call.scopes
    if not scopes or "*" in scopes or "admin" in scopes or call.tool in _ALWAYS:
        return ""
    relevant = {scope for scope in scopes if scope in SCOPES or scope.startswith("tool:")}
    if not relevant:
        # Scopes about other things say nothing about tools.
        return ""
    if f"tool:{call.tool}" in relevant or any(call.effect in SCOPES.get(scope, ()) for scope in relevant):
        return ""
    return f"The person behind this run may not use {call.tool!r}: it needs a scope such as 'tools:execute'."
