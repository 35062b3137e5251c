"""A small web on loopback: pages, and a search that answers as SearXNG documents it."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit


@dataclass
class LoopbackSite:
    """Serves `pages` by path, and under `/search?q=…&format=json` those whose text has a word of the query."""

    pages: Mapping[str, str]
    """HTML by path; what is not there is a 404."""
    hanging: set[str] = field(default_factory=set)
    """Paths that are never answered."""
    asked: list[str] = field(default_factory=list)
    """Paths with their queries, in order of arrival."""
    url: str = ""
    """Where it is, without a slash at the end."""
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._arrived = asyncio.Condition()
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def was_asked_for(self, path: str) -> None:
        """Wait until somebody asks for a path."""
        async with asyncio.timeout(20), self._arrived:
            await self._arrived.wait_for(lambda: path in self.asked)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                target = head.split()[1]
                async with self._arrived:
                    self.asked.append(target)
                    self._arrived.notify_all()
                if target in self.hanging:
                    await asyncio.Event().wait()
                writer.write(self._response(target))
                await writer.drain()
        except asyncio.CancelledError:
            pass  # the site closes
        finally:
            self._tasks.discard(task)
            writer.close()

    def _response(self, target: str) -> bytes:
        parts = urlsplit(target)
        if parts.path == "/search":
            return _http(200, "application/json", json.dumps(self._found(parse_qs(parts.query).get("q", [""])[0])))
        page = self.pages.get(parts.path)
        return _http(404, "text/plain", "nothing here") if page is None else _http(200, "text/html", page)

    def _found(self, query: str) -> dict[str, object]:
        words = query.lower().split()
        results = [
            {
                "url": self.url + path,
                "title": f"Page {path}",
                "content": "A snippet.",
                "engine": "loopback",
                "score": 1.0,
            }
            for path, page in self.pages.items()
            if any(word in page.lower() for word in words)
        ]
        return {"query": query, "number_of_results": len(results), "results": results, "suggestions": [], "answers": []}


def _http(status: int, kind: str, body: str) -> bytes:
    data = body.encode()
    lines = (
        f"HTTP/1.1 {status} X",
        f"Content-Type: {kind}; charset=utf-8",
        f"Content-Length: {len(data)}",
        "Connection: close",
    )
    return "\r\n".join([*lines, "", ""]).encode() + data
