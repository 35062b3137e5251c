"""A bucket that checks signatures as Amazon describes it, from what came over the wire.

The query counts as it was sent, encoded. What a list returns comes in pages of two.
"""

import hashlib
import hmac
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote, unquote_plus
from xml.sax.saxutils import escape

from aiohttp import web

from agent_fabric.infrastructure.runs.workspaces.s3_objects import S3Credentials

_PAGE = 2
_SKEW = timedelta(minutes=15)
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d{8})/([\w-]+)/s3/aws4_request, "
    r"SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})"
)
_SIGNED = {"host", "x-amz-content-sha256", "x-amz-date"}


@asynccontextmanager
async def s3_stand_in(bucket: str, credentials: S3Credentials) -> AsyncIterator[str]:
    """Serve an empty bucket to one user; gives the endpoint."""
    objects: dict[str, bytes] = {}

    async def answer(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        if code := _refusal(request, body, credentials):
            return _error(403, code)
        name = unquote(request.raw_path.partition("?")[0]).removeprefix(f"/{bucket}").removeprefix("/")
        if request.method == "PUT":
            objects[name] = body
            return web.Response()
        if request.method == "DELETE":
            objects.pop(name, None)
            return web.Response(status=204)
        if name:
            return web.Response(body=objects[name]) if name in objects else _error(404, "NoSuchKey")
        return _listed(request, sorted(objects))

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _listed(request: web.BaseRequest, names: list[str]) -> web.Response:
    after = request.query.get("continuation-token", "")
    found = [name for name in names if name.startswith(request.query["prefix"]) and name > after]
    lines = [f"<Contents><Key>{escape(name)}</Key></Contents>" for name in found[:_PAGE]]
    if len(found) > _PAGE:
        lines.append(f"<NextContinuationToken>{escape(found[_PAGE - 1])}</NextContinuationToken>")
    return web.Response(text=f"<ListBucketResult>{''.join(lines)}</ListBucketResult>", content_type="application/xml")


def _refusal(request: web.BaseRequest, body: bytes, credentials: S3Credentials) -> str:
    """Return why a request is refused; nothing if it is the user's."""
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if found is None:
        return "AccessDenied"
    access_key, day, region, names, signature = found.groups()
    if access_key != credentials.access_key:
        return "InvalidAccessKeyId"
    at = request.headers.get("x-amz-date", "")
    if not at.startswith(day) or abs(datetime.strptime(f"{at}+0000", "%Y%m%dT%H%M%SZ%z") - datetime.now(UTC)) > _SKEW:
        return "RequestTimeTooSkewed"
    if not set(names.split(";")) >= _SIGNED or names != ";".join(sorted(names.split(";"))):
        return "AccessDenied"
    digest = request.headers["x-amz-content-sha256"]
    if digest != hashlib.sha256(body).hexdigest():
        return "XAmzContentSHA256Mismatch"
    path, _, query = request.raw_path.partition("?")
    pairs = sorted(each.partition("=")[::2] for each in query.split("&") if each)
    canonical_query = "&".join("=".join(quote(unquote_plus(part), safe="-_.~") for part in pair) for pair in pairs)
    headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in names.split(";"))
    canonical = "\n".join(
        (request.method, quote(unquote(path), safe="/-_.~"), canonical_query, headers, names, digest)
    ).encode()
    scope = f"{day}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical).hexdigest()}".encode()
    key = b"AWS4" + credentials.secret_key.encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return "" if hmac.new(key, text, hashlib.sha256).hexdigest() == signature else "SignatureDoesNotMatch"


def _error(status: int, code: str) -> web.Response:
    return web.Response(status=status, text=f"<Error><Code>{code}</Code></Error>", content_type="application/xml")
