"""The table of routes: method, path, scope, body, answer and function, each written once.

Dispatch, the check of scopes, reading of bodies, writing of answers and `/openapi.json` follow from it. A type checker
compares what the function returns with the answer of its row. FastAPI checks parameters of paths and queries, and
describes them.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from inspect import Parameter, Signature, signature
from typing import (
    Annotated,
    Any,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    overload,
)

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.identity.principals import Scope as Right
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import read_body
from agent_fabric.interfaces.http.locks import must_be_allowed, narrow_to_run, who_answers, who_asks
from agent_fabric.interfaces.http.openapi import EVERYWHERE, UNREADABLE, Described, Responses, gives, problems, takes
from agent_fabric.wire.shape import Listing, Shape

B = TypeVar("B", bound=BaseModel)
A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)
P = ParamSpec("P")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


_MAY_BE_ABSENT = "may be absent"
OptionalBody = Annotated[B, _MAY_BE_ABSENT]
"""A body that stands for an empty object if it is absent."""
_LOOKED_UP = "looked up"
Answerer = Annotated[Principal, _LOOKED_UP]
"""The caller of a route that answers what a run asks: a program that a run has started acts for the run."""
HIDDEN = ""
"""The summary of a route that the API's description leaves out."""


class Open(StrEnum):
    """Who may use a route that needs no scope."""

    PUBLIC = "public"
    """Anonymous requests: health, the API description and the login."""
    SIGNED = "signed"
    """Senders of signed requests; the route checks the signature."""


class Answer(Protocol[A_contra]):
    """How an answer is written as JSON: a `Shape` or a `Listing`."""

    @property
    def name(self) -> str: ...

    def dump(self, value: A_contra, /) -> dict[str, Any]:
        """Return it as JSON has it."""
        ...


@dataclass(eq=False, kw_only=True)
class Route(BaseRoute):
    """One row of the table.

    FastAPI reads the function when the first request comes that needs it, or for the description: reading all of them
    takes most of a server's start. The pattern of the path is compiled for the first path with the same beginning.
    """

    method: str
    path: str
    access: Right | Open
    handler: Callable[..., Awaitable[Any]]
    """What it declares says what it gets: a model is the body, `Principal` the caller, `Request` the request; FastAPI
    finds the others."""
    tag: str = ""
    summary: str = ""
    """Empty: `HIDDEN`."""
    answer: Described | None = None
    """None: the function returns a response, or None for an answer without content."""
    status: int = 200
    fails: Sequence[int] = ()
    also: Responses | None = None
    head: bool = False
    """Whether `HEAD` is answered, too."""
    content: Mapping[str, Any] | None = None
    """Describes a body that the function reads by itself."""

    def __post_init__(self) -> None:
        self.methods = {self.method, "HEAD"} if self.head else {self.method}
        self._begins = self.path.partition("{")[0]

    @cached_property
    def _pattern(self) -> tuple[Any, str, dict[str, Any]]:
        return compile_path(self.path)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if not path.startswith(self._begins):
            return Match.NONE, {}
        regex, _, convertors = self._pattern
        if (found := regex.match(path)) is None:
            return Match.NONE, {}
        values = {name: convertors[name].convert(value) for name, value in found.groupdict().items()}
        more = {"route": self, "path_params": {**scope.get("path_params", {}), **values}}
        return Match.FULL if scope["method"] in self.methods else Match.PARTIAL, more

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in self.methods:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self.methods))})
        if isinstance(self.access, Right):
            if self.access is Right.ADMIN and scope["method"] not in _SAFE:
                await narrow_to_run(scope)
            must_be_allowed(scope["state"]["user"], self.access)
        if self._takes.others:
            await self.described.app(scope, receive, send)
        else:  # FastAPI's search for parameters costs more than most answers
            await (await self._respond(Request(scope, receive), {}))(scope, receive, send)

    async def _respond(self, request: Request, values: dict[str, Any]) -> ASGIApp:
        """Call the function, and write what it returns."""
        takes = self._takes
        if takes.request:
            values[takes.request] = request
        if takes.body is not None:
            values[takes.body_name] = await read_body(request, takes.body, required=takes.required)
        if takes.caller:
            values[takes.caller] = await who_answers(request) if takes.looked_up else who_asks(request)
        value = await self.handler(**values)
        if value is None:
            return Response(status_code=self.status)
        if isinstance(value, Response) or not isinstance(self.answer, Shape | Listing):
            response: ASGIApp = value
            return response
        return json_answer(self.answer.dump(value), self.status)

    @cached_property
    def _takes(self) -> "_Taken":
        return _taken_by(self.handler)

    @cached_property
    def described(self) -> APIRoute:
        """The route as FastAPI knows it: it checks what the function declares, and describes it."""

        async def endpoint(request: Request, **values: Any) -> ASGIApp:
            return await self._respond(request, values)

        named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in self._takes.others]
        request = Parameter("request", Parameter.KEYWORD_ONLY, annotation=Request)
        endpoint.__signature__ = Signature([request, *named])  # type: ignore[attr-defined] # `inspect` reads it
        endpoint.__name__, endpoint.__doc__ = self.handler.__name__, self.handler.__doc__
        is_open = isinstance(self.access, Open)
        return APIRoute(
            self.path,
            endpoint,
            methods=[self.method],
            summary=self.summary,
            tags=[self.tag],
            status_code=self.status,
            response_model=None,
            response_class=Response if self.answer is None and self.status in (self.also or {}) else JSONResponse,
            responses=self._responses(),
            include_in_schema=bool(self.summary),
            openapi_extra={
                **({} if self._takes.body is None else takes(self._takes.body, required=self._takes.required)),
                **({} if self.content is None else {"requestBody": {"content": self.content}}),
                "x-scope": str(self.access),
                "security": [] if is_open else [{"bearer": []}, {"key": []}],
            },
        )

    def _responses(self) -> dict[int | str, dict[str, Any]]:
        also = self.also or {}
        usual = {} if self.answer is None else gives(self.answer, status=self.status)
        if self.status in also and usual:  # the same status, with content of another type
            content = {**usual[self.status]["content"], **also[self.status]["content"]}
            usual[self.status] = {**also[self.status], "content": content}
        failures = (*self.fails, *(() if self._takes.body is None else UNREADABLE))
        return {**problems(*EVERYWHERE), **also, **usual, **problems(*(each for each in failures if each not in also))}


class _Taken(NamedTuple):
    """What a function declares."""

    request: str
    """The parameter that is the request; empty: none."""
    body_name: str
    body: type[BaseModel] | None
    required: bool
    """Whether there must be a body."""
    caller: str
    """The parameter that is the caller; empty: none."""
    looked_up: bool
    """Whether it is found out if a run calls, whatever is shown."""
    others: Sequence[Parameter]
    """What comes from path, query and headers."""


def _taken_by(handler: Callable[..., object]) -> _Taken:
    request, body_name, body, required = "", "", None, True
    caller, looked_up = "", False
    others = []
    for each in signature(handler).parameters.values():
        kind, *notes = get_args(each.annotation) if get_origin(each.annotation) is Annotated else [each.annotation]
        if kind is Request:
            request = each.name
        elif kind is Principal:
            caller, looked_up = each.name, _LOOKED_UP in notes
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            body_name, body, required = each.name, kind, _MAY_BE_ABSENT not in notes
        else:
            others.append(each)
    return _Taken(request, body_name, body, required, caller, looked_up, others)


class More(TypedDict, total=False):
    """What a row may say beyond what every row says."""

    status: int
    fails: Sequence[int]
    """Statuses of problems."""
    also: Responses
    """Answers with another status or type than the usual one."""
    head: bool
    content: Mapping[str, Any]
    """Describes a body that the function reads by itself."""


class Verb:
    """Adds routes of one method to the table."""

    def __init__(self, method: str, tag: str, rows: list[BaseRoute], prefix: str) -> None:
        self._method, self._tag, self._rows, self._prefix = method, tag, rows, prefix

    @overload
    def __call__(
        self, path: str, access: Right | Open, summary: str, answer: Answer[A], **more: Unpack[More]
    ) -> Callable[[Callable[P, Awaitable[A | Response]]], object]: ...

    @overload
    def __call__(
        self, path: str, access: Right | Open, summary: str, answer: type[BaseModel] | None = None, **more: Unpack[More]
    ) -> Callable[[Callable[P, Awaitable[Response | None]]], object]: ...

    def __call__(
        self, path: str, access: Right | Open, summary: str, answer: Any = None, **more: Any
    ) -> Callable[[Any], object]:
        """Return what adds a function as a route."""

        def add(handler: Callable[..., Awaitable[Any]]) -> object:
            row = Route(
                method=self._method,
                path=self._prefix + path,
                access=access,
                handler=handler,
                tag=self._tag,
                summary=summary,
                answer=answer,
                **more,
            )
            self._rows.append(row)
            return handler

        return add


class Routes:
    """The table. Routes are tried in their order."""

    def __init__(self, rows: list[BaseRoute], tag: str = "", prefix: str = "") -> None:
        self._rows, self._tag, self._prefix = rows, tag, prefix
        self.get, self.post, self.put, self.patch, self.delete = (
            Verb(method, tag, rows, prefix) for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        )

    def with_tag(self, tag: str) -> "Routes":
        """Return what adds routes to the same table, described under a heading."""
        return Routes(self._rows, tag)

    def below(self, path: str) -> "Routes":
        """Return what adds routes whose paths begin so."""
        return Routes(self._rows, self._tag, self._prefix + path)

    def add(self, row: BaseRoute) -> None:
        """Add a row as it is, such as a socket or a route that the API's description leaves out."""
        self._rows.append(row)

    def __iter__(self) -> Iterator[Route]:
        return (row for row in self._rows if isinstance(row, Route))
