"""Approvals: see what runs ask, and answer it."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, StringConstraints

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.approvals.answers import Decision, Reach
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.routing import Answerer, Routes
from agent_fabric.interfaces.views.approvals import filled_in
from agent_fabric.wire.approval_reach import ASKED, AskedApproval, asked_approval
from agent_fabric.wire.approvals import APPROVAL, APPROVALS


class ApprovalAnswer(BaseModel):
    """What a person says."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        json_schema_extra={"examples": [{"decision": "deny", "reason": "push to a branch, not to main"}]},
    )

    decision: Literal["approve", "deny", "done"]
    """`done` only where a crash left open whether a call has happened."""
    reason: Annotated[str, StringConstraints(max_length=10_000)] = ""
    """For the log; the model is told when it is denied."""
    scope: Literal["once", "run"] = "once"
    """`run`: every call of this kind until the run ends; see `for_run`."""
    binding: Annotated[str, StringConstraints(pattern="^([0-9a-f]{8,64})?$")] = ""
    """`binding` of the question as the person was shown it, or how it begins. An answer to another call is refused."""
    args: dict[str, Any] | None = None
    """Run it with these arguments instead; all of them, not only the changed ones. Where a workflow asks, what is
    filled into its form: `args.form` of the question."""


ApprovalId = Annotated[str, Path(description="The approval, or the beginning of its id if only one begins so.")]


def add_approvals(routes: Routes, runs: ServedRuns) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    book, decide = runs.approvals, runs.decide_approval

    async def find(prefix: str, by: Principal) -> ApprovalCard:
        card = await book.find(prefix, viewer=Viewer.of(by))
        await runs.find(card.run_id, by=by)  # on record, if it is a private run of another owner
        return card

    @routes.get(
        "/approvals", Scope.RUNS_READ, "List what waits for an answer, the oldest first", APPROVALS, fails=[404]
    )
    async def approvals(
        by: Principal,
        run_id: Annotated[str, Query(description="Only those of this run.")] = "",
        settled: Annotated[bool, Query(description="Whether to list those that are settled, too.")] = False,
    ) -> Iterable[ApprovalCard]:
        """A question is open until it is answered, it expires, or its run ends."""
        run = await runs.find(run_id, by=by) if run_id else None
        return await book.list(run_id=run, pending_only=not settled, viewer=Viewer.of(by))

    @routes.get("/approvals/{approval_id}", Scope.RUNS_READ, "Show one", ASKED, fails=[404])
    async def approval(by: Principal, approval_id: ApprovalId) -> AskedApproval:
        """Answer with everything that a person has to know before they answer, and with how far the call reaches."""
        card = await find(approval_id, by)
        return asked_approval(card, await book.agreed_before(card, viewer=Viewer.of(by)))

    @routes.post("/approvals/{approval_id}", Scope.APPROVALS, "Answer one", APPROVAL, fails=[404, 409, 503, 507])
    async def answer(wish: ApprovalAnswer, approval_id: ApprovalId, by: Answerer) -> ApprovalCard:
        """The first answer counts; a second one gets 409. The run continues within a second."""
        found = await find(approval_id, by)
        card = await decide(
            found.approval_id,
            Answer(
                decision=Decision(wish.decision),
                by=by.name,
                via="http",
                reason=wish.reason,
                reach=Reach(wish.scope),
                binding=wish.binding,
                args=filled_in(found, wish.args) if wish.decision == "approve" else wish.args,
            ),
            by=by,
        )
        return await book.find(card.approval_id)
