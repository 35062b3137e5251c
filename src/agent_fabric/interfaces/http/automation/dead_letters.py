"""Dead letters: what could not be carried out."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from agent_fabric.application.ports.automation import DeadLetter
from agent_fabric.bootstrap.automation import Automation
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.automation.schedules import ReplayRequest
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import Flag
from agent_fabric.wire.automation import LETTER, LETTERS

BASE = "/api/v1/dead-letters"
LetterPath = Annotated[str, Path(max_length=200, description="The id of a dead letter, or the beginning of it.")]


def add_dead_letters(routes: Routes, automation: Automation) -> None:
    """Add the routes."""
    letters, settle, one = automation.store.letters, automation.settle_letters, routes.below(f"{BASE}/{{letter_id}}")

    @routes.get(BASE, Scope.ADMIN, "List dead letters", LETTERS)
    async def list_letters(
        all: Annotated[Flag, Query(description="Whether to include those that were settled.")] = False,  # noqa: A002
        limit: Annotated[int, Query(ge=1, le=1_000, description="Most letters to list.")] = 100,
    ) -> Iterable[DeadLetter]:
        """What triggers and deliveries could not do, the newest first."""
        return await letters.list(limit=limit, everything=all)

    @one.get("", Scope.ADMIN, "Show a dead letter", LETTER, fails=[404])
    async def show(letter_id: LetterPath) -> Response:
        """With what is needed to carry it out. Its text may come from outside."""
        return json_answer(letter_object(await letters.find(letter_id)))

    @one.post("/replay", Scope.ADMIN, "Carry a dead letter out", LETTER, fails=[404, 409, 503, 507])
    async def replay(wish: OptionalBody[ReplayRequest], letter_id: LetterPath, by: Principal) -> Response:
        """Under the id that it had, so that it happens once; with `again` as something new."""
        found = await letters.find(letter_id)
        return json_answer(letter_object(await settle.replay(found, by=by, again=wish.again)))

    @one.delete("", Scope.ADMIN, "Drop a dead letter", LETTER, fails=[404, 409, 503, 507])
    async def drop(letter_id: LetterPath, by: Principal) -> Response:
        """It is not carried out; the letter stays, and says who decided so."""
        return json_answer(letter_object(await settle.drop(await letters.find(letter_id), by=by)))


def letter_object(letter: DeadLetter) -> dict[str, object]:
    """Return everything about a letter."""
    return {**LETTER.dump(letter), "payload": dict(letter.payload)}
