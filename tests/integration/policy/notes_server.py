"""A tool server over stdio that remembers what it is told: `note` keeps a text, `notes` gives all back."""

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
kept: list[str] = []


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": "notes", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": n, "description": n, "inputSchema": SCHEMA} for n in ("note", "notes")]}
        case "tools/call":
            if params["name"] == "note":
                kept.append(params["arguments"]["text"])
            return {"content": [{"type": "text", "text": "\n".join(kept) if params["name"] == "notes" else "kept"}]}
        case _:
            return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        said = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
        sys.stdout.flush()
