"""Says which labels what a call gives back brings into its run; see `domain/policy/labels`."""

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.labels import NO_BOX
from agent_fabric.domain.tools.specs import ToolSpec, Trust


def origin_of(spec: ToolSpec, judged: ProposedCall, exposes: str, origin: str = "") -> str:
    """Say where text came from that is not vouched for; empty: the owner or the workspace wrote it."""
    if spec.trust is Trust.NODE and judged.server:
        return judged.server
    return exposes if spec.trust.vouched_for else f"{spec.trust.value}: {spec.server or origin or spec.name}"


def is_from_outside(spec: ToolSpec) -> bool:
    """Tell whether addresses in a result count as read; a machine prints what a command of the model made."""
    if spec.trust.vouched_for or spec.trust is Trust.NODE:
        return False
    return not spec.server or bool(spec.sends_to)


def private_source(spec: ToolSpec, judged: ProposedCall, *, boxed: bool) -> str:
    """Say where a call has read what the world must not have, apart from the workspace."""
    if spec.trust is Trust.NODE and judged.server:
        return judged.server
    if spec.server and spec.private:
        return f"{spec.trust.value}: {spec.server}"
    return NO_BOX if spec.command_argument and not boxed else ""
