"""Where a request comes from, as far as it can be believed."""

import pytest

from agent_fabric.interfaces.http.addresses import Addresses

pytestmark = pytest.mark.proves("A33-123")


def source(peer: str, *forwarded: str, trusted: tuple[str, ...] = ()) -> str:
    headers = [(b"host", b"x"), *((b"x-forwarded-for", each.encode()) for each in forwarded)]
    return Addresses(trusted).source({"type": "http", "client": (peer, 1234), "headers": headers})


def test_without_a_proxy_it_is_who_is_connected() -> None:
    assert source("203.0.113.7") == "203.0.113.7"


def test_who_is_not_a_proxy_of_ours_is_not_believed() -> None:
    assert source("203.0.113.7", "198.51.100.1") == "203.0.113.7"
    assert source("203.0.113.7", "198.51.100.1", trusted=("10.0.0.0/8",)) == "203.0.113.7"


def test_a_proxy_of_ours_is_believed() -> None:
    assert source("10.0.0.1", "198.51.100.1", trusted=("10.0.0.0/8",)) == "198.51.100.1"
    assert source("127.0.0.1", "198.51.100.1", trusted=("127.0.0.1",)) == "198.51.100.1"


@pytest.mark.parametrize("forwarded", [("1.1.1.1, 198.51.100.1",), ("1.1.1.1", "198.51.100.1"), ("x, 198.51.100.1",)])
def test_only_what_our_proxy_wrote_itself_is_believed(forwarded: tuple[str, ...]) -> None:
    assert source("10.0.0.1", *forwarded, trusted=("10.0.0.0/8",)) == "198.51.100.1"


def test_several_proxies_of_ours_are_looked_through() -> None:
    assert source("10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.9, 10.0.0.2", trusted=("10.0.0.0/8",)) == "198.51.100.1"


@pytest.mark.parametrize(
    "forwarded", ["", "unknown", "_hidden", "1.2.3", "999.1.1.1", "1.1.1.1, nonsense", "," * 9_000]
)
def test_nonsense_is_the_proxys_own(forwarded: str) -> None:
    assert source("10.0.0.1", forwarded, trusted=("10.0.0.0/8",)) == "10.0.0.1"


def test_addresses_with_ports_are_understood() -> None:
    assert source("10.0.0.1", "198.51.100.1:4711", trusted=("10.0.0.0/8",)) == "198.51.100.1"
    assert source("10.0.0.1", "[2001:db8::7]:4711", trusted=("10.0.0.0/8",)) == "2001:db8::/64"


def test_everybody_with_ipv6_has_a_whole_network_and_counts_as_one() -> None:
    assert source("2001:db8:1:2::1") == source("2001:db8:1:2:ffff::9") == "2001:db8:1:2::/64"
    assert source("2001:db8:1:3::1") != source("2001:db8:1:2::1")


def test_an_ipv4_address_is_the_same_however_it_is_written() -> None:
    assert source("::ffff:203.0.113.7") == "203.0.113.7"


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.9.9.9"])
def test_this_machines_own_programs_are_nobody_else(peer: str) -> None:
    assert source(peer) == ""


def test_what_a_proxy_on_this_machine_hands_on_is_not_this_machines_own() -> None:
    assert source("127.0.0.1", "198.51.100.1") == "127.0.0.1"
