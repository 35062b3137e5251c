"""A stand-in for llama.cpp's package: it answers by the schema that it is held to, first with a tool, then in words."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

ANSWER = "There are no files here yet."


class CommonParams:
    """Takes whatever is set."""

    def __init__(self) -> None:
        self.model = SimpleNamespace()
        self.cpuparams = SimpleNamespace()
        self.cpuparams_batch = SimpleNamespace()
        self.api_keys: list[str] = []
        self.n_parallel = 1
        self.n_ctx = 8192


class Server:
    """Speaks as much of the protocol as is asked for."""

    def __init__(self, params: CommonParams) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(params))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def listening_address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def _handler(params: CommonParams) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            slot = {"n_ctx": params.n_ctx // params.n_parallel, "is_processing": False}
            listed = {"object": "list", "data": [{"id": "stand-in"}]}
            bodies: dict[str, Any] = {"/health": {"status": "ok"}, "/slots": [slot] * params.n_parallel}
            self._say(bodies.get(self.path, listed))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            text = json.dumps(_call(asked)) if "response_format" in asked else ANSWER
            choice = {"index": 0, "finish_reason": "stop"}
            head = {"id": "1", "model": "stand-in"}
            if not asked.get("stream"):
                message = {"role": "assistant", "content": text}
                return self._say({**head, "object": "chat.completion", "choices": [{**choice, "message": message}]})
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            chunk = {**head, "object": "chat.completion.chunk", "choices": [{**choice, "delta": {"content": text}}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
            return None

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _say(self, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Answers


def _call(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a call that the schema allows: look at the files, and end once they were looked at."""
    schema = asked["response_format"]["json_schema"]["schema"]
    forms = {form["properties"]["name"]["const"]: form for form in schema.get("oneOf", [schema])}
    looked = "list_files" in json.dumps([each for each in asked["messages"] if each["role"] == "assistant"])
    ending = [each for each in forms if "finish" in each or "answer" in each]
    name = "list_files" if "list_files" in forms and not looked else [*ending, *forms][0]
    before = {key: "I look." for key in forms[name]["required"] if key not in {"name", "arguments"}}
    return {**before, "name": name, "arguments": _filled(forms[name]["properties"]["arguments"])}


def _filled(schema: dict[str, Any]) -> Any:
    if "const" in schema or "enum" in schema:
        return schema.get("const", (schema.get("enum") or [None])[0])
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            return {key: _filled(part) for key, part in schema.get("properties", {}).items() if key in required}
        case "array":
            return [_filled(schema["items"])] * schema.get("minItems", 0)
        case "boolean":
            return True
        case "integer" | "number":
            return 1
        case _:
            return ANSWER
