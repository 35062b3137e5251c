"""Approvals: see what runs ask, and answer it."""

from typing import Annotated

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.approvals.answers import Decision, Reach
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.approvals.approval_schemas import ApprovalAnswer
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.locks import who_answers, who_asks
from agent_fabric.interfaces.http.openapi import operation, takes
from agent_fabric.interfaces.views.approvals import filled_in
from agent_fabric.wire.approval_reach import ASKED, asked_approval
from agent_fabric.wire.approvals import APPROVAL, APPROVALS

ApprovalId = Annotated[str, Path(description="The approval, or the beginning of its id if only one begins so.")]


def add_approvals(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    book, decide = fabric.records.approvals, fabric.decide_approval

    async def find(prefix: str, by: Principal) -> ApprovalCard:
        card = await book.find(prefix, viewer=Viewer.of(by))
        await fabric.find(card.run_id, by=by)  # on record, if it is a private run of another owner
        return card

    @app.get(
        "/approvals",
        **operation(
            "approvals", Scope.RUNS_READ, "List what waits for an answer, the oldest first", APPROVALS, fails=[404]
        ),
    )
    async def approvals(
        request: Request,
        run_id: Annotated[str, Query(description="Only those of this run.")] = "",
        settled: Annotated[bool, Query(description="Whether to list those that are settled, too.")] = False,
    ) -> Response:
        """A question is open until it is answered, it expires, or its run ends."""
        by = who_asks(request)
        run = await fabric.find(run_id, by=by) if run_id else None
        cards = await book.list(run_id=run, pending_only=not settled, viewer=Viewer.of(by))
        return json_answer(APPROVALS.dump(cards))

    @app.get("/approvals/{approval_id}", **operation("approvals", Scope.RUNS_READ, "Show one", ASKED, fails=[404]))
    async def approval(request: Request, approval_id: ApprovalId) -> Response:
        """Answer with everything that a person has to know before they answer, and with how far the call reaches."""
        by = who_asks(request)
        card = await find(approval_id, by)
        return json_answer(ASKED.dump(asked_approval(card, await book.agreed_before(card, viewer=Viewer.of(by)))))

    @app.post(
        "/approvals/{approval_id}",
        **operation(
            "approvals", Scope.APPROVALS, "Answer one", APPROVAL, body=takes(ApprovalAnswer), fails=[404, 409, 503, 507]
        ),
    )
    async def answer(approval_id: ApprovalId, request: Request) -> Response:
        """The first answer counts; a second one gets 409. The run continues within a second."""
        wish, by = await body_of(request, ApprovalAnswer), await who_answers(request)
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
        return json_answer(APPROVAL.dump(await book.find(card.approval_id)))
