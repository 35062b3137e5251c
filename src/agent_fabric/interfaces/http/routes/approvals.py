"""Approvals: see what runs ask, and answer it."""

from typing import Annotated

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from agent_fabric.application.ports.approvals import Answer
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.approvals import Decision, Reach
from agent_fabric.domain.identity import Scope
from agent_fabric.interfaces.approval_form import filled_in
from agent_fabric.interfaces.approval_view import approval_object
from agent_fabric.interfaces.http.approval_schemas import Approval, ApprovalAnswer, ApprovalList
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.locks import needs, who_asks
from agent_fabric.interfaces.http.openapi import problems, takes
from agent_fabric.interfaces.http.routes.runs import json_answer

ApprovalId = Annotated[str, Path(description="The approval, or the beginning of its id if only one begins so.")]


def add_approvals(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    book, decide = fabric.local.records.approvals, fabric.decide_approval

    @app.get(
        "/approvals",
        summary="List what waits for an answer, the oldest first",
        response_model=ApprovalList,
        responses=problems(404),
        openapi_extra=needs(Scope.RUNS_READ),
        tags=["approvals"],
    )
    async def approvals(
        run_id: Annotated[str, Query(description="Only those of this run.")] = "",
        settled: Annotated[bool, Query(description="Whether to list those that are settled, too.")] = False,
    ) -> Response:
        """A question is open until somebody answers it, it expires, or its run ends."""
        run = await fabric.find(run_id) if run_id else None
        cards = await book.list(run_id=run, pending_only=not settled)
        return json_answer({"approvals": [approval_object(card) for card in cards]})

    @app.get(
        "/approvals/{approval_id}",
        summary="Show one",
        response_model=Approval,
        responses=problems(404),
        openapi_extra=needs(Scope.RUNS_READ),
        tags=["approvals"],
    )
    async def approval(approval_id: ApprovalId) -> Response:
        """Answer with everything that a person has to know before they answer."""
        return json_answer(approval_object(await book.find(approval_id)))

    @app.post(
        "/approvals/{approval_id}",
        summary="Answer one",
        response_model=Approval,
        responses=problems(404, 409, 413, 415, 503, 507),
        openapi_extra=needs(Scope.APPROVALS, takes(ApprovalAnswer)),
        tags=["approvals"],
    )
    async def answer(approval_id: ApprovalId, request: Request) -> Response:
        """The first answer counts; a second one gets 409. The run goes on within a second."""
        wish = await body_of(request, ApprovalAnswer)
        asked = await book.find(approval_id)
        card = await decide(
            asked.approval_id,
            Answer(
                decision=Decision(wish.decision),
                by=who_asks(request).name,
                via="http",
                reason=wish.reason,
                reach=Reach(wish.scope),
                args=filled_in(asked, wish.args) if wish.decision == "approve" else wish.args,
            ),
        )
        return json_answer(approval_object(await book.find(card.approval_id)))
