"""A tool server over stdio: `python stdio_tools.py SAYS HEARD` says what is in one file and notes what it hears."""

import json
import sys
from pathlib import Path
from typing import Any

SAYS, HEARD = map(Path, sys.argv[1:3])
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": "local", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": "ask", "description": "Ask.", "inputSchema": SCHEMA}]}
        case "tools/call":
            with HEARD.open("a") as heard:
                heard.write(f"{json.dumps(params)}\n")
            return {"content": [{"type": "text", "text": SAYS.read_text()}]}
        case _:
            return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        said = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
        sys.stdout.flush()
