"""Routes cost nothing before their first request."""

from typing import NamedTuple

import httpx2
from fastapi import FastAPI
from starlette.routing import BaseRoute

from agent_fabric.interfaces.http.openapi import describe
from agent_fabric.interfaces.http.routing import Open, Route, Routes
from agent_fabric.wire.shape import Shape


class Found(NamedTuple):
    """What a route answers."""

    path: str
    number: int


FOUND = Shape(Found)


def app_with(*paths: str) -> FastAPI:
    app = FastAPI(openapi_url=None)
    routes = Routes(app.router.routes)
    for path in paths:

        @routes.get(path, Open.PUBLIC, "Find it", FOUND)
        async def found(number: int = 0, *, path: str = path) -> Found:
            return Found(path, number)

    return app


def client_of(app: FastAPI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://fabric")


def was_read(route: BaseRoute) -> bool:
    return "described" in vars(route)


async def test_a_route_is_read_when_the_first_request_comes_and_no_other_is() -> None:
    app = app_with("/runs", "/runs/{run_id}", "/runs/{run_id}/events", "/machines/{name}")
    assert not any(was_read(route) for route in app.routes)
    async with client_of(app) as client:
        answer = await client.get("/runs/7?number=3")
        assert answer.json() == {"path": "/runs/{run_id}", "number": 3}
        assert [was_read(route) for route in app.routes] == [False, True, False, False]
        assert ["_pattern" in vars(route) for route in app.routes] == [True, True, False, False]
        assert (await client.get("/runs/7?number=many")).status_code == 422
        assert (await client.post("/runs/7")).status_code == 405
        assert (await client.get("/run")).status_code == 404
        assert (await client.get("/runs/7/else")).status_code == 404


def test_a_description_reads_all_routes() -> None:
    app = app_with("/agents", "/machines/{name}")
    rows = [route for route in app.routes if isinstance(route, Route)]
    assert set(describe("x", "1", "", [row.described for row in rows])["paths"]) == {"/agents", "/machines/{name}"}
    assert all(was_read(route) for route in app.routes)


async def test_below_another_path_routes_are_found_too() -> None:
    outer = FastAPI(openapi_url=None)
    outer.mount("/below", app_with("/runs/{run_id}"))
    async with client_of(outer) as client:
        assert (await client.get("/below/runs/7")).json() == {"path": "/runs/{run_id}", "number": 0}
