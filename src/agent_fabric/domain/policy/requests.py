"""HTTP requests, as the policy sees them: which of them read, and which send something out."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from agent_fabric.domain.secrets.references import secrets_in

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_HEADER_CHARS: Final = 200
"""A name or a version fits in; more would carry data."""
_OTHER_METHOD: Final = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
"""Headers by which many servers take a request for one of another method."""


class Request(NamedTuple):
    """What matters about a request."""

    url: str
    """The whole address, with what its query adds."""
    sends: str
    """The method, if the request sends something; empty: it only reads."""


def request_from(args: Mapping[str, Any], *, url_argument: str, method_argument: str) -> Request:
    """Return what a call of an HTTP tool asks for.

    Reading carries nothing but an address: no body, no secret, no other method, and no more in its headers than a name
    or a version.
    """
    has_body = "json" in args or any(args.get(name) is not None for name in ("body", "form"))
    method = str(args.get(method_argument) or ("POST" if has_body else "GET")).upper()
    headers = args.get("headers")
    given = headers if isinstance(headers, Mapping) else {}
    carried = sum(len(str(part)) for pair in given.items() for part in pair)
    reads = (
        method in _READING
        and not has_body
        and carried <= MAX_HEADER_CHARS
        and _OTHER_METHOD.isdisjoint(str(name).strip().lower() for name in given)
        and not secrets_in(args)
    )
    return Request(_whole(str(args.get(url_argument, "")), args.get("query")), "" if reads else method)


def _whole(url: str, query: Any) -> str:
    if not isinstance(query, Mapping) or not query:
        return url
    before, mark, fragment = url.partition("#")
    joint = "&" if "?" in before else "?"
    return f"{before}{joint}{urlencode(query, doseq=True, errors='replace')}{mark}{fragment}"
