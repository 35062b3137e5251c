"""Answers what a run has asked."""

from collections.abc import Callable
from dataclasses import replace

from agent_fabric.application.fleet.machine_calls import named_machines
from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalRepository
from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.application.tools.call_site import CallSite, own_limits, user_scopes
from agent_fabric.application.tools.proposed_call import propose
from agent_fabric.domain.approvals.answers import MIN_HASH_CHARS, Decision, Question, Reach, short_hash
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.parameters import unusable_numbers
from agent_fabric.domain.errors import ApprovalRefused, Forbidden
from agent_fabric.domain.identity.ownership import Viewer, owner_of
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.policy.calls import Policy, argument_hash
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.runs.labelling import flow_of
from agent_fabric.domain.secrets.references import defuse
from agent_fabric.domain.tools.json_schema import problems_with

AS_ASKED = (
    *("tool", "args", "question", "reason", "rule", "subject", "alike", "agent", "target", "sandbox", "untrusted"),
    *("private", "destination", "outside", "expires_at"),
)
"""What a person agrees to."""


@dataclass(frozen=True, slots=True)
class DecideApproval:
    """Use case: let a person answer. The run goes on when someone drives it."""

    approvals: ApprovalRepository
    runs: RunRepository
    policy: Callable[[], Policy]
    """Read only when a person has changed arguments."""
    four_eyes: Callable[[], bool] = lambda: False
    """Tells whether someone else than the one whose run asks has to approve."""

    async def __call__(self, prefix: str, answer: Answer, *, by: Principal) -> ApprovalCard:
        """Settle the question and return it as it was asked.

        Raises:
            Forbidden: a run asks, or a caller without the scope `approvals`, or one who would agree with themselves,
                or who agrees to what happens on machines without the scope `nodes`.
            ApprovalNotFound: there is no such question, or more than one begins so.
            ApprovalSettled: it has been answered already, or time has run out.
            ApprovalRefused: the answer does not fit the question.
        """
        require_approver(by)
        card = await self.approvals.find(prefix, viewer=Viewer.of(by))
        if answer.decision is not Decision.DENY and named_machines(card) and not by.may(Scope.NODES):
            raise Forbidden(
                f"{by.name} may not agree to what happens on machines: it needs the scope 'nodes' as well",
                hint="Someone with the role operator can, or an admin. You can deny it.",
            )
        if answer.decision is not Decision.DENY and owner_of(by) == card.owner and self.four_eyes():
            raise Forbidden(
                f"{by.name} asks for this, so someone else has to approve it",
                hint="The setting `approvals.four_eyes` wants two people. You can deny it yourself.",
            )
        await self._require_as_asked(card)
        _require_as_shown(card, answer.binding)
        _require_fitting(card, answer)
        if card.question is Question.ANSWER:
            _require_filled_in(card, answer)
            answer = replace(answer, args=defuse(answer.args), reason=defuse(answer.reason))
        elif answer.args is not None:
            await self._require_usable(card, answer)
        await self.approvals.answer(card.approval_id, answer)
        return card

    async def _require_as_asked(self, card: ApprovalCard) -> None:
        """Check that a card says what the event says that will run: its table may have been changed.

        Raises:
            ApprovalRefused: it does not.
        """
        if card.damage:
            raise ApprovalRefused(
                f"Approval {card.approval_id} is damaged: {card.damage}", hint="See `fabric audit verify`."
            )
        bodies = [event.body for event in await self.runs.read(card.run_id)]
        asked = [
            each for each in bodies if isinstance(each, ApprovalRequested) and each.approval_id == card.approval_id
        ]
        if not asked or any(_render(card, name) != _render(asked[-1], name) for name in AS_ASKED):
            raise ApprovalRefused(
                f"Approval {card.approval_id} is not what the log of its run says", hint="See `fabric audit verify`."
            )

    async def _require_usable(self, card: ApprovalCard, answer: Answer) -> None:
        """Tell a person at once what the run would refuse later."""
        assert answer.args is not None
        state = await fold_log(card.run_id, await self.runs.read(card.run_id))
        lane = state.lanes.get(LaneId(card.agent))
        spec = lane.tools.get(card.tool) if lane is not None else None
        if spec is None:
            return  # the run will say so
        problems = problems_with(answer.args, spec.parameters)
        if problems:
            raise ApprovalRefused(
                f"The changed arguments do not fit {card.tool}: {'; '.join(problems)}",
                hint="Give all arguments, not only the changed ones, as one JSON object.",
            )
        site = CallSite(
            run_id=card.run_id,
            lane=LaneId(card.agent),
            step=0,
            agent=card.agent,
            target=card.target,
            scopes=user_scopes(state),
            limits=own_limits(state),
            flow=flow_of(state),
        )
        ruling = self.policy().judge(propose(spec, answer.args, site, card.sandbox))
        if ruling.verdict is Verdict.BLOCK:
            raise ApprovalRefused(f"The policy blocks the changed call: {ruling.reason}", hint=f"Rule: {ruling.rule}.")


def _render(asked: ApprovalCard | ApprovalRequested, name: str) -> object:
    value = getattr(asked, name)
    return argument_hash(value) if name == "args" else list(value) if name in {"untrusted", "private"} else value


def require_approver(by: Principal) -> None:
    """Check that a caller may answer.

    Raises:
        Forbidden: it may not. No run ever does, with whatever credential.
    """
    if by.run:
        raise Forbidden(
            "A run cannot answer a question, neither its own nor another's",
            hint="A person does that, in a terminal of their own.",
        )
    if not by.may(Scope.APPROVALS):
        raise Forbidden(f"{by.name} may not answer: it needs the scope 'approvals'")


def _require_filled_in(card: ApprovalCard, answer: Answer) -> None:
    """Compare what a person filled in with the form that a workflow has asked for."""
    form = card.args.get("form")
    if answer.decision is not Decision.APPROVE:
        return
    if not form:
        if answer.args:
            raise ApprovalRefused("There is no form to fill in here", hint="Only approve or deny.")
        return
    filled = dict(answer.args or {})
    problems = problems_with(filled, form) or unusable_numbers(filled, "it")
    if problems:
        raise ApprovalRefused(
            f"What is filled in does not fit the form: {'; '.join(problems)}",
            hint=f"Give one JSON object with: {', '.join(form.get('properties', {})) or 'what it asks for'}.",
        )


def _require_as_shown(card: ApprovalCard, binding: str) -> None:
    """Check that an answer is about the call that the person was shown, where it says which one that was.

    Raises:
        ApprovalRefused: it is about another call, or the hash is too short to tell.
    """
    if binding in {"", card.binding}:
        return
    if len(binding) < MIN_HASH_CHARS:
        raise ApprovalRefused(
            f"{binding!r} is too short for the hash of a call", hint=f"Give at least {MIN_HASH_CHARS} characters of it."
        )
    if not card.binding.startswith(binding):
        raise ApprovalRefused(
            f"This is not the call that was shown: its hash is {short_hash(card.binding)}, not {short_hash(binding)}",
            hint=f"Look at it again: fabric approvals show {card.approval_id}",
        )


def _require_fitting(card: ApprovalCard, answer: Answer) -> None:
    if answer.decision is Decision.DONE and card.question is not Question.DID_IT_HAPPEN:
        raise ApprovalRefused(
            "Only a call that was under way during a crash can be counted as done", hint="Approve or deny it."
        )
    if answer.reach is Reach.RUN and not card.alike:
        raise ApprovalRefused(
            "This can only be agreed to once", hint="Approve it without `--for-run`: every such call is another one."
        )
    if answer.reach is Reach.RUN and answer.args is not None:
        raise ApprovalRefused(
            "Changed arguments are for one call only", hint="Leave out `--for-run`, or the changed arguments."
        )
    if answer.args is not None and answer.decision is not Decision.APPROVE:
        raise ApprovalRefused("Arguments can be changed only when approving", hint="Leave them out, or approve.")
