"""The floor for HTTP: a bare FastAPI app with its own `/health`, and an agent that stores nothing.

`/run-kept` is the same agent when it keeps what every run has to leave behind: a folder with a workspace in it and a
log, of which each line is written before the agent goes on. Nothing is synced, locked, resumable or found again.
"""

import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

base_url, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
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
    """Do it and forget it."""
    return await do(task, lambda _, __: None)


@app.post("/run-kept")
async def run_kept(task: Task) -> Answer:
    """Do it, with a log of it."""
    run = folder / str(uuid.uuid4())
    (run / "workspace").mkdir(parents=True)
    with (run / "runlog.jsonl").open("a") as log:

        def record(kind: str, payload: object) -> None:
            log.write(json.dumps({"kind": kind, "payload": payload}) + "\n")
            log.flush()

        return await do(task, record)


async def do(task: Task, record: Callable[[str, object], None]) -> Answer:
    """Ask, add, ask again, until the model only talks."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You add."},
        {"role": "user", "content": task.prompt},
    ]
    turns = 0
    while True:
        request = {"model": "mock", "messages": messages, "tools": TOOLS, "temperature": 0.1, "max_tokens": 256}
        record("llm_request", {"messages": len(messages)})
        async with sessions[0].post(f"{base_url}/chat/completions", json=request) as response:
            message = (await response.json())["choices"][0]["message"]
        record("llm_response", message)
        turns += 1
        messages.append(message)
        if not message.get("tool_calls"):
            return Answer(answer=message["content"], turns=turns)
        for call in message["tool_calls"]:
            record("tool_call", call)
            numbers = json.loads(call["function"]["arguments"])
            content = str(numbers["a"] + numbers["b"])
            record("tool_result", content)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)
