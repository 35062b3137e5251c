"""The floor for HTTP: a bare FastAPI app with its own `/health`, and an agent that stores nothing."""

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
            "name": "add",
            "description": "Add two integers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
]


class Answer(BaseModel):
    answer: str
    turns: int


@app.get("/health")
async def health() -> dict[str, bool]:
    return {"ok": True}


@app.post("/run")
async def run(task: Task) -> Answer:
    """Ask, add, ask again, until the model only talks."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You add."},
        {"role": "user", "content": task.prompt},
    ]
    turns = 0
    while True:
        request = {"model": "mock", "messages": messages, "tools": TOOLS, "temperature": 0.1, "max_tokens": 256}
        async with sessions[0].post(f"{base_url}/chat/completions", json=request) as response:
            message = (await response.json())["choices"][0]["message"]
        turns += 1
        messages.append(message)
        if not message.get("tool_calls"):
            return Answer(answer=message["content"], turns=turns)
        for call in message["tool_calls"]:
            numbers = json.loads(call["function"]["arguments"])
            content = str(numbers["a"] + numbers["b"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
