"""No trick makes the proxy open a connection that was not checked: counted at the listener and at every dial."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from agent_fabric.infrastructure.sandbox.egress.addresses import Endpoint, Malformed, endpoint_from, is_public
from agent_fabric.infrastructure.sandbox.egress.policy import EgressPolicy, covers
from effort import examples
from integration.egress.wire import PUBLIC, Net, at, bench, listening, status

ANY = EgressPolicy(allow_domains=None, ports=None)
"""As the browser has it: everything that is public."""
LISTED = EgressPolicy(allow_domains=("example.org", "*.example.org", "93.184.216.34"))
NAMES = {"example.org": [PUBLIC], "www.example.org": [PUBLIC], "evil.example": [PUBLIC]}

PRIVATE = [
    *("127.0.0.1", "127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "0", "localhost"),
    *("10.0.0.1", "172.16.5.4", "192.168.1.1", "100.64.0.1", "169.254.169.254", "168.63.129.16", "192.0.0.192"),
    *("224.0.0.1", "255.255.255.255", "198.18.0.1"),
    *("[::1]", "[::]", "[fe80::1]", "[fd00::1]", "[fd00:ec2::254]", "[ff02::1]"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]", "[::a00:1]"),
    *(
        "[64:ff9b::7f00:1]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::a00:1]",
        "[2002:7f00:1::]",
        "[2002:a9fe:a9fe::1]",
    ),
    *("[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "[2001:db8::1]"),
]


@pytest.mark.parametrize("host", PRIVATE)
@pytest.mark.parametrize(
    "form", ["CONNECT {host}:{port} HTTP/1.1\r\n\r\n", "GET http://{host}:{port}/ HTTP/1.1\r\n\r\n"]
)
async def test_what_only_this_machine_can_see_is_not_dialled_in_any_spelling(host: str, form: str) -> None:
    async with listening() as secret:
        net = Net({"localhost": ["127.0.0.1", "::1"]}, secret.port)
        async with bench(ANY, net) as b:
            answer = await b.ask(form.format(host=host, port=secret.port))
    assert status(answer) == 403
    assert net.dialled == []
    assert secret.connections == 0
    assert len(b.refusals) == 1


@pytest.mark.parametrize("answers", [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["::ffff:169.254.169.254"], ["fe80::1%lo"]])
async def test_an_allowed_name_that_leads_to_a_private_address_is_refused(answers: list[str]) -> None:
    async with listening() as secret:
        net = Net({"example.org": answers}, secret.port)
        async with bench(LISTED, net) as b:
            answer = await b.get("http://example.org/")
    assert status(answer) == 403
    assert b"`egress.allow_hosts`" in answer
    assert (net.dialled, secret.connections) == ([], 0)


async def test_a_name_that_turns_private_after_the_check_is_dialled_where_it_was_checked() -> None:
    asked: list[str] = []

    async def fickle(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.2"] if len(asked) == 1 else ["127.0.0.1"]

    async with listening() as secret, listening(host="127.0.0.2", port=secret.port) as stands_for_public:
        policy = EgressPolicy(allow_domains=("rebind.example",), ports=None, allow_hosts=("127.0.0.2",))
        async with bench(policy, lookup=fickle) as b:
            answers = [await b.get(f"http://rebind.example:{secret.port}/") for _ in range(3)]
    assert [status(answer) for answer in answers] == [200, 403, 403]
    assert len(asked) == 3, "one lookup for each connection"
    assert (stands_for_public.connections, secret.connections) == (1, 0)


async def test_a_redirect_is_for_the_client_to_follow_and_checked_like_any_request() -> None:
    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n")

    async with listening(elsewhere) as server:
        net = Net(NAMES, server.port)
        async with bench(LISTED, net) as b:
            first = await b.get("http://example.org/")
            followed = await b.get("http://169.254.169.254/latest")
    assert (status(first), status(followed)) == (302, 403)
    assert net.dialled == [(PUBLIC, 80)]


TRICKS = [
    # two hosts in one
    "GET http://example.org@evil.example/ HTTP/1.1\r\n\r\n",
    "GET http://example.org:80@evil.example/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example\\@example.org/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example#@example.org/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example\0.example.org/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example%00.example.org/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example%2eexample.org/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example%20.example.org/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example,.example.org/ HTTP/1.1\r\n\r\n",
    "GET http://example.org..evil.example/ HTTP/1.1\r\n\r\n",
    "GET http://example.org../ HTTP/1.1\r\n\r\n",
    "GET http://.example.org/ HTTP/1.1\r\n\r\n",
    "GET http:///example.org/ HTTP/1.1\r\n\r\n",
    "GET http://ex\xe4mple.org/ HTTP/1.1\r\n\r\n",
    "GET http://example\xe3\x80\x82org/ HTTP/1.1\r\n\r\n",
    "GET http://xn--example-.org/ HTTP/1.1\r\n\r\n",
    "GET http://[::1%25lo]/ HTTP/1.1\r\n\r\n",
    "GET http://[::1]evil/ HTTP/1.1\r\n\r\n",
    "GET http://[example.org]/ HTTP/1.1\r\n\r\n",
    "CONNECT evil.example\0.example.org:443 HTTP/1.1\r\n\r\n",
    "CONNECT example.org:443@evil.example:443 HTTP/1.1\r\n\r\n",
    "CONNECT http://example.org:443 HTTP/1.1\r\n\r\n",
    "CONNECT example.org HTTP/1.1\r\n\r\n",
    # ports
    "CONNECT example.org:22 HTTP/1.1\r\n\r\n",
    "CONNECT example.org:0443 HTTP/1.1\r\n\r\n",
    "CONNECT example.org:+443 HTTP/1.1\r\n\r\n",
    "CONNECT example.org:443:22 HTTP/1.1\r\n\r\n",
    "CONNECT example.org:65979 HTTP/1.1\r\n\r\n",
    "CONNECT example.org:4_43 HTTP/1.1\r\n\r\n",
    "CONNECT example.org: HTTP/1.1\r\n\r\n",
    "GET http://example.org:25/ HTTP/1.1\r\n\r\n",
    # one thing said twice
    "GET http://example.org/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\nHost: evil.example\r\n\r\n",
    "GET http://example.org/ HTTP/1.1\r\nHost: example.org:8080\r\n\r\n",
    "CONNECT example.org:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "POST http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "POST http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    "POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "POST http://example.org/ HTTP/1.1\r\nContent-Length: +1\r\n\r\na",
    "POST http://example.org/ HTTP/1.1\r\nContent-Length: 1,1\r\n\r\na",
    "POST http://example.org/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "CONNECT example.org:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    # lines that are read differently by others
    "GET http://example.org/ HTTP/1.1\nHost: example.org\r\n\r\n",
    "GET http://example.org/ HTTP/1.1\r\nX: a\nHost: evil.example\r\n\r\n",
    "GET http://example.org/ HTTP/1.1\r\nX: a\rHost: evil.example\r\n\r\n",
    "GET http://example.org/ HTTP/1.1\r\n folded: x\r\n\r\n",
    "GET http://example.org/ HTTP/1.1\r\nX: a\0b\r\n\r\n",
    "GET http://example.org/ HTTP/1.1\r\nno colon\r\n\r\n",
    "GET  http://example.org/ HTTP/1.1\r\n\r\n",
    "GET http://example.org/ http://evil.example/ HTTP/1.1\r\n\r\n",
    "GET http://example.org/\thttp://evil.example/ HTTP/1.1\r\n\r\n",
    "GET http://example.org/ HTTP/2.0\r\n\r\n",
    "GET http://example.org/\r\n\r\n",
    # what is not for a proxy
    "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "GET https://example.org/ HTTP/1.1\r\n\r\n",
    "GET ftp://example.org/ HTTP/1.1\r\n\r\n",
    "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "TRACE http://example.org/ HTTP/1.1\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\n",
    "\x05\x01\x00\r\n\r\n",
]


@pytest.mark.parametrize("request_text", TRICKS)
async def test_what_could_be_understood_in_two_ways_goes_nowhere(request_text: str) -> None:
    async with listening() as server:
        net = Net(NAMES, server.port)
        async with bench(LISTED, net) as b:
            answer = await b.ask(request_text)
    assert status(answer) == 403, answer
    assert answer.partition(b"\r\n\r\n")[2].startswith(b"agent-fabric did not make this connection: ")
    assert (net.looked_up, net.dialled, server.connections) == ([], [], 0)
    assert len(b.refusals) == 1


@pytest.mark.parametrize(
    "request_text",
    [
        "GET http://EXAMPLE.ORG/ HTTP/1.1\r\nhost: Example.Org.:80\r\n\r\n",
        "GET http://example.org.:80?q HTTP/1.0\r\n\r\n",
        "GET http://www.example.org/ HTTP/1.1\r\nHost: www.example.org\r\n\r\n",
        "GET HTTP://0x5db8d822/ HTTP/1.1\r\n\r\n",
        "GET http://[::ffff:93.184.216.34]/ HTTP/1.1\r\n\r\n",
    ],
)
async def test_every_plain_way_to_say_an_allowed_host_leads_to_the_address_that_was_checked(request_text: str) -> None:
    async with listening() as server:
        net = Net(NAMES, server.port)
        async with bench(LISTED, net) as b:
            assert status(await b.ask(request_text)) == 200
    assert net.dialled == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    ("allowed", "host", "port", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", 0, 200),
        ("127.0.0.1:{port}", "127.0.0.1", 0, 200),
        ("registry.corp", "registry.corp", 0, 200),
        ("registry.corp", "REGISTRY.corp.", 0, 200),
        ("registry.corp:1", "registry.corp", 0, 403),
        ("registry.corp", "x.registry.corp", 0, 403),
        ("127.0.0.0/8", "registry.corp", 0, 403),  # the network is allowed, the name is not
        ("localhost", "127.0.0.1", 0, 403),
    ],
)
async def test_a_private_host_is_reached_only_if_it_is_named(allowed: str, host: str, port: int, expected: int) -> None:
    async with listening() as server:
        policy = EgressPolicy(allow_hosts=(allowed.format(port=server.port),))
        names = {name: ["127.0.0.1"] for name in ("registry.corp", "x.registry.corp", "localhost")}
        async with bench(policy, lookup=Net(names).lookup) as b:
            assert status(await b.get(f"http://{host}:{server.port}/")) == expected
    assert server.connections == (expected == 200)


# ── anything at all ───────────────────────────────────────────────────────────────────────────────────────────────────

names = st.from_regex(r"[a-z0-9_]([a-z0-9_-]{0,6}[a-z0-9_])?", fullmatch=True)
pieces = st.sampled_from(
    [
        *("example.org", "evil.example", "www.", "localhost", "127.0.0.1", "0x7f.1", "2130706433", "::1", "::ffff:"),
        *("@", ":", "/", "\\", "#", "?", "%00", "\0", "[", "]", ".", "..", " ", "\t", "\r", "\n", "\xff", "xn--"),
        *(":80", ":443", ":22"),
    ]
)
plain = st.sampled_from(["example.org", "www.example.org", "EXAMPLE.org.", "evil.example", PUBLIC, "example.org:443"])
authorities = plain | st.lists(pieces | names, min_size=1, max_size=5).map("".join)
answers = st.just([PUBLIC]) | st.lists(
    st.ip_addresses().map(str) | st.sampled_from([PUBLIC, "127.0.0.1", "10.0.0.1"]), max_size=3
)
forms = st.sampled_from(
    [
        "GET http://{a}/ HTTP/1.1\r\n\r\n",
        "GET http://{a}/ HTTP/1.1\r\nHost: {b}\r\n\r\n",
        "GET http://{a}/ HTTP/1.1\r\nHost: {a}\r\n\r\n",
        "CONNECT {a} HTTP/1.1\r\n\r\n",
        "CONNECT {a}:443 HTTP/1.1\r\nHost: {b}\r\n\r\n",
        "{a}",
    ]
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(form=forms, a=authorities, b=authorities, found=answers, listed=st.booleans())
def test_whatever_is_asked_only_checked_addresses_are_dialled(
    form: str, a: str, b: str, found: list[str], listed: bool
) -> None:
    """Dialled ⊆ answers of the one lookup of a permitted name, or a permitted literal; never a private one."""
    checked: list[str] = []

    class Everywhere(Net):
        async def lookup(self, host: str, port: int) -> Sequence[str]:
            checked.append(host)
            return found

    async def ask() -> tuple[bytes, Net]:
        async with listening() as server:
            net = Everywhere({}, server.port)
            async with bench(LISTED if listed else ANY, net) as running:
                reader, writer = await running.connected()
                writer.write(form.format(a=a, b=b).encode("latin-1"))
                writer.write_eof()
                async with asyncio.timeout(60):
                    answer = await reader.read(12)
                writer.close()
            return answer, net

    answer, net = asyncio.run(ask())
    event("dialled" if net.dialled else "refused")
    assert len(checked) <= 1
    for address, port in net.dialled:
        assert is_public(ip_address(address))
        if checked:
            assert address in {str(_unwrapped(text)) for text in found}
        if listed:
            assert port in (80, 443)
            host = checked[0] if checked else address
            assert any(covers(domain, host) for domain in LISTED.allow_domains or ())
    if not net.dialled:
        assert not answer.startswith(b"HTTP/1.1 200")


def _unwrapped(text: str) -> object:
    address = ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


@settings(max_examples=examples(300), deadline=None)
@given(text=authorities | st.text(max_size=30))
def test_an_accepted_host_has_one_form_that_every_reader_understands_alike(text: str) -> None:
    try:
        endpoint = endpoint_from(text, default_port=80)
    except Malformed:
        return
    assert endpoint_from(str(endpoint)) == endpoint
    assert endpoint_from(at(*endpoint).upper()) == endpoint
    seen = urlsplit(f"http://{endpoint}/")
    assert (seen.hostname, seen.port, seen.username) == (endpoint.host, endpoint.port, None)
    assert isinstance(endpoint, Endpoint)
