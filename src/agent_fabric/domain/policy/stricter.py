"""Several policies at once: a machine's own and that of the hub, for example."""

from dataclasses import dataclass

from agent_fabric.domain.policy.calls import Policy, ProposedCall
from agent_fabric.domain.policy.engine import strictest_part
from agent_fabric.domain.policy.verdicts import Ruling


@dataclass(frozen=True, slots=True)
class StricterPolicy:
    """A `Policy` that says what the strictest of its policies says: each can tighten, none can loosen (C39)."""

    policies: tuple[Policy, ...]
    """At least one."""

    @property
    def version(self) -> str:
        """Changes with each of them."""
        return "+".join(policy.version for policy in self.policies)

    def judge(self, call: ProposedCall) -> Ruling:
        """Decide about one call; never raises."""
        return strictest_part([policy.judge(call) for policy in self.policies])
