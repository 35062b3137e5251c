"""Which addresses may be reached, however they are written."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent_fabric.application.ports.web import WebError
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard, is_own, is_public, spelled_address
from agent_fabric.infrastructure.web.fetch import HttpPageFetcher
from effort import examples

PRIVATE_V4 = [
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
        *("192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32", "203.0.113.0/24"),
    )
]
PRIVATE_V6 = [
    IPv6Network(text)
    for text in (
        *("::/128", "::1/128", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "100::/64", "2001:db8::/32"),
        *("2001::/32", "64:ff9b:1::/48", "5f00::/16", "::/96"),
    )
]


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "192.169.0.1", "223.255.255.255"),
        *("2606:4700::1111", "2a00:1450:4001:80b::200e", "64:ff9b::808:808", "2002:808:808::1"),
    ],
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "0.0.0.0", "10.0.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.100.100.200"),
        *("192.0.0.192", "168.63.129.16", "224.0.0.1", "255.255.255.255", "198.18.0.1"),
        *("::", "::1", "::127.0.0.1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fd00:ec2::254", "ff02::1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:c0a8:101::1"),
        *("2001:0:808:808::1", "2001:db8::1", "::ffff:0:127.0.0.1"),
    ],
)
def test_an_address_of_this_machine_or_a_private_network_is_not(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0x7f.0.0.0x1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("10.65535", "10.0.255.255"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:7f00:1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
    ],
)
def test_an_address_is_recognised_however_it_is_written(host: str, address: str) -> None:
    assert spelled_address(host) == ip_address(address)


@pytest.mark.parametrize("host", ["example.org", "a1", "1a", "0x7g", "127.0.0.1.nip.io", "x.0.y", "", "localhost"])
def test_a_name_is_no_address(host: str) -> None:
    assert spelled_address(host) is None


@pytest.mark.parametrize("host", ["256.0.0.1", "1.2.3.4.5", "08", "1..2", "+1.1", "1_0.1", "4294967296", "::g", "a.1"])
def test_what_only_looks_like_an_address_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        spelled_address(host)


def guard(*allow_hosts: str, answers: Sequence[str] = ("10.1.2.3",)) -> AddressGuard:
    async def lookup(host: str, port: int) -> Sequence[str]:
        return answers

    return AddressGuard(allow_hosts, lookup)


@pytest.mark.parametrize(
    ("allowed", "host", "port"),
    [
        ("wiki.corp", "wiki.corp", 80),
        ("wiki.corp", "wiki.corp.", 443),
        ("Wiki.Corp.", "WIKI.corp", 80),
        ("wiki.corp:8080", "wiki.corp", 8080),
        ("10.1.2.3", "wiki.corp", 80),
        ("10.1.2.3:80", "wiki.corp", 80),
        ("10.0.0.0/8", "wiki.corp", 80),
    ],
)
async def test_an_allowed_host_may_be_private(allowed: str, host: str, port: int) -> None:
    assert await guard(allowed).resolve(host, port) == [ip_address("10.1.2.3")]


@pytest.mark.parametrize(
    ("allowed", "host", "port"),
    [
        ("wiki.corp", "evil.example", 80),
        ("wiki.corp", "x.wiki.corp", 80),
        ("wiki.corp", "wiki.corp.evil.example", 80),
        ("wiki.corp:8080", "wiki.corp", 80),
        ("10.1.2.4", "wiki.corp", 80),
        ("10.1.2.3:81", "wiki.corp", 80),
        ("192.168.0.0/16", "wiki.corp", 80),
        ("fd00::/8", "wiki.corp", 80),
    ],
)
async def test_what_allows_one_host_allows_no_other(allowed: str, host: str, port: int) -> None:
    with pytest.raises(PermissionError, match=r"web\.allow_hosts"):
        await guard(allowed).resolve(host, port)


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(PermissionError, match=r"two\.example"):
        await guard(answers=["93.184.216.34", "2606:4700::1111", "::ffff:10.0.0.1"]).resolve("two.example", 80)


async def test_an_allowed_network_does_not_excuse_another_address_of_the_same_name() -> None:
    with pytest.raises(PermissionError):
        await guard("10.0.0.0/8", answers=["10.0.0.1", "127.0.0.1"]).resolve("two.example", 80)


async def test_a_name_without_addresses_does_not_exist() -> None:
    with pytest.raises(OSError, match="no address"):
        await guard(answers=[]).resolve("none.example", 80)


async def test_the_same_address_is_tried_once() -> None:
    assert await guard(answers=["1.1.1.1", "1.1.1.1"]).resolve("a.example", 80) == [ip_address("1.1.1.1")]


# ── any spelling ──────────────────────────────────────────────────────────────────────────────────────────────────────

unhurried = settings(deadline=None)

private_v4 = st.sampled_from(PRIVATE_V4).flatmap(lambda network: st.ip_addresses(v=4, network=network))
private_v6 = st.sampled_from(PRIVATE_V6).flatmap(lambda network: st.ip_addresses(v=6, network=network))


@st.composite
def v4_spellings(draw: st.DrawFn) -> str:
    """An IPv4 address in one to four numbers, each decimal, octal or hexadecimal, perhaps in wide digits."""
    address, parts = int(draw(private_v4)), draw(st.integers(1, 4))
    heads = [address >> 8 * (3 - place) & 255 for place in range(parts - 1)]
    numbers = [*heads, address & (256 ** (5 - parts) - 1)]
    formats = st.sampled_from(["{}", "0{:o}", "000{:o}", "0x{:x}", "0X{:X}", "0x000{:x}"])
    text = ".".join(draw(formats).format(number) for number in numbers) + draw(st.sampled_from(["", "."]))
    wide = str.maketrans(
        "0123456789.", draw(st.sampled_from(["0123456789.", "０１２３４５６７８９．", "0123456789。"]))
    )
    return text.translate(wide)


@st.composite
def v6_spellings(draw: st.DrawFn) -> str:
    """An IPv6 address, short or long; some of them wrap an IPv4 address."""
    wrapped = private_v4.map(int).flatmap(
        lambda v4: st.sampled_from([0xFFFF << 32 | v4, 0x64FF9B << 96 | v4, 0x2002 << 112 | v4 << 80, v4])
    )
    address = IPv6Address(draw(private_v6.map(int) | wrapped))
    mixed = f"{IPv6Address(int(address) >> 32 << 32).exploded[:30]}{IPv4Address(int(address) & 0xFFFF_FFFF)}"
    text = draw(st.sampled_from([str(address), address.exploded, address.exploded.upper(), mixed]))
    return f"[{text}]"


async def unreachable(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"{host} was looked up, although it is an address")


@unhurried
@given(
    host=v4_spellings() | v6_spellings(), scheme=st.sampled_from(["http", "https", "HTTP"]), port=st.integers(1, 65535)
)
def test_no_private_address_passes_in_any_spelling(host: str, scheme: str, port: int) -> None:
    fetcher = HttpPageFetcher(WebConfig(), AddressGuard(lookup=unreachable))
    with pytest.raises(PermissionError, match=r"web\.allow_hosts"):
        asyncio.run(fetcher.fetch(f"{scheme}://{host}:{port}/", timeout_s=5))


numbers = st.text("0123456789abcdefxX", min_size=1, max_size=5) | st.integers(0, 2**32).map(lambda n: f"{n:#x}")
numbers |= st.integers(0, 300).map(str) | st.integers(0, 300).map("0{:o}".format)
like_v4 = st.lists(numbers, min_size=1, max_size=5).map(".".join)
like_v6 = st.lists(st.sampled_from(["", "0", "1", "ffff", "64", "ff9b", "2002", "7f00"]), min_size=3, max_size=8)


@settings(max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(host=like_v4 | like_v6.map(":".join) | st.builds("{}:{}".format, like_v6.map(":".join), like_v4))
def test_what_the_system_takes_for_an_address_is_never_taken_for_a_name(host: str) -> None:
    try:
        found = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        assume(False)
    (system,) = {ip_address(str(address[0])) for *_, address in found}
    try:
        ours = spelled_address(host)
    except ValueError:
        return  # refused
    wrapped = system.ipv4_mapped if isinstance(system, IPv6Address) else None
    assert ours == (wrapped or system)


@unhurried
@given(answers=st.lists(st.ip_addresses(), min_size=1, max_size=4))
def test_a_name_passes_only_if_all_its_addresses_are_public(answers: list[IPv4Address | IPv6Address]) -> None:
    public = all(is_public(spelled_address(str(address)) or address) for address in answers)
    resolving = guard(answers=[str(address) for address in answers]).resolve("a.example", 80)
    if public:
        assert asyncio.run(resolving)
    else:
        with pytest.raises(PermissionError):
            asyncio.run(resolving)


@unhurried
@given(host=st.text(max_size=20))
def test_any_text_as_a_host_is_refused_looked_up_or_explained(host: str) -> None:
    looked_up: list[str] = []

    async def lookup(name: str, port: int) -> Sequence[str]:
        looked_up.append(name)
        return ["127.0.0.1"]

    fetcher = HttpPageFetcher(WebConfig(), AddressGuard(lookup=lookup))

    async def fetch() -> None:
        try:
            await fetcher.fetch(f"http://{host}/", timeout_s=5)
        finally:
            await fetcher.aclose()

    with pytest.raises((WebError, PermissionError)):
        asyncio.run(fetch())


def test_an_address_of_this_machine_is_refused_although_it_is_public() -> None:
    address = ip_address("93.184.215.14")
    guard = AddressGuard(is_own=lambda each: each == address)
    with pytest.raises(PermissionError, match="on this machine"):
        guard.check("example.org", 443, [address])
    guard.check("example.org", 443, [ip_address("93.184.215.15")])
    AddressGuard(["example.org"], is_own=lambda _: True).check("example.org", 443, [address])


def test_own_addresses_are_known_by_binding_to_them() -> None:
    assert is_own(ip_address("127.0.0.1"))
    assert not is_own(ip_address("93.184.215.14"))
    assert not is_own(ip_address("192.0.2.1"))
