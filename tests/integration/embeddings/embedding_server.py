"""A stand-in for Ollama's and OpenAI's embedding routes on a real socket. Its vectors count letters."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

MODEL = "letters"


def letters(text: str) -> list[float]:
    counted = Counter(text.lower())
    return [float(counted[letter]) for letter in "abcdefghijklmnopqrstuvwxyz"] + [0.5]


@dataclass
class EmbeddingStandIn:
    """What it answers can be changed, what it was asked is kept."""

    old: bool = False
    """An Ollama from before `/api/embed`."""
    answer: Any = None
    """Answered instead of vectors."""
    status: int = 200
    delay_s: float = 0.0
    """How long each answer takes."""
    asked: list[tuple[str, Any, str]] = field(default_factory=list)
    url: str = ""
    stop: Callable[[], Awaitable[None]] = field(init=False)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        await asyncio.sleep(self.delay_s)
        self.asked.append((request.path, body, request.headers.get("authorization", "")))
        if request.path == "/api/embed" and self.old:
            return web.Response(status=404, text="404 page not found")
        if self.answer is not None or self.status != 200:
            return web.json_response(self.answer, status=self.status)
        if body["model"] != MODEL and request.path.startswith("/api/"):
            return web.json_response({"error": f'model "{body["model"]}" not found, try pulling it first'}, status=404)
        match request.path:
            case "/api/embed":
                return web.json_response({"model": MODEL, "embeddings": [letters(each) for each in body["input"]]})
            case "/api/embeddings":
                return web.json_response({"embedding": letters(body["prompt"])})
            case _:
                rows = [
                    {"object": "embedding", "index": n, "embedding": letters(t)} for n, t in enumerate(body["input"])
                ]
                return web.json_response({"object": "list", "data": rows[::-1], "model": body["model"]})


@contextlib.asynccontextmanager
async def embedding_server(**changed: Any) -> AsyncIterator[EmbeddingStandIn]:
    """Serve on a free port."""
    stand_in = EmbeddingStandIn(**changed)
    app = web.Application(client_max_size=64 * 2**20)
    for path in ("/api/embed", "/api/embeddings", "/v1/embeddings"):
        app.router.add_post(path, stand_in.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    stand_in.stop = runner.cleanup
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stand_in.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield stand_in
    finally:
        await runner.cleanup()
