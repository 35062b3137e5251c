"""Objects in a bucket of any S3-compatible service, with requests signed here (AWS Signature Version 4).

Four requests are all that is needed, so there is no library for it: PUT, GET, DELETE of an object, and a list.
"""

import asyncio
import hashlib
import hmac
import html
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreUnavailable

ATTEMPTS: Final = 5
"""How often a request is made before it fails; the pauses in between double."""
FIRST_PAUSE_S: Final = 0.2
TIMEOUT_S: Final = 60.0
_KEY: Final = re.compile(rb"<Key>([^<]*)</Key>")
_NEXT: Final = re.compile(rb"<NextContinuationToken>([^<]*)</NextContinuationToken>")
_CODE: Final = re.compile(rb"<Code>([^<]{1,80})</Code>")
_LATER: Final = frozenset({429, 500, 502, 503, 504})
_NOT_FOUND: Final = 404


class S3Credentials(NamedTuple):
    """Who asks."""

    access_key: str
    secret_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Bucket:
    """A bucket, and where in it objects are."""

    endpoint: str
    """Such as `https://s3.example.org`, without the bucket."""
    bucket: str
    prefix: str = ""
    region: str = "us-east-1"


class S3Objects:
    """ObjectStore in a bucket."""

    def __init__(self, bucket: S3Bucket, credentials: Callable[[], Awaitable[S3Credentials]]) -> None:
        """Connect to nothing yet; `credentials` is asked before the first request."""
        self._bucket = bucket
        self._ask_credentials = credentials
        self._credentials: S3Credentials | None = None
        self._session: aiohttp.ClientSession | None = None
        prefix = bucket.prefix.strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self.place = f"bucket {bucket.bucket} at {urlsplit(bucket.endpoint).netloc}"

    async def put(self, name: str, data: bytes) -> None:
        await self._request("PUT", name, body=data)

    async def get(self, name: str) -> bytes:
        return await self._request("GET", name)

    async def remove(self, prefix: str) -> int:
        count, more = 0, ""
        while True:
            asked = {"list-type": "2", "prefix": f"{self._prefix}{prefix}"}
            listed = await self._request("GET", None, query={**asked, **({"continuation-token": more} if more else {})})
            keys = [html.unescape(key.decode()) for key in _KEY.findall(listed)]
            for key in keys:
                await self._request("DELETE", key.removeprefix(self._prefix))
            count += len(keys)
            found = _NEXT.search(listed)
            if found is None:
                return count
            more = html.unescape(found[1].decode())

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _request(
        self, method: str, name: str | None, *, query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> bytes:
        if self._credentials is None:
            self._credentials = await self._ask_credentials()
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        key = "" if name is None else f"/{self._prefix}{name}"
        path = quote(f"/{self._bucket.bucket}{key}", safe="/-_.~")
        asked = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted((query or {}).items()))
        url = self._bucket.endpoint.rstrip("/") + path + (f"?{asked}" if asked else "")
        said, pause = "", FIRST_PAUSE_S
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(pause)
                pause *= 2
            # Signed anew each time: a signature is good for minutes only.
            headers = signed_headers(self._credentials, self._bucket.region, method, url, body, datetime.now(UTC))
            try:
                async with self._session.request(
                    method, URL(url, encoded=True), headers=headers, data=body or None, allow_redirects=False
                ) as answer:
                    data = await answer.read()
            except (aiohttp.ClientError, TimeoutError) as problem:
                said = str(problem) or type(problem).__name__
                continue
            if answer.status < 300:
                return data
            if answer.status == _NOT_FOUND and method == "DELETE":
                return b""
            code = _CODE.search(data)
            said = f"{answer.status} {code[1].decode(errors='replace') if code else answer.reason or ''}".strip()
            if answer.status not in _LATER:
                break
        raise StoreUnavailable(
            f"The {self.place} cannot be used: {said}",
            hint="Check `workspaces`: endpoint, region, bucket and keys. The run can be resumed: fabric resume.",
        )


def signed_headers(
    credentials: S3Credentials, region: str, method: str, url: str, body: bytes, at: datetime
) -> dict[str, str]:
    """Return the headers of a request that S3 accepts; its path and query are encoded already."""
    parts = urlsplit(url)
    digest = hashlib.sha256(body).hexdigest()
    time = at.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": time}
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = f"{method}\n{parts.path}\n{parts.query}\n{lines}\n{names}\n{digest}"
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    signed = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (time[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, signed.encode(), "sha256").hex()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return {**headers, "authorization": authorization}
