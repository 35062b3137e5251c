"""The floor for HTTP: a bare FastAPI app with its own `/health`, and an agent of one model call that stores nothing."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

base_url = sys.argv[1]
sessions: list[aiohttp.ClientSession] = []


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
    yield
    await sessions[0].close()


app = FastAPI(lifespan=lifespan)


class Task(BaseModel):
    prompt: str


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("shell", "read_file", "write_file", "list_files", "finish_task")
]


@app.get("/health")
async def health() -> dict[str, bool]:
    return {"ok": True}


@app.post("/run")
async def run(task: Task) -> dict[str, Any]:
    """Ask the model once; take what it says in `finish_task` for the result."""
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": task.prompt}]
    request = {"model": "mock", "messages": messages, "tools": TOOLS, "temperature": 0.1, "max_tokens": 256}
    async with sessions[0].post(f"{base_url}/chat/completions", json=request) as response:
        answer = await response.json()
    result: dict[str, Any] = {}
    for call in answer["choices"][0]["message"]["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "finish_task":
            result = arguments
    return result


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
