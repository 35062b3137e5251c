"""No door without a lock: every route, tried by everybody who may not use it."""

import itertools
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from starlette.routing import BaseRoute, Mount, WebSocketRoute

from agent_fabric.domain.identity.principals import Kind, Principal, Role, Scope, widen
from agent_fabric.infrastructure.identity.own_secrets import jwt_secret
from agent_fabric.interfaces.http.gate import CANONICAL_PREFIX, SEEDS, SOCKETS
from agent_fabric.interfaces.http.routing import Open, Route
from effort import SOAK
from integration.http.served import Served, bearer, served

OWNER = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))
OPEN = {
    "/health": {"GET", "HEAD"},
    "/ready": {"GET", "HEAD"},
    "/docs": {"GET", "HEAD"},
    "/docs/oauth2-redirect": set[str](),
    "/redoc": {"GET", "HEAD"},
    "/openapi.json": {"GET", "HEAD"},
    "/api/v1/login": {"POST"},
    "/api/v1/login/renew": {"POST"},
    "/api/v1/login/end": {"POST"},
    "/": {"GET", "HEAD"},
    "/s/x": {"GET", "HEAD"},
    "/r/x": {"GET", "HEAD"},
    "/app/x/x": {"GET", "HEAD"},
    "/api/v1/web/session": {"POST"},
    "/api/v1/nodes/join": {"POST"},
    "/node/fabric-node.pyz": {"GET"},
}
"""What the issue allows to be public, and nothing else."""


USUAL = ("nothing", *(("a wrong token", "a tampered token", "an old token") if SOAK else ()))
"""Who is tried at every door; the others take turns: behind the gate, all doors are the same."""
TURNS = 2
"""How many of the others are tried at a door."""

OF_USERS = {"/api/v1/channels/notify"}
"""Doors behind which everyone finds their own: there is nothing for a key that is nobody's."""


@dataclass(frozen=True)
class Door:
    """One method of one route."""

    method: str
    path: str
    right: Scope | str
    """What it needs; empty: it is not one of ours."""


def doors(routes: list[BaseRoute], prefix: str = "") -> Iterator[Door]:
    """Return every door there is, hidden ones too."""
    for route in routes:
        if isinstance(route, Mount):
            yield from (
                doors(list(route.routes), prefix + route.path)
                if route.routes
                else (Door(method, f"{prefix}{route.path}/", "") for method in ("GET", "POST"))
            )
            continue
        if isinstance(route, WebSocketRoute):
            assert route.path in SOCKETS  # tests/integration/page and fleet try these
            continue
        assert isinstance(route, Route), f"{route} is a kind of door that nobody has tried"
        path = prefix + re.sub(r"{[^}]+}", "x", route.path)
        for method in sorted(route.methods):
            yield Door(method, path, route.access)


async def tried(server: Served, door: Door, headers: dict[str, str], *, prefix: str = "") -> int:
    async with server.client.stream(door.method, prefix + door.path, headers=headers) as answer:
        if answer.status_code == 401 and door.method != "HEAD":
            await answer.aread()
            assert answer.headers["www-authenticate"] == "Bearer"
            problem: dict[str, Any] = answer.json()
            assert "credential" in str(problem), problem
        return answer.status_code


@pytest.mark.slow
@pytest.mark.proves("A33-010", "A33-011", "A33-012", "A33-013", "A33-014", "C08", "C26")
async def test_no_door_opens_for_those_who_may_not_use_it(tmp_path: Path) -> None:
    async with served(
        tmp_path, also={"limits": {"failures": "1000000/minute", "requests": "1000000/minute"}}
    ) as server:
        all_doors = list(doors(server.routes))
        assert len(all_doors) > 40
        identity, root = server.fabric.identity, tmp_path / ".fabric"
        await identity.users.add("ann", password="correct horse battery", by=OWNER, role=Role.ADMIN)
        genuine = (await identity.issue("ann", by=OWNER)).token
        claims = jwt.decode(genuine, options={"verify_signature": False})
        secret = jwt_secret(root, {})
        old = {**claims, "iat": time.time() - 7200, "exp": int(time.time()) - 3600}
        head, body, signature = genuine.split(".")
        await identity.users.add("bob", password="correct horse battery", by=OWNER)
        gone = (await identity.issue("bob", by=OWNER)).token
        await identity.users.remove("bob", by=OWNER)
        revoked = await identity.keys.create("revoked", by=OWNER, scopes=[Scope.ADMIN])
        await identity.keys.revoke(revoked.key.id, by=OWNER)
        living = await identity.keys.create("living", by=OWNER, scopes=[Scope.ADMIN])
        strangers = {
            "nothing": {},
            "a wrong token": bearer("local_" + "x" * 43),
            "a wrong key": {"X-API-Key": "a33_" + "x" * 60},
            "a token cut short": bearer(server.token[:-1]),
            "a tampered token": bearer(f"{head}.{body}.{signature[:-2]}AA"),
            "another body": bearer(f"{head}.{body[:-4]}AAAA.{signature}"),
            "no algorithm": bearer(jwt.encode(claims, "", algorithm="none")),
            "another secret": bearer(jwt.encode(claims, "x" * 64, algorithm="HS256")),
            "another audience": bearer(jwt.encode({**claims, "aud": "others"}, secret, algorithm="HS256")),
            "an old token": bearer(jwt.encode(old, secret, algorithm="HS256")),
            "one of somebody who has left": bearer(gone),
            "a revoked key": {"X-API-Key": revoked.secret},
            "a key cut short": {"X-API-Key": living.secret[:-1]},
            "a tampered key": {"X-API-Key": living.secret[:-1] + ("a" if living.secret[-1] != "a" else "b")},
            "a cookie": {"Cookie": f"token={server.token}"},
            "a name and password": {"Authorization": "Basic YW5uOmNvcnJlY3QgaG9yc2UgYmF0dGVyeQ=="},
        }
        del server.client.headers["Authorization"]
        assert await tried(server, Door("GET", "/runs", ""), bearer(genuine)) == 200
        assert await tried(server, Door("GET", "/runs", ""), {"X-API-Key": living.secret}) == 200
        assert await tried(server, Door("GET", "/runs", ""), bearer(living.secret)) == 200
        others = itertools.cycle((who, headers) for who, headers in strangers.items() if who not in USUAL)
        for door in all_doors:
            if door.method in OPEN.get(door.path, ()):
                assert door.right in {Open.PUBLIC, ""}
                assert await tried(server, door, {}) not in {401, 403}, door
                continue
            if door.right == Open.SIGNED:
                assert await tried(server, door, {}) == 401, door
                continue
            assert door.right != Open.PUBLIC, f"{door} is not on the list"
            everywhere = {name: strangers[name] for name in USUAL}
            for who, headers in (everywhere | dict(itertools.islice(others, TURNS))).items():
                assert await tried(server, door, headers) == 401, f"{door} opened for {who}"
            if door.path.split("/")[1] in SEEDS:
                assert await tried(server, door, {}, prefix=CANONICAL_PREFIX) == 401, f"{door} below its prefix"
        assert (await server.client.get("/a/path/that/nobody/knows")).status_code == 401


@pytest.mark.slow
@pytest.mark.proves("A33-017")
async def test_no_door_opens_for_those_who_may_do_everything_else(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"requests": "1000000/minute"}}) as server:
        del server.client.headers["Authorization"]
        keys = server.fabric.identity.keys
        for right in Scope:
            lesser = [scope for scope in Scope if right not in widen((scope,))]
            less = await keys.create(f"without-{right.name}", by=OWNER, scopes=lesser)
            enough = await keys.create(f"only-{right.name}", by=OWNER, scopes=[right])
            for door in doors(server.routes):
                if door.right != right:
                    continue
                assert await tried(server, door, {"X-API-Key": less.secret}) == 403, f"{door} opened"
                if door.method == "GET" and "x" not in door.path.split("/") and door.path not in OF_USERS:
                    opened = await tried(server, door, {"X-API-Key": enough.secret})
                    assert opened not in {401, 403}, f"{door} stayed shut"


async def test_a_route_that_does_not_say_who_may_use_it_cannot_be_added() -> None:
    async def nothing() -> None: ...

    with pytest.raises(TypeError, match="access"):
        Route(method="GET", path="/open", handler=nothing)  # type: ignore[call-arg]
