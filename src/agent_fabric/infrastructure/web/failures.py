"""What went wrong with a page, in words for the model: what happened, and what to do instead."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError
from yarl import URL

from agent_fabric.application.ports.web import WebError
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.infrastructure.web.extract import ContentKind, kind_of, read, settle_type
from agent_fabric.infrastructure.web.sessions import read_up_to, reason_of, tls_failure

_ERROR_BYTES: Final = 64 * 1024
_QUOTED_CHARS: Final = 300
"""How much of an error page the model is told."""
_ADVICE: Final = {
    401: "It wants a login. Use another source.",
    403: "It keeps programs out. Use another source.",
    404: "There is no such page. Check the address, or search for the page.",
    410: "The page was removed. Use another source.",
    429: "It wants fewer requests. Use another source, or try again later.",
    451: "It may not be shown for legal reasons. Use another source.",
}


async def refusal(url: URL, response: aiohttp.ClientResponse, content_type: str, charset: str) -> WebError:
    """Say that a server refused, and how it put it."""
    body, _ = await read_up_to(response, _ERROR_BYTES)
    content_type = settle_type(content_type, body, charset)
    said = ""
    if kind_of(content_type) is not ContentKind.OTHER:
        reading = await on_own_thread(lambda: read(body, content_type, charset))
        said = " ".join(f"{reading.title} {reading.text}".split())[:_QUOTED_CHARS]
    otherwise = "Use another source, or try again later." if response.status >= 500 else "Use another source."
    advice = _ADVICE.get(response.status, otherwise)
    reason = f" {response.reason}" if response.reason else ""
    return WebError(
        f"{short_url(url)} answered {response.status}{reason}. {advice}" + (f" It said: {said}" if said else "")
    )


def unreadable(url: URL, content_type: str, size: int | None) -> WebError:
    """Say that a content is nothing to read."""
    name = "a PDF" if content_type == "application/pdf" else "not text"
    length = "of unknown size" if size is None else f"{size:,} bytes"
    return WebError(
        f"{short_url(url)} is {name} ({content_type}, {length}) and cannot be read. "
        "Look for the same content as a web page, such as its abstract or its HTML version."
    )


@contextmanager
def explain_failures(url: URL) -> Iterator[None]:
    """Turn what aiohttp raises into words for the model."""
    host = url.host or ""
    try:
        yield
    except aiohttp.ClientConnectorDNSError as problem:
        if isinstance(problem.os_error, PermissionError):
            raise problem.os_error from None
        raise WebError(f"There is no host {host!r}. Check the address, or search for the page.") from None
    except aiohttp.ClientConnectorSSLError as problem:
        raise WebError(f"{tls_failure(problem, f'{host}:{url.port}')}. Use another source.") from None
    except aiohttp.ClientConnectorCertificateError as problem:
        raise WebError(f"The certificate of {host!r} is not trusted: {_reason(problem)}. Use another source.") from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
        raise WebError(
            f"No server answers at {host}:{url.port}: {_reason(problem)}. Use another source, or try again later."
        ) from None
    except (aiohttp.ClientError, HttpProcessingError, ValueError, OSError) as problem:
        if isinstance(problem, TimeoutError):
            raise
        if isinstance(problem, ContentEncodingError) or isinstance(problem.__cause__, ContentEncodingError):
            raise WebError(
                f"{short_url(url)} sent compressed content that is broken and cannot be unpacked. Use another source."
            ) from None
        raise WebError(f"{short_url(url)} sent no usable answer: {_reason(problem)}. Use another source.") from None


def short_url(url: URL) -> str:
    """Return an address as it is shown: a very long one is cut."""
    text = str(url)
    return text if len(text) <= 200 else text[:200] + "…"


def _reason(problem: BaseException) -> str:
    return problem.message.strip() if isinstance(problem, HttpProcessingError) else reason_of(problem)
