"""Mirror that is one file at a web address.

A download that broke off continues where it was, if the server can do that; whether the file changed in the meantime is
decided by the server's tag when it gives one, and by the hash of the whole in any case.
"""

import asyncio
import re
import ssl
from dataclasses import field
from typing import Final

import aiohttp
from yarl import URL

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.models.weights.catalogue import HubFile
from agent_fabric.infrastructure.models.weights.mirrors import (
    CHUNK_BYTES,
    MirrorFailed,
    PartFile,
    Progress,
    until_cancelled,
)
from agent_fabric.infrastructure.web.sessions import reason_of

_MAGIC: Final = b"GGUF"
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,20})-\d{1,20}/(\d{1,20}|\*)")
_STRONG_TAG: Final = re.compile(r'"[\x21\x23-\x7e]{1,200}"')
_MAX_REDIRECTS: Final = 10


class _BrokeOff(Exception):
    """The server stopped in the middle, or was too busy; the same again may help."""


_TRANSIENT: Final = (_BrokeOff, aiohttp.ClientPayloadError, aiohttp.ServerConnectionError, aiohttp.ClientOSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubMirror:
    """Mirror over HTTP. Proxies come from the environment, and so do the authorities to trust."""

    source: HubFile
    connect_timeout_s: float = 5.0
    """Short: without a way to the outside, the next mirror must get its turn soon."""
    read_timeout_s: float = 20.0
    """How long a server may say nothing in the middle of an answer."""
    tries: int = 3
    """How often in a row to try without getting anything worth mentioning."""
    retry_pause_s: float = 1.0
    key: str = field(default="hub", init=False)
    working_bytes: int = field(default=0, init=False)

    @property
    def label(self) -> str:
        try:
            return URL(self.source.url).host or self.source.url
        except ValueError:
            return self.source.url

    async def fetch(self, part: PartFile, progress: Progress) -> None:
        if part.size > part.total:
            part.discard()
        try:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=ssl.create_default_context()),
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=self.connect_timeout_s, sock_read=self.read_timeout_s
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                requote_redirect_url=False,  # hubs redirect to signed addresses, in which every character counts
                trust_env=True,
            ) as session:
                await self._complete(session, part, progress)
        except aiohttp.ClientConnectorCertificateError as problem:
            reason = reason_of(problem)
            raise MirrorFailed(f"its certificate is not trusted (SSL_CERT_FILE names authorities): {reason}") from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            raise MirrorFailed(f"cannot be reached: {reason_of(problem)}") from None
        except aiohttp.TooManyRedirects:
            raise MirrorFailed("redirects without end") from None
        except (aiohttp.ClientError, ValueError) as problem:
            raise MirrorFailed(f"cannot be used: {reason_of(problem)}") from None

    async def _complete(self, session: aiohttp.ClientSession, part: PartFile, progress: Progress) -> None:
        failures = 0
        while (before := part.size) < part.total:
            try:
                await self._go_on(session, part, progress)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                raise  # no one there: the next mirror shall not have to wait
            except _TRANSIENT as problem:
                failures = 0 if part.size >= before + CHUNK_BYTES else failures + 1
                if failures >= self.tries:
                    raise MirrorFailed(f"{reason_of(problem)}, {failures} times in a row") from None
                progress.say(f"{reason_of(problem)}; trying again")
                await asyncio.sleep(self.retry_pause_s * max(failures, 1))

    async def _go_on(self, session: aiohttp.ClientSession, part: PartFile, progress: Progress) -> None:
        """Ask for what is missing, and append it."""
        progress.say("connecting")
        headers = {"Accept-Encoding": "identity", **_range_wanted(part)}
        async with session.get(self.source.url, headers=headers, max_redirects=_MAX_REDIRECTS) as answer:
            _place(answer, part)
            await _append_all(answer, part, progress)
        if part.size < part.total:
            raise _BrokeOff(f"ended after {part.size} of {part.total} bytes")


def _range_wanted(part: PartFile) -> dict[str, str]:
    begun = part.size
    if not begun:
        return {}
    try:
        tag = part.tag_path.read_text("ascii")
    except (OSError, ValueError):
        tag = ""
    wanted = {"Range": f"bytes={begun}-"}
    return {**wanted, "If-Range": tag} if _STRONG_TAG.fullmatch(tag) else wanted


def _place(answer: aiohttp.ClientResponse, part: PartFile) -> None:
    """Check that an answer is what was asked for, and cut the file to where it begins.

    Raises:
        MirrorFailed: it is not our file.
        _BrokeOff: asking again may help.
    """
    status = answer.status
    if status == 416 and part.size:
        part.discard()
        raise _BrokeOff("cannot continue where we were")
    if status == 429 or status >= 500:
        raise _BrokeOff(f"answered {status} {answer.reason or ''}".rstrip())
    if status not in (200, 206):
        raise MirrorFailed(f"answered {status} {answer.reason or ''}".rstrip())
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise MirrorFailed("sends the file compressed, although asked not to")
    begin = 0
    if status == 206:
        given = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if given is None or int(given[1]) != part.size or given[2] not in ("*", str(part.total)):
            part.discard()
            raise _BrokeOff("sent another piece than the one asked for")
        begin = part.size
    if answer.content_length is not None and answer.content_length != part.total - begin:
        raise MirrorFailed(f"offers {begin + answer.content_length} bytes where the model has {part.total}")
    if begin == 0:
        part.discard()
        tag = answer.headers.get("ETag", "")
        if _STRONG_TAG.fullmatch(tag):
            part.tag_path.write_text(tag, "ascii")


async def _append_all(answer: aiohttp.ClientResponse, part: PartFile, progress: Progress) -> None:
    done, waiting = part.size, bytearray()

    async def write() -> None:
        data = bytes(waiting)
        waiting.clear()
        if data:
            await until_cancelled(lambda _: part.append(data))

    try:
        async for piece in answer.content.iter_any():
            if done == 0 and not piece.startswith(_MAGIC[: len(piece)]):
                raise MirrorFailed("sent something that is not a GGUF file; perhaps a page that asks to sign in")
            done += len(piece)
            if done > part.total:
                waiting.clear()
                part.discard()
                raise MirrorFailed(f"sent more than the {part.total} bytes of the model")
            waiting += piece
            progress.report(done)
            if len(waiting) >= CHUNK_BYTES:
                await write()
    finally:
        await write()
