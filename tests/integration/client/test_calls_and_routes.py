"""Every call of the client is held against the table of routes: path, query, body and answer."""

import asyncio
import inspect
import types
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from unittest.mock import Mock

import aiohttp
import pytest
from starlette.routing import Match

import reference_pages
from agent_fabric.client.errors import AnswerUnusable
from agent_fabric.client.fabric_client import FabricClient
from agent_fabric.client.logins import Login
from agent_fabric.client.tasks import TaskRequest
from agent_fabric.client.transport import Query, Resource, Transport
from agent_fabric.domain.evals.definition import EvalDefinition, definition_from
from agent_fabric.interfaces.http.openapi import describe
from agent_fabric.interfaces.http.routing import Route

NAME = "a1b2c3d4"
"""Good as a name, as an id and as text."""
NAMED: Mapping[str, Any] = {
    "password": "correct horse battery staple",
    "url": "https://example.com/page",
    "decision": "accept",
    "word": "apply",
    "at": "2026-11-17T03:00",
}
"""Arguments that cannot be just any text."""
OPEN = {"runs.diff", "runs.undo", "sessions.export"}
"""Their answers hold more than the description says: tests of their own read them back."""
MADE: Mapping[Any, Any] = {
    TaskRequest: TaskRequest(prompt=NAME, model_key=NAME, max_steps=1, continues=NAME, pool="big", encrypt=True),
    EvalDefinition: definition_from({"name": NAME, "cases": [{"id": "a", "prompt": NAME, "check": "true"}]}),
    Login: Login(NAME, NAME, 1.0, (), NAME, 2.0),
    bytes: b"text",
    str: NAME,
    bool: True,
    int: 1,
    float: 1.0,
}


class Table:
    """The routes of a server, and what `/openapi.json` says of them."""

    def __init__(self, rows: Sequence[Route], document: Mapping[str, Any]) -> None:
        self._rows, self._document = rows, document

    def find(self, method: str, path: str) -> Route:
        """Return the route that answers a request."""
        scope = {"type": "http", "method": method, "path": path}
        return next(row for row in self._rows if row.matches(scope)[0] is Match.FULL)

    def operation(self, row: Route) -> Mapping[str, Any]:
        """Return what is said of a route."""
        found: Mapping[str, Any] = self._document["paths"][row.described.path_format][row.method.lower()]
        return found

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema for a reference to it."""
        while "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

    def sample(self, schema: Mapping[str, Any]) -> Any:
        """Return the least that fits a schema: required keys, and null where that may be."""
        schema = self.resolve(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        if "anyOf" in schema:
            kinds = [self.resolve(each) for each in schema["anyOf"]]
            return None if any(each.get("type") == "null" for each in kinds) else self.sample(kinds[0])
        match schema.get("type"):
            case "object" if "properties" in schema:
                return {key: self.sample(schema["properties"][key]) for key in schema.get("required", ())}
            case "object":
                return {}
            case "array":
                return [self.sample(schema.get("items", {}))]
            case "boolean":
                return False
            case "integer" | "number":
                return 1
            case _:
                return NAME


@pytest.fixture(scope="module")
def table() -> Table:
    rows = [row for row in reference_pages.table() if isinstance(row, Route)]
    return Table(rows, describe("", "", "", (row.described for row in rows)))


class HeldTransport(Transport):
    """Answers each request as the table says, once it has been held against it."""

    def __init__(self, table: Table, nth: int, *, open_body: bool) -> None:
        super().__init__("http://127.0.0.1:1", None, timeout_s=1.0, connect_timeout_s=1.0)
        self.requests: list[str] = []
        self.answers: list[Mapping[str, Any]] = []
        """What the last route may answer with; the request gets the `nth` of these."""
        self._table, self._nth, self._open_body = table, nth, open_body

    async def _once(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
        also: int = 200,
    ) -> Any:
        row = self._hold(method, path, query)
        operation = self._table.operation(row)
        self._hold_body(operation, body)
        self.answers = [*self._answers(operation)]
        return self._table.sample(self.answers[self._nth % len(self.answers)]) if self.answers else None

    def _answers(self, operation: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the schemas of what a route may answer with."""
        for status, answer in operation["responses"].items():
            schema = answer.get("content", {}).get("application/json", {}).get("schema") if status < "300" else None
            yield from () if schema is None else schema.get("anyOf", [schema])

    @asynccontextmanager
    async def _open_stream(
        self,
        path: str,
        query: Query | None,
        headers: Mapping[str, str],
        limit_s: float,
        kind: str,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        row = self._hold("GET", path, query)
        kinds = [name for answer in self._table.operation(row)["responses"].values() for name in answer["content"]]
        assert kind in kinds, f"{row.path} gives {kinds}"
        stream = aiohttp.StreamReader(Mock(), 2**16, loop=asyncio.get_running_loop())
        stream.feed_eof()
        yield stream

    async def _versions(self) -> str:
        return "the table is of this version"  # without a request, which would hide the one before it

    def _hold(self, method: str, path: str, query: Query | None) -> Route:
        self.requests.append(f"{method} {path}")
        row = self._table.find(method, path)
        known = {each["name"] for each in self._table.operation(row).get("parameters", ()) if each["in"] == "query"}
        assert set(query or ()) <= known, f"{row.path} takes {known}"
        return row

    def _hold_body(self, operation: Mapping[str, Any], body: Mapping[str, Any] | None) -> None:
        taken = operation.get("requestBody")
        if taken is None:
            assert body is None, "the route takes no body"
            return
        schema = self._table.resolve(taken["content"]["application/json"]["schema"])
        if schema.get("additionalProperties") is False:
            assert set(body or ()) <= set(schema["properties"]), f"the body has {sorted(schema['properties'])}"
        if not self._open_body:
            assert set(schema.get("required", ())) <= set(body or ())


def calls() -> list[str]:
    """Return all methods of the client that ask the server something."""
    client = FabricClient("http://127.0.0.1:1", token="t")
    groups = {"": client, **{name: each for name, each in vars(client).items() if isinstance(each, Resource)}}
    return [
        f"{group}.{name}".removeprefix(".")
        for group, resource in groups.items()
        for name, member in inspect.getmembers(type(resource), inspect.isfunction)
        if not name.startswith("_") and (inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member))
    ]


def argument(name: str, kind: Any, folder: Path) -> Any:
    """Return a value for a parameter: never None, so that what it stands for is sent."""
    if name == "to":
        return folder / "saved"
    if name in NAMED and kind in (str, str | None):
        return NAMED[name]
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        return argument(name, next(each for each in arguments if each is not type(None)), folder)
    if origin is Annotated:
        return argument(name, arguments[0], folder)
    if origin is Literal:
        return arguments[0]
    if isinstance(origin, type) and issubclass(origin, Enum):
        return next(iter(origin))
    if kind in MADE:
        return MADE[kind]
    if origin in (Sequence, Iterable):
        return (NAME,)
    return {}


@pytest.mark.proves("RM-9")
@pytest.mark.parametrize("call", calls())
async def test_a_call_of_the_client_is_one_that_the_table_knows(call: str, table: Table, tmp_path: Path) -> None:
    client = FabricClient("http://127.0.0.1:1", token="t")
    group, _, name = call.rpartition(".")
    resource = getattr(client, group) if group else client
    method = getattr(resource, name)
    parameters, hints = inspect.signature(method).parameters, get_type_hints(method)
    given = {
        each.name: argument(each.name, hints[each.name], tmp_path)
        for each in parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    }
    open_body = any(
        each.kind is inspect.Parameter.VAR_KEYWORD or (given.get(each.name) == {} and each.name != "inputs")
        for each in parameters.values()
    )
    wrong: list[AnswerUnusable] = []
    while True:
        transport = HeldTransport(table, len(wrong), open_body=open_body)
        for part in (client, *vars(client).values()):
            if isinstance(part, Resource):
                part._transport = transport
        try:
            asked = method(**given)
            await (anext(asked, None) if inspect.isasyncgen(asked) else asked)
        except AnswerUnusable as problem:
            wrong.append(problem)
            if call in OPEN:
                return
            if len(wrong) >= len(transport.answers):
                raise
        else:
            assert transport.requests
            return
