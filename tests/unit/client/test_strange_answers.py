"""An answer of another program than ours is told as such."""

import asyncio

import pytest

from agent_fabric.client.errors import AnswerUnusable
from agent_fabric.client.fabric_client import FabricClient


@pytest.mark.proves("DB-9")
@pytest.mark.parametrize(("answer", "said"), [("{}", "it has no 'runs'"), ("[]", "it has another form")])
async def test_what_is_missing_is_named_without_an_exceptions_name(answer: str, said: str) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n{answer}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with FabricClient(f"http://127.0.0.1:{port}") as fabric:
            with pytest.raises(AnswerUnusable, match=said) as told:
                await fabric.runs.list()
    assert "Error" not in told.value.message
    assert told.value.hint == "Is this an agent-fabric server?"
