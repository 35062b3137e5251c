"""A stand-in for Ollama: real HTTP on loopback with Ollama's documented routes and habits, but no Ollama behind it.

Its answers come from a script, or from a real OpenAI-compatible server to which it passes the conversation on (so that
a real model stands behind Ollama's face). It has the habits that clients must cope with: prompts beyond the window are
cut silently, `tool_choice` does nothing, `/v1` cannot set the window, models may lack tools, pulls report progress and
fail in mid-stream.

In a test:

    async with OllamaStandIn([Call("list_files", {"path": "."}), Finish(summary="done")]) as ollama:
        ...  # let the client talk to ollama.base_url
        assert ollama.asked("/api/chat")

As a process, in the place of `ollama serve`; it listens where OLLAMA_HOST says, as Ollama does:

    PYTHONPATH=tests python -m standins.ollama_standin [--port N] [--script FILE | --forward URL] [--model NAME=SIZE]…
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web

from agent_fabric.testing.scripted_answers import (
    Answer,
    Call,
    Calls,
    ContextExceeded,
    Cut,
    Empty,
    Entry,
    Hang,
    Raw,
    Reply,
    Reset,
    Responder,
    Say,
    Script,
    Slow,
    Status,
    conversation_of,
    fingerprint,
    turn_of,
)
from agent_fabric.testing.scripted_wire import ChatCompletion
from standins.ollama_wire import (
    StandInModel,
    fitted,
    from_openai,
    native_lines,
    to_openai,
    tokens_of,
)

__all__ = ["OllamaStandIn", "Recorded", "StandInModel"]

COMMAND = ("env", f"PYTHONPATH={Path(__file__).parents[1]}", sys.executable, "-m", "standins.ollama_standin")
"""Starts the stand-in as a process, from any folder."""
NATIVE, OPENAI = "/api/chat", "/v1/chat/completions"
TOO_LONG = (
    "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the "
    "context length in settings, or use a model with a longer context length"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request as it arrived."""

    method: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    """Names in lower case."""
    truncated: bool = False
    """A part of the conversation was dropped."""


class OllamaStandIn:
    """An Ollama-like server for the time of an `async with`."""

    def __init__(
        self,
        script: Sequence[Entry] | Responder = (),
        *,
        models: Sequence[StandInModel] = (StandInModel(),),
        pullable: Sequence[StandInModel] = (),
        forward_to: str = "",
        forward_key: str = "",
        version: str = "0.13.0",
        default_window: int = 4_096,
        knows_truncate: bool = True,
        port: int = 0,
    ) -> None:
        self.models = {model.name: model for model in models}
        """What it has; may be changed at any time."""
        self.pullable = {model.name: model for model in pullable}
        """What `/api/pull` finds; anything else fails in mid-stream, as with Ollama."""
        self.faults: dict[str, Answer] = {}
        """By path: given instead of the usual answer, every time."""
        self.requests: list[Recorded] = []
        """Every request, in order of arrival."""
        self.windows: dict[str, int] = {}
        """The models that are loaded, and the window of each."""
        self._respond: Responder = Script(tuple(script)) if isinstance(script, Sequence) else script
        self._forward_to = forward_to.rstrip("/")
        self._forward_key = forward_key
        self._version = version
        self._default_window = default_window
        self._knows_truncate = knows_truncate
        self._port = port
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1; entering the block again listens there again."""
        if self._port == 0:
            raise RuntimeError("the stand-in has no port before its `async with` block")
        return self._port

    @property
    def root(self) -> str:
        """Where `/api` is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL."""
        return f"{self.root}/v1"

    def asked(self, path: str) -> list[Recorded]:
        """Return the requests for one path."""
        return [recorded for recorded in self.requests if recorded.path == path]

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        # Clients that are gone must not keep the block from ending.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        try:
            body = json.loads(data) if data else {}
        except ValueError:
            return _error(request.path, 400, "invalid character in request body")
        headers = {name.lower(): value for name, value in request.headers.items()}
        recorded = Recorded(method=request.method, path=request.path, body=body, headers=headers)
        self.requests.append(recorded)
        fault = self.faults.get(request.path)
        if fault is not None:
            return await self._give(request, fault, "", 0)
        match request.method, request.path:
            case "GET", "/":
                return web.Response(text="Ollama is running")
            case "GET", "/api/version":
                return web.json_response({"version": self._version})
            case "GET", "/api/tags":
                return web.json_response({"models": [model.listed() for model in self.models.values()]})
            case "GET", "/api/ps":
                loaded = [
                    self.models[name].loaded(window) for name, window in self.windows.items() if name in self.models
                ]
                return web.json_response({"models": loaded})
            case "GET", "/v1/models":
                entries = [
                    {"id": name, "object": "model", "created": 1_762_000_000, "owned_by": "library"}
                    for name in self.models
                ]
                return web.json_response({"object": "list", "data": entries})
            case "POST", "/api/show":
                model = self._model(body)
                return _not_found(request.path, body) if model is None else web.json_response(model.shown())
            case "POST", "/api/pull":
                return await self._pull(
                    request, str(body.get("model", "")), stream=body.get("stream", True) is not False
                )
            case "POST", ("/api/chat" | "/v1/chat/completions"):
                return await self._chat(request, recorded)
            case _:
                return web.Response(status=404, text="404 page not found")

    def _model(self, body: dict[str, Any]) -> StandInModel | None:
        name = str(body.get("model") or body.get("name") or "")
        return self.models.get(name) or self.models.get(f"{name}:latest")

    async def _pull(self, request: web.Request, name: str, *, stream: bool) -> web.StreamResponse:
        found = self.pullable.get(name) or self.models.get(name)
        if found is None:
            steps: list[dict[str, Any]] = [
                {"status": "pulling manifest"},
                {"error": "pull model manifest: file does not exist"},
            ]
        else:
            part = {"status": f"pulling {found.digest[:12]}", "digest": f"sha256:{found.digest}", "total": found.size}
            done = [found.size * share // 4 for share in range(5)]
            steps = [{"status": "pulling manifest"}, *(part | {"completed": completed} for completed in done)]
            steps += [{"status": "verifying sha256 digest"}, {"status": "writing manifest"}, {"status": "success"}]
            self.models[name] = found
        if not stream:
            return web.json_response(steps[-1], status=500 if "error" in steps[-1] else 200)
        return await _stream(request, [json.dumps(step).encode() + b"\n" for step in steps], "application/x-ndjson")

    async def _chat(self, request: web.Request, recorded: Recorded) -> web.StreamResponse:
        body = recorded.body
        model = self._model(body)
        if model is None:
            return _not_found(request.path, body)
        if body.get("tools") and "tools" not in (model.capabilities or ("tools",)):
            return _error(request.path, 400, f"registry.ollama.ai/library/{model.name} does not support tools")
        asked = (body.get("options") or {}).get("num_ctx") if request.path == NATIVE else None
        window = min(asked or model.num_ctx or self._default_window, model.context_length)
        self.windows[model.name] = window
        messages, prompt_tokens = fitted(body["messages"], body.get("tools"), window)
        if len(messages) < len(body["messages"]) or messages[-1] is not body["messages"][-1]:
            if self._knows_truncate and body.get("truncate") is False and body.get("shift") is False:
                return _error(request.path, 400, TOO_LONG)
            at = self.requests.index(recorded)
            self.requests[at] = Recorded(
                method="POST", path=recorded.path, body=body, headers=recorded.headers, truncated=True
            )
        if self._forward_to:
            return await self._forward(request, body | {"messages": messages}, model.name)
        turn = conversation_of(body), turn_of(body)
        attempt = self._attempts[turn]
        self._attempts[turn] += 1
        return await self._give(request, self._respond(body, attempt), model.name, prompt_tokens, body)

    async def _forward(self, request: web.Request, body: dict[str, Any], model: str) -> web.StreamResponse:
        """Let the real server answer; it is always asked for the whole answer at once."""
        sent = to_openai(body) if request.path == NATIVE else {**body, "stream": False}
        for unknown in ("stream_options", "tool_choice"):
            sent.pop(unknown, None)
        if self._session is None:
            self._session = aiohttp.ClientSession()
        headers = {"authorization": f"Bearer {self._forward_key}"} if self._forward_key else {}
        url = f"{self._forward_to}/chat/completions"
        async with self._session.post(url, json=sent, headers=headers) as response:
            answer = await response.json(content_type=None)
            if response.status != 200:
                return _error(request.path, response.status, json.dumps(answer)[:500])
        reply, _ = from_openai(answer, model)
        return await self._give(request, reply, model, 0, body)

    async def _give(
        self, request: web.Request, answer: Answer, model: str, prompt_tokens: int, body: dict[str, Any] | None = None
    ) -> web.StreamResponse:
        match answer:
            case Say() | Call() | Calls() | Empty():
                lines, kind = self._lines(request, answer, model, prompt_tokens, body or {})
                return await _stream(request, lines, kind)
            case Cut(answer=reply, after_bytes=limit):
                lines, kind = self._lines(request, reply, model, prompt_tokens, body or {})
                return await _stream(request, [b"".join(lines)[:limit]], kind, cut=True)
            case Slow(answer=later, delay_s=delay_s):
                await asyncio.sleep(delay_s)
                return await self._give(request, later, model, prompt_tokens, body)
            case Hang(seconds=seconds):
                await asyncio.sleep(86_400 if seconds is None else seconds)
                return _abort(request)
            case Reset():
                return _abort(request)
            case Raw(body=data, content_type=kind):
                whole = data.encode() if isinstance(data, str) else data
                return web.Response(body=whole, headers={"Content-Type": kind})
            case Status(code=code, body=text, retry_after=wait):
                more = {} if wait is None else {"Retry-After": str(wait)}
                return _error(request.path, code, text or f"scripted status {code}", more)
            case ContextExceeded():
                return _error(request.path, 400, TOO_LONG)

    def _lines(
        self, request: web.Request, reply: Reply, model: str, prompt_tokens: int, body: dict[str, Any]
    ) -> tuple[list[bytes], str]:
        if request.path == NATIVE:
            stream = body.get("stream", True) is not False
            kind = "application/x-ndjson" if stream else "application/json; charset=utf-8"
            return native_lines(reply, model, prompt_tokens, stream=stream), kind
        completion = ChatCompletion(
            reply=reply,
            request=body,
            name=fingerprint(body.get("messages", [])),
            model=model,
            prompt_size=4 * max(prompt_tokens, tokens_of("")),
            created=int(time.time()),
        )
        if body.get("stream"):
            return completion.events(), "text/event-stream"
        return [
            json.dumps(json.loads(completion.whole()) | {"system_fingerprint": "fp_ollama"}).encode()
        ], "application/json"


async def _stream(request: web.Request, lines: Sequence[bytes], kind: str, *, cut: bool = False) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": kind})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for line in lines:
        if line:
            await response.write(line)
    if cut:
        _abort(request)
    else:
        await response.write_eof()
    return response


def _abort(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _error(path: str, status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return an error in the form that belongs to the route."""
    if not path.startswith("/v1"):
        return web.json_response({"error": message}, status=status, headers=headers)
    kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
    error = {"message": message, "type": kind, "param": None, "code": None}
    return web.json_response({"error": error}, status=status, headers=headers)


def _not_found(path: str, body: dict[str, Any]) -> web.Response:
    return _error(path, 404, f"model '{body.get('model') or body.get('name')}' not found")


async def _serve_until_told(standin: OllamaStandIn, delay_s: float) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await asyncio.sleep(delay_s)
    async with standin:
        sys.stdout.write(f"Listening on 127.0.0.1:{standin.port} (stand-in for Ollama)\n")
        sys.stdout.flush()
        await told.wait()


def _named_model(text: str) -> StandInModel:
    name, _, size = text.partition("=")
    if "embed" in name:
        return StandInModel(name=name, parameter_size=size or "137M", family="nomic-bert", capabilities=("embedding",))
    return StandInModel(name=name, parameter_size=size or "1.5B")


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, as `ollama serve` does."""
    parser = argparse.ArgumentParser(prog="ollama_standin", description="A stand-in for `ollama serve`, for tests.")
    told_port = os.environ.get("OLLAMA_HOST", "").rpartition(":")[2]
    parser.add_argument("--port", type=int, default=int(told_port) if told_port.isdecimal() else 11434)
    parser.add_argument("--script", type=Path, help="JSON file of scripted answers, as scripted_model takes it")
    parser.add_argument("--forward", default="", help="base URL of an OpenAI-compatible server that really answers")
    parser.add_argument("--model", type=_named_model, action="append", default=[], help="NAME=SIZE of a model it has")
    parser.add_argument("--pullable", type=_named_model, action="append", default=[], help="NAME=SIZE of one to pull")
    parser.add_argument("--delay-s", type=float, default=0.0, help="time before it listens")
    options = parser.parse_args(arguments)
    script: Responder = Script((Say("hello"),))
    if options.script is not None:
        try:
            script = Script.from_json(options.script.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            parser.error(f"{options.script}: {error}")
    standin = OllamaStandIn(
        script,
        models=options.model or (StandInModel(),),
        pullable=options.pullable,
        forward_to=options.forward,
        port=options.port,
    )
    asyncio.run(_serve_until_told(standin, options.delay_s))


if __name__ == "__main__":
    main()
