"""What runs at a server ask people."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.application.ports.approvals import ApprovalCard
from agent_fabric.client.transport import Named, Resource
from agent_fabric.domain.approvals.answers import Decision, Reach
from agent_fabric.domain.errors import ApprovalNotFound
from agent_fabric.wire.approvals import APPROVAL, APPROVALS

_path = Named("/approvals", ApprovalNotFound, "No approval begins with {!r}", "See them with `fabric approvals list`.")


class Approvals(Resource):
    """The questions of a server's runs. Where one is named, the beginning of its id is enough."""

    async def list(self, *, run_id: str | None = None, pending_only: bool = True) -> Sequence[ApprovalCard]:
        """Return questions, the oldest first; with `run_id` only those of one run.

        Raises:
            RunNotFound: there is no such run.
        """
        query = {"run_id": run_id or None, "settled": not pending_only}
        return await self._get(APPROVALS.load, "/approvals", query)

    async def show(self, approval_id: str) -> ApprovalCard:
        """Return one question.

        Raises:
            ApprovalNotFound: none, or more than one, begins so.
        """
        return await self._get(APPROVAL.load, _path(approval_id))

    async def answer(
        self,
        approval_id: str,
        decision: Decision,
        *,
        reason: str = "",
        reach: Reach = Reach.ONCE,
        args: Mapping[str, Any] | None = None,
        binding: str = "",
    ) -> ApprovalCard:
        """Answer a question; the first answer counts, and the run continues by itself. Return it as it stands then.

        `binding` is that of the question as it was shown; an answer to another call is refused.

        Raises:
            ApprovalNotFound: there is no such question.
            ApprovalSettled: it was answered already, or time has run out.
            ApprovalRefused: the answer does not fit the question.
        """
        said: dict[str, Any] = {"decision": decision.value, "reason": reason, "scope": reach.value}
        if binding:
            said["binding"] = binding
        if args is not None:
            said["args"] = dict(args)
        return await self._post(APPROVAL.load, _path(approval_id), said)
