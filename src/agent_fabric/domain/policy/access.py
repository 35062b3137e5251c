"""Limits by the agent's capabilities and the user's scopes. They hold beside the rules, never instead of them."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from agent_fabric.domain.identity.principals import TOOLS_PREFIX, Scope, holds_scope, tool_scopes
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.tools.capabilities import patterns_of
from agent_fabric.domain.tools.specs import FINISH_TASK, Effect

_ALWAYS = frozenset({FINISH_TASK})

EFFECT_SCOPES: Mapping[str, tuple[Effect, ...]] = {
    "tools:read": (Effect.READS,),
    "tools:write": (Effect.READS, Effect.IDEMPOTENT, Effect.CHANGES_WORKSPACE),
    "tools:execute": tuple(Effect),
}
"""The effects that a tool may have for users with a scope (A33-017)."""


def lacks_capability(call: ProposedCall, capabilities: Mapping[str, frozenset[str]]) -> str:
    """Return why the agent may not use the tool; empty if it may, or if it is not limited."""
    own = capabilities.get(call.agent)
    if own is None or call.tool in _ALWAYS:
        return ""
    if any(fnmatchcase(call.tool, pattern) for pattern in patterns_of(own)):
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
