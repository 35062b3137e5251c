"""Keys of programs."""

import logging
import time
from collections.abc import Iterable
from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from agent_fabric.bootstrap.identity import Identity
from agent_fabric.domain.identity.principals import Scope, scope_from
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.identity.identity_schemas import NewKeyRequest
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.identity import CREATED_KEY, KEY, KEYS, KeyState

_log = logging.getLogger(__name__)


def add_keys(routes: Routes, identity: Identity) -> None:
    """Add the routes. What they change counts at once."""
    keys = identity.keys

    @routes.get("/api/v1/keys", Scope.ADMIN, "List API keys, the newest first", KEYS, fails=[401])
    async def list_keys(
        all: Annotated[bool, Query(description="Whether to include those that are no longer valid.")] = False,  # noqa: A002
    ) -> Iterable[KeyState]:
        """The keys themselves are not included: they cannot be shown again."""
        now, found = time.time(), await keys.list(also_dead=all)
        return (KeyState.of(key, now=now, usable=keys.is_usable(key)) for key in found)

    @routes.post("/api/v1/keys", Scope.ADMIN, "Make an API key", CREATED_KEY, status=201, fails=[401, 409, 503, 507])
    async def create(wish: NewKeyRequest, request: Request) -> Response:
        """Answer with the key, this once. No caller can grant a scope that they lack."""
        who = who_asks(request)
        lasts_s = None if wish.expires_in_s == "never" else wish.expires_in_s
        made = await keys.create(wish.name, scopes=map(scope_from, wish.scopes), lasts_s=lasts_s, by=who)
        _log.info("%s has made the key %s (%s)", who.name, made.key.name, made.key.id)
        answer = json_answer({**KEY.dump(KeyState(made.key, "live")), "key": made.secret}, status=201)
        answer.headers["cache-control"] = "no-store"
        return answer

    @routes.delete("/api/v1/keys/{key_id}", Scope.ADMIN, "Revoke an API key", KEY, fails=[401, 404, 503, 507])
    async def revoke(
        key_id: Annotated[str, Path(description="The id of a key, or the name of a live one.")], request: Request
    ) -> KeyState:
        """It opens nothing from now on, and stays in the list of all keys."""
        who = who_asks(request)
        key = await keys.revoke(key_id, by=who)
        _log.info("%s has revoked the key %s (%s)", who.name, key.name, key.id)
        return KeyState.of(key, now=time.time())
