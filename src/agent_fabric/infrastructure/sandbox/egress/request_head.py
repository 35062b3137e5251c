"""Reads the head of a proxy request, so strictly that no server can understand it differently.

What goes on to the server is written anew from what was understood; nothing is passed through unread.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.sandbox.egress.addresses import Endpoint, Malformed, endpoint_from

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_TARGET: Final = re.compile(rb"[\x21-\x7e]+")
_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,17}")
_ABSOLUTE: Final = re.compile(r"(?i:http)://([^/?#\\]*)([/?][^#]*)?")
_UNSPOKEN: Final = frozenset({b"TRACE", b"TRACK"})
"""Methods that send back what was sent, secrets included."""
_ONE_HOP: Final = frozenset(
    b"connection proxy-connection proxy-authorization proxy-authenticate keep-alive te trailer transfer-encoding "
    b"upgrade expect host content-length".split()
)
"""Headers that end here, or that are written anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """What a client asks the proxy for."""

    method: bytes
    version: bytes
    endpoint: Endpoint
    tunnel: bool
    """CONNECT: the proxy joins the two ends and reads nothing more."""
    target: bytes = b""
    """Path and query, for the server."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Those that are for the server."""
    length: int | None = 0
    """Bytes of the body; None: it comes in chunks."""
    awaits_continue: bool = False
    """The client sends the body when it is told to."""
    password: str = ""
    """What the client shows to the proxy."""

    def for_server(self) -> bytes:
        """Return the head as the server gets it: one request, then the connection ends."""
        default = self.endpoint.port == 80
        host = str(self.endpoint).removesuffix(":80") if default else str(self.endpoint)
        body = [(b"Transfer-Encoding", b"chunked")] if self.length is None else []
        if self.length or (self.length == 0 and self.method in (b"POST", b"PUT", b"PATCH")):
            body = [(b"Content-Length", str(self.length).encode())]
        fields = [(b"Host", host.encode()), *self.headers, *body, (b"Connection", b"close")]
        lines = [
            self.method + b" " + self.target + b" " + self.version,
            *(name + b": " + value for name, value in fields),
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n"


def read_head(data: bytes) -> ProxyRequest:
    """Read a head, up to and with its empty line.

    Raises:
        Malformed: it is not plainly one request.
    """
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3 or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Malformed("this is a proxy for HTTP/1.1; it got something else")
    method, target, version = parts
    if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
        raise Malformed("the first line of the request has characters that do not belong there")
    if method.upper() in _UNSPOKEN:
        raise Malformed(f"{method.decode()} is not passed on")
    headers = list(_headers(lines))
    length = _body_length(headers)
    if length is None and version == b"HTTP/1.0":
        raise Malformed("HTTP/1.0 has no chunks")
    awaits_continue, password = _expectation(headers), _password(headers)
    text = target.decode("ascii")
    if method == b"CONNECT":
        endpoint = endpoint_from(text)
        _require_same_host(headers, endpoint)
        if length != 0:
            raise Malformed("a CONNECT has no body")
        return ProxyRequest(method=method, version=version, endpoint=endpoint, tunnel=True, password=password)
    absolute = _ABSOLUTE.fullmatch(text)
    if absolute is None:
        raise Malformed(f"only CONNECT and http:// addresses are passed on, not {text[:80]!r}")
    endpoint = endpoint_from(absolute[1], default_port=80)
    _require_same_host(headers, endpoint)
    path = absolute[2] or "/"
    return ProxyRequest(
        method=method,
        version=version,
        endpoint=endpoint,
        tunnel=False,
        target=(path if path.startswith("/") else f"/{path}").encode("ascii"),
        headers=tuple(_for_server(headers)),
        length=length,
        awaits_continue=awaits_continue,
        password=password,
    )


def answer_head(data: bytes) -> tuple[int, bytes]:
    """Return the status of a server's answer, and its head as the client gets it: the connection ends with it.

    Raises:
        Malformed: it is no answer.
    """
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = re.fullmatch(rb"HTTP/1\.[01] ([1-5][0-9]{2})( [\t\x20-\x7e\x80-\xff]*)?", first)
    if found is None:
        raise Malformed("the server sent something that is not HTTP/1.1")
    kept = [(name, value) for name, value in _headers(lines) if name.lower() not in _ONE_CONNECTION]
    fields = [*kept, (b"Connection", b"close")] if int(found[1]) >= 200 else kept
    return int(found[1]), b"\r\n".join([first, *(name + b": " + value for name, value in fields)]) + b"\r\n\r\n"


_ONE_CONNECTION: Final = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"upgrade"})


def _headers(lines: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Malformed("a header is not written as HTTP/1.1 has it")
        yield name, value.strip(b" \t")


def _values(headers: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name.lower() == wanted]


def _body_length(headers: list[tuple[bytes, bytes]]) -> int | None:
    lengths, encodings = _values(headers, b"content-length"), _values(headers, b"transfer-encoding")
    if len(lengths) + len(encodings) > 1:
        raise Malformed("the request says more than once how long it is")
    if encodings:
        if encodings[0].lower() != b"chunked":
            raise Malformed("the only Transfer-Encoding that is passed on is chunked")
        return None
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise Malformed("the Content-Length is no number")
    return int(lengths[0]) if lengths else 0


def _expectation(headers: list[tuple[bytes, bytes]]) -> bool:
    expected = _values(headers, b"expect")
    if expected and [value.lower() for value in expected] != [b"100-continue"]:
        raise Malformed("the only Expect that is understood is 100-continue")
    return bool(expected)


def _require_same_host(headers: list[tuple[bytes, bytes]], endpoint: Endpoint) -> None:
    hosts = _values(headers, b"host")
    if len(hosts) > 1:
        raise Malformed("the request has more than one Host header")
    for host in hosts:
        named = endpoint_from(host.decode("latin-1"), default_port=endpoint.port)
        if named != endpoint:
            raise Malformed(f"the request is for {endpoint}, but its Host header says {named}")


def _password(headers: list[tuple[bytes, bytes]]) -> str:
    shown = _values(headers, b"proxy-authorization")
    if len(shown) > 1:
        raise Malformed("the request has more than one Proxy-Authorization header")
    scheme, _, encoded = (shown[0] if shown else b"").partition(b" ")
    if scheme.lower() != b"basic":
        return ""
    try:
        return base64.b64decode(encoded.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _for_server(headers: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    listed = b",".join(_values(headers, b"connection")).lower().split(b",")
    dropped = _ONE_HOP | {name.strip() for name in listed}
    for name, value in headers:
        if name.lower() not in dropped:
            yield name, value
