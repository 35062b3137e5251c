"""The proxy passes on what is allowed, whole and counted, and answers everything else in words."""

import asyncio
import os
import stat
import urllib.request

import pytest

from agent_fabric.config.schema.tools import BrowserConfig
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.infrastructure.sandbox.egress.policy import EgressLimits, EgressPolicy, HostUse, browser_policy
from agent_fabric.infrastructure.sandbox.egress.proxy import USER, EgressProxy
from integration.egress.wire import OK, PUBLIC, Net, bench, echo, listening, status

ORG = EgressPolicy(allow_domains=("example.org",))
NAMES = {"example.org": [PUBLIC]}


async def test_a_page_of_an_allowed_host_comes_through_and_is_counted() -> None:
    async with listening() as server:
        net = Net(NAMES, server.port)
        async with bench(ORG, net) as b:
            answer = await b.get("http://example.org/a?b=c")
    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    assert net.dialled == [(PUBLIC, 80)]
    sent = len(b"GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")
    assert b.proxy.record.uses == {"example.org:80": HostUse(connections=1, sent=sent, received=len(OK))}
    assert b.refusals == []


async def test_a_tunnel_carries_bytes_both_ways_and_ends_with_the_server() -> None:
    async with listening(echo) as server, bench(ORG, Net(NAMES, server.port)) as b, asyncio.timeout(60):
        reader, writer = await b.connected()
        writer.write(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\nfirst")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        assert await reader.readexactly(5) == b"first"
        data = os.urandom(3_000_000)
        writer.write(data)
        assert await reader.readexactly(len(data)) == data
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
    use = b.proxy.record.uses["example.org:443"]
    assert (use.sent, use.received) == (3_000_005, 3_000_005)


async def test_the_server_gets_the_request_as_the_proxy_understood_it() -> None:
    heads: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(3))
        writer.write(OK)

    async with listening(keep) as server, bench(ORG, Net(NAMES, server.port)) as b:
        await b.ask(
            "POST http://EXAMPLE.org.:80 HTTP/1.1\r\nHost: example.org\r\nProxy-Connection: keep-alive\r\n"
            "Connection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\nProxy-Authorization: Basic eDp5\r\n"
            "Content-Length: 3\r\n\r\nabc"
        )
    assert heads == [
        b"POST / HTTP/1.1\r\nHost: example.org\r\nX-Kept: 2\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
    ]


async def test_chunks_are_written_anew_and_a_second_request_behind_them_is_not_passed_on() -> None:
    got: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        got.append(head + await reader.readuntil(b"0\r\n\r\n"))
        writer.write(OK)
        await writer.drain()
        writer.write_eof()
        got.append(await reader.read())

    async with listening(keep) as server, bench(ORG, Net(NAMES, server.port)) as b:
        answer = await b.ask(
            "POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
            "5;ext=1\r\nhello\r\n0\r\nTrailer: 1\r\n\r\nGET http://evil.example/ HTTP/1.1\r\n\r\n"
        )
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert got[0].endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert b"Trailer" not in got[0]
    assert got[1:] == [b""]


async def test_a_refusal_is_said_in_the_answer_in_its_first_line_and_to_the_callback_once() -> None:
    net = Net(NAMES)
    async with bench(ORG, net) as b:
        answers = [await b.ask("CONNECT evil.example:443 HTTP/1.1\r\n\r\n") for _ in range(3)]
    head, _, body = answers[0].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 Forbidden by agent-fabric - evil.example is not among the hosts")
    assert b"example.org" in body
    assert b"`egress.allow_domains`" in body
    assert len(set(answers)) == 1
    assert [(r.host, r.port) for r in b.refusals] == [("evil.example", 443)]
    assert b.proxy.record.refused == 3
    assert net.looked_up == [], "a name that is not allowed is not even looked up"


@pytest.mark.parametrize(
    ("names", "expected", "words"),
    [({}, 502, b"cannot be reached: Name or service not known"), (NAMES, 502, b"Connection refused")],
)
async def test_a_server_that_cannot_be_reached_is_said(
    names: dict[str, list[str]], expected: int, words: bytes
) -> None:
    async with bench(ORG, Net(names)) as b:
        answer = await b.get("http://example.org/")
    assert status(answer) == expected
    assert words in answer


async def test_what_is_no_http_from_the_server_is_said() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")

    async with listening(rude) as server, bench(ORG, Net(NAMES, server.port)) as b:
        assert status(await b.get("http://example.org/")) == 502


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_client_that_never_finishes_its_request_is_sent_away() -> None:
    async with bench(ORG, Net(NAMES), limits=EgressLimits(head_s=0.05)) as b:
        assert status(await b.ask(b"GET http://example.org/ HTTP/1.1\r\nX: ")) == 408


async def test_a_head_that_is_too_long_is_sent_away() -> None:
    async with bench(ORG, Net(NAMES), limits=EgressLimits(head_bytes=2_000)) as b:
        assert status(await b.ask(b"GET http://example.org/ HTTP/1.1\r\nX: " + b"a" * 100_000)) == 431


async def test_too_many_connections_are_told_to_come_back() -> None:
    async with bench(ORG, Net(NAMES), limits=EgressLimits(connections=2)) as b, asyncio.timeout(60):
        held = [await b.connected() for _ in range(2)]
        assert status(await b.get("http://example.org/")) == 503
        for _, writer in held:
            writer.close()


async def test_a_server_that_says_nothing_is_left() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    limits = EgressLimits(idle_s=0.05)
    async with listening(silent) as server, bench(ORG, Net(NAMES, server.port), limits=limits) as b:
        assert await b.get("http://example.org/") == b""


async def test_when_the_bytes_are_used_up_the_stream_ends_and_nothing_more_goes_out() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 10_000)
            await writer.drain()

    limits = EgressLimits(max_bytes=200_000)
    async with listening(endless) as server, bench(ORG, Net(NAMES, server.port), limits=limits) as b:
        assert len(await b.get("http://example.org/")) <= 200_000
        answer = await b.get("http://example.org/")
    assert status(answer) == 403
    assert b"200,000 bytes" in answer
    assert server.connections == 1


async def test_ending_the_proxy_ends_its_connections_and_removes_its_socket() -> None:
    async with listening(echo) as server, asyncio.timeout(60):
        async with bench(ORG, Net(NAMES, server.port)) as b:
            reader, writer = await b.connected()
            writer.write(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            path = b.proxy.socket_path
        assert await reader.read() == b""
        writer.close()
    assert not path.exists()
    assert not path.parent.exists()


# ── who may use it ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_socket_is_for_its_owner_alone() -> None:
    owner = 1001 if os.getuid() == 0 else os.getuid()
    async with bench(ORG, Net(NAMES), socket_owner=owner) as b:
        folder, sock = b.proxy.socket_path.parent.stat(), b.proxy.socket_path.stat()
    assert (folder.st_uid, sock.st_uid) == (owner, owner)
    assert stat.S_IMODE(folder.st_mode) == 0o700
    assert stat.S_IMODE(sock.st_mode) == 0o600


async def test_the_loopback_port_wants_its_password() -> None:
    async with listening() as server:
        net = Net(NAMES, server.port)
        async with EgressProxy(ORG, loopback=True, lookup=net.lookup, connect=net.connect) as proxy:

            def ask(password: str) -> int:
                userinfo = f"{USER}:{password}@" if password else ""
                handler = urllib.request.ProxyHandler({"http": f"http://{userinfo}127.0.0.1:{proxy.port}"})
                try:
                    with urllib.request.build_opener(handler).open("http://example.org/", timeout=10) as answer:
                        return int(answer.status)
                except urllib.error.HTTPError as problem:
                    problem.close()
                    return problem.code

            statuses = [await asyncio.to_thread(ask, password) for password in ("", "guess", proxy.credential)]
    assert statuses == [407, 407, 200]
    assert server.connections == 1


@pytest.mark.proves("A33-085")
async def test_a_host_off_the_allowlists_of_an_agent_is_refused_whatever_else_is_allowed() -> None:
    policy = browser_policy(
        BrowserConfig(), ("cdn.example",), (Allowlists(domains=("example.org",), owner="the agent a"),)
    )
    async with listening() as server:
        names = {"example.org": [PUBLIC], "other.example": [PUBLIC], "cdn.example": [PUBLIC]}
        async with bench(policy, Net(names, server.port)) as b:
            assert status(await b.get("http://example.org/")) == 200
            for host in ("other.example", "cdn.example"):
                answer = await b.get(f"http://{host}/script.js")
                assert status(answer) == 403
                assert b"not on the domain allowlist of the agent a" in answer
