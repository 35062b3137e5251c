"""Who may ask: those who show who they are, by a name that is ours, from no page of others."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from agent_fabric.domain.errors import ConfigError, RunNotFound, StoreUnavailable, Unauthenticated
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.domain.identity.principals import Scope as Right
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.addresses import Addresses
from agent_fabric.interfaces.http.gate import SHOWN_RUN, Gate, _HeldBodies, _TooMany, canonical
from agent_fabric.interfaces.http.names import is_loopback, names_of

PORT = 8787


async def authenticate(credential: str, *, is_key: bool, from_here: bool) -> Principal:
    if credential == ("key" if is_key else "token") and from_here:
        return Principal("ann", Kind.USER, frozenset())
    raise Unauthenticated("Invalid authentication credentials")


async def no_page(cookies: Any, page_token: str, *, from_here: bool) -> Principal:
    raise Unauthenticated("Invalid authentication credentials")


async def any_run(prefix: str, *, by: Principal) -> RunId:
    return RunId(prefix)


async def answer(headers: dict[str, str], *more: tuple[str, str], method: str = "GET", path: str = "/health") -> int:
    """Send a request through the gate; return its status, 200 when it was let in."""

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    named = [(name.encode(), value.encode()) for name, value in (*headers.items(), *more)]
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": named,
        "client": ("127.0.0.1", 4711),
    }
    gate = Gate(
        inside,
        hosts=names_of("127.0.0.1", PORT, ()),
        addresses=Addresses(()),
        authenticate=authenticate,
        authenticate_page=no_page,
        find=any_run,
        max_body_bytes=10,
    )
    await gate(scope, receive, send)
    (status,) = statuses
    return status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8787", 200),
        ("127.0.0.1", 200),
        ("localhost:8787", 200),
        ("LocalHost", 200),
        ("[::1]:8787", 200),
        ("[::1]", 200),
        ("", 421),
        ("127.0.0.1:8788", 421),
        ("127.0.0.1:", 421),
        ("127.0.0.1.", 421),
        ("localhost.", 421),
        ("::1", 421),
        ("0.0.0.0:8787", 421),
        ("127.0.0.2", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:8787", 421),
        ("127.0.0.1@evil.example", 421),
        ("127.0.0.1:8787, evil.example", 421),
    ],
)
async def test_only_names_of_this_machine_are_answered(host: str, status: int) -> None:
    assert await answer({"host": host}) == status


async def test_without_a_name_or_with_two_nobody_is_answered() -> None:
    assert await answer({}) == 421
    assert await answer({"host": "localhost"}, ("host", "localhost")) == 421
    assert await answer({"host": "localhost"}, ("host", "evil.example")) == 421


async def test_what_may_be_there_once_is_refused_when_it_is_there_twice() -> None:
    assert await answer({"host": ""}, ("host", "localhost")) == 421
    assert await answer({"host": "localhost", "origin": "http://evil.example"}, ("origin", "http://localhost")) == 403
    typed = {"host": "localhost", "content-length": "2", "content-type": "text/plain"}
    assert await answer(typed, ("content-type", "application/json"), method="POST") == 415


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8787", 200),
        ("http://localhost:8787", 200),
        ("http://[::1]:8787", 200),
        ("null", 403),
        ("http://127.0.0.1:3000", 403),
        ("https://127.0.0.1:8787", 200),
        ("http://evil.example", 403),
        ("http://localhost.evil.example:8787", 403),
        ("file://", 403),
        ("chrome-extension://abc", 403),
    ],
)
async def test_pages_of_others_are_refused(origin: str, status: int) -> None:
    assert await answer({"host": "localhost:8787", "origin": origin}) == status
    assert await answer({"host": "localhost:8787", "origin": origin}, method="POST") == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": "0"}, 200),
        ({"content-length": "10", "content-type": "application/json"}, 200),
        ({"content-length": "10", "content-type": "Application/JSON; charset=utf-8"}, 200),
        ({"content-length": "10", "content-type": "application/vnd.x+json"}, 200),
        ({"transfer-encoding": "chunked", "content-type": "application/json"}, 200),
        ({"content-length": "11", "content-type": "application/json"}, 413),
        ({"content-length": "10"}, 415),
        ({"content-length": "10", "content-type": "text/plain"}, 415),
        ({"content-length": "10", "content-type": "text/x+json"}, 415),
        ({"content-length": "10", "content-type": "application/jsonp"}, 415),
        ({"transfer-encoding": "chunked"}, 415),
        ({"transfer-encoding": "chunked", "content-length": "0"}, 415),
        ({"content-length": "0", "transfer-encoding": "chunked"}, 415),
    ],
)
async def test_bodies_are_json_and_not_too_large(headers: dict[str, str], status: int) -> None:
    assert await answer({"host": "localhost", **headers}, method="POST") == status


@pytest.mark.proves("A33-010", "A33-011", "A33-014")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 401),
        ([("authorization", "Bearer token")], 200),
        ([("authorization", "bearer  token ")], 200),
        ([("x-api-key", "key")], 200),
        ([("x-api-key", "token")], 401),
        ([("authorization", "Bearer key")], 401),
        ([("authorization", "Bearer")], 401),
        ([("authorization", "Bearer ")], 401),
        ([("authorization", "token")], 401),
        ([("authorization", "Basic token")], 401),
        ([("authorization", "")], 401),
        ([("x-api-key", "")], 401),
        ([("authorization", "Bearer token"), ("x-api-key", "key")], 401),
        ([("authorization", "Bearer token"), ("authorization", "Bearer token")], 401),
        ([("cookie", "token=token")], 401),
    ],
)
async def test_whoever_does_not_show_who_they_are_is_refused(headers: list[tuple[str, str]], status: int) -> None:
    for path in ("/runs", "/nowhere", "//", "//health", "/health/", "/HEALTH", "/api/v1/login/", "/docs/x"):
        assert await answer({"host": "localhost"}, *headers, path=path) == status
    for path in ("/health", "/api/v1/health", "/docs", "/redoc", "/openapi.json", "/ready", "/api/v1/login"):
        assert await answer({"host": "localhost"}, *headers, path=path) == 200


@pytest.mark.proves("C25")
@pytest.mark.parametrize(
    ("path", "same_as"),
    [
        ("/api/v1/runs", "/runs"),
        ("/api/v1/runs/x/events", "/runs/x/events"),
        ("/api/v1/run", "/run"),
        ("/api/v1/health", "/health"),
        ("/api/v1/workflows", "/api/v1/workflows"),
        ("/api/v1/runsx", "/api/v1/runsx"),
        ("/api/v1", "/api/v1"),
        ("/api/v1/", "/api/v1/"),
        ("/api/v2/runs", "/api/v2/runs"),
        ("/runs", "/runs"),
    ],
)
def test_what_is_older_than_its_prefix_is_found_below_it_as_well(path: str, same_as: str) -> None:
    assert canonical(path) == same_as


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_only_addresses_that_no_other_machine_reaches_are_this_machines_own(host: str, ours: bool) -> None:
    assert is_loopback(host) is ours


def test_a_server_is_called_as_it_was_told_and_by_its_address() -> None:
    names = names_of("10.0.0.7", 8787, ["fabric.example.org"])
    assert {"fabric.example.org", "fabric.example.org:8787", "10.0.0.7:8787", "10.0.0.7", "localhost:8787"} <= names
    assert "fd00::7" not in names
    assert "[fd00::7]:80" in names_of("fd00::7", 80, ())
    with pytest.raises(ConfigError, match=r"server\.hosts"):
        names_of("0.0.0.0", 8787, ())


class Streaming:
    """Sends pieces for ever, through a gate that asks again before each."""

    def __init__(self, authenticate: Any, find: Any = None, run_id: str = "") -> None:
        self.sent: list[Message] = []
        self._run_id = run_id
        self._gate = Gate(
            self._inside,
            hosts=names_of("127.0.0.1", PORT, ()),
            addresses=Addresses(()),
            authenticate=authenticate,
            authenticate_page=no_page,
            find=find or any_run,
            max_body_bytes=10,
            recheck_s=0.0,
        )

    async def __call__(self) -> list[Message]:
        headers = [(b"host", b"localhost"), (b"x-api-key", b"key")]
        scope = {"type": "http", "method": "GET", "path": "/runs", "headers": headers, "client": ("127.0.0.1", 4711)}

        async def receive() -> Message:
            raise AssertionError("there is no body")

        await self._gate(scope, receive, self._send)
        return self.sent

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._run_id:
            scope["state"][SHOWN_RUN] = self._run_id
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while len(self.sent) < 100:
            await send({"type": "http.response.body", "body": b"more", "more_body": True})
        raise RuntimeError("nobody has ended it")

    async def _send(self, message: Message) -> None:
        self.sent.append(message)


@pytest.mark.parametrize("becomes", [None, Principal("ann", Kind.KEY, frozenset())])
async def test_an_answer_ends_as_soon_as_whoever_gets_it_may_less(becomes: Principal | None) -> None:
    answers = [Principal("ann", Kind.KEY, frozenset({Right.RUNS_READ}))] * 3

    async def authenticate(credential: str, *, is_key: bool, from_here: bool) -> Principal:
        if answers:
            return answers.pop()
        if becomes is None:
            raise Unauthenticated("Invalid authentication credentials")
        return becomes

    start, *pieces, last = await Streaming(authenticate)()
    assert start["status"] == 200
    assert [piece["body"] for piece in pieces] == [b"more"] * 2
    assert last == {"type": "http.response.body", "body": b""}


async def test_a_stream_ends_as_soon_as_its_run_does_not_exist_for_whoever_gets_it() -> None:
    ann = Principal("ann", Kind.KEY, frozenset({Right.RUNS_READ}))
    left = 2

    async def authenticate(credential: str, *, is_key: bool, from_here: bool) -> Principal:
        return ann

    async def find(prefix: str, *, by: Principal) -> RunId:
        nonlocal left
        assert (prefix, by) == ("a-run", ann)
        left -= 1
        if left < 0:
            raise RunNotFound("There is no run 'a-run'")
        return RunId(prefix)

    _, *pieces, last = await Streaming(authenticate, find, "a-run")()
    assert [piece["body"] for piece in pieces] == [b"more"] * 2
    assert last == {"type": "http.response.body", "body": b""}


async def test_an_answer_goes_on_while_nobody_can_tell_who_gets_it() -> None:
    answers = [Principal("ann", Kind.KEY, frozenset())]

    async def authenticate(credential: str, *, is_key: bool, from_here: bool) -> Principal:
        if answers:
            return answers.pop()
        raise StoreUnavailable("The disk is busy")

    with pytest.raises(RuntimeError, match="nobody has ended it"):
        await Streaming(authenticate)()


async def test_an_error_behind_the_gate_stays_one() -> None:
    async def authenticate(credential: str, *, is_key: bool, from_here: bool) -> Principal:
        return Principal("ann", Kind.KEY, frozenset())

    with pytest.raises(RuntimeError, match="nobody has ended it"):
        await Streaming(authenticate)()


class _Body:
    """A body that comes in pieces, and perhaps never ends."""

    def __init__(self, *pieces: bytes, ends: bool) -> None:
        self._pieces, self._ends = list(pieces), ends
        self.read = asyncio.Event()
        """Set when the next piece is waited for that never comes."""

    async def receive(self) -> Message:
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or not self._ends}
        self.read.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # it never comes


@pytest.mark.proves("WA-13")
async def test_bodies_that_never_end_are_bounded_for_each_caller_and_in_all() -> None:
    held = _HeldBodies(100, 60)
    half = [_Body(b"x" * 30, ends=False) for _ in range(4)]
    reading = [asyncio.create_task(held.read(each.receive, 80, f"caller {n % 2}")) for n, each in enumerate(half[:3])]
    await asyncio.gather(*(each.read.wait() for each in half[:3]))
    with pytest.raises(_TooMany):  # 60 of this caller are held already
        await held.read(half[3].receive, 80, "caller 0")
    with pytest.raises(_TooMany):  # and 90 in all
        await held.read(_Body(b"x" * 30, ends=False).receive, 80, "another")
    assert await held.read(_Body(b"x" * 40, ends=True).receive, 80, "caller 0") == b"x" * 40, "a whole one is not held"
    for task in reading:
        task.cancel()
    await asyncio.wait(reading)
    assert await held.read(_Body(b"x" * 30, b"y" * 30, ends=True).receive, 80, "caller 0") == b"x" * 30 + b"y" * 30
