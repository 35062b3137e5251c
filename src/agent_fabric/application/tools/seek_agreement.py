"""Finds the approval that covers a call, or makes the question to ask."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.domain.approvals.answers import Decision, Question, approval_id, binding
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.policy.verdicts import Ruling


@dataclass(frozen=True, slots=True)
class Agreement:
    """A person has agreed."""

    approval_id: str
    by: str


def seek_agreement(
    site: CallSite,
    call: ToolCallRequest,
    args: Mapping[str, Any],
    ruling: Ruling,
    *,
    policy_version: str,
    sandbox: str,
    expires_at: float,
    question: Question,
) -> Agreement | ApprovalRequested:
    """Return the agreement that covers a call, or the question that a person has to answer.

    What was agreed to is this very call under these very rules: other arguments, another place, a box of another level
    or another policy, and the person is asked again. What runs outside the box is never covered by an agreement for
    the rest of the run.
    """
    outside = site.outside

    def bound_to(arguments: Mapping[str, Any]) -> str:
        return binding(
            run_id=site.run_id,
            lane=site.lane,
            step=site.step,
            call_id=call.call_id,
            tool=call.tool,
            args=arguments,
            target=f"{sandbox} {site.target}" if outside is None else f"outside {outside.digest} {site.target}",
            policy_version=policy_version,
        )

    asked, decided = site.asked, site.decided
    if asked is not None and decided is not None and decided.decision is Decision.APPROVE:
        meant = asked.args if decided.args is None else decided.args
        if asked.binding == bound_to(asked.args) and argument_hash(meant) == argument_hash(args):
            return Agreement(decided.approval_id, decided.by)
    if question is Question.MAY_IT_RUN and outside is None:
        for grant in site.grants:
            if grant.covers(call.tool, ruling):
                return Agreement(grant.approval_id, grant.by)
    bound = bound_to(args)
    return ApprovalRequested(
        approval_id=approval_id(bound, question, site.attempt),
        call_id=call.call_id,
        tool=call.tool,
        args=args,
        question=question,
        reason=ruling.reason,
        rule=ruling.rule,
        subject=ruling.subject,
        alike=ruling.alike if question is Question.MAY_IT_RUN and outside is None else "",
        agent=site.agent,
        target=site.target,
        sandbox=sandbox,
        untrusted=tuple(site.flow.exposed),
        private=tuple(site.flow.private),
        policy_version=policy_version,
        binding=bound,
        args_hash=argument_hash(args),
        expires_at=expires_at,
        outside=outside,
    )
