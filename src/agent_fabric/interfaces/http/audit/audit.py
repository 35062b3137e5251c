"""The record of what was done: whether it is whole, and taking old parts of it away."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Query
from pydantic import Field

from agent_fabric.application.audit.collect_garbage import Collected
from agent_fabric.application.audit.verify_chain import VerifyChain
from agent_fabric.application.ports.audit import ChainReport
from agent_fabric.bootstrap.records import Records
from agent_fabric.bootstrap.runs import collect_garbage
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.bodies import WHOLE, RequestBody
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import Flag
from agent_fabric.wire.audit import ACTS, CHAIN, COLLECTED


class GarbageRequest(RequestBody, example={"older_than_s": 2_592_000, "keep": 10, "dry_run": True}):
    """Which runs are to go."""

    older_than_s: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 30 * 86_400.0
    """Those that settled longer ago than this."""
    keep: Annotated[int, Field(ge=0, le=1_000_000_000), WHOLE] = 0
    """Of these, the newest ones stay."""
    dry_run: bool = False
    """Only report what would be removed."""


def add_audit(routes: Routes, records: Records) -> None:
    """Add the routes. Who did what within runs stands in their events."""

    @routes.get("/api/v1/audit/verify", Scope.ADMIN, "Check that the record is whole", CHAIN, fails=[503])
    async def verify(
        expect: Annotated[
            str, Query(max_length=200, description="A head that was noted down before and must still be there.")
        ] = "",
        shared: Annotated[Flag, Query(description="Whether entries with other keys are in order.")] = False,
    ) -> ChainReport:
        """The same as `fabric audit verify --json`: recompute every log, and the chain over all of them."""
        return await VerifyChain(records.storage.chain)(expect=expect, shared=shared)

    @routes.get("/api/v1/audit/acts", Scope.ADMIN, "List what people did to the server itself", ACTS, fails=[503])
    async def acts(
        limit: Annotated[int, Query(ge=1, le=10_000, description="How many, the newest first.")] = 100,
    ) -> Iterable[Act]:
        """Users, keys, tokens, secrets (by name), backups: who changed what, and when. The check covers it."""
        return await records.storage.acts.recent(limit=limit)

    @routes.post("/api/v1/gc", Scope.ADMIN, "Take old runs away", COLLECTED, fails=[503, 507])
    async def gc(wish: OptionalBody[GarbageRequest], by: Principal) -> Collected:
        """Remove runs that settled long ago, with their files. Each leaves a tombstone for the check above."""
        return await collect_garbage(records)(
            older_than_s=wish.older_than_s, by=by.name, keep=wish.keep, dry_run=wish.dry_run
        )
