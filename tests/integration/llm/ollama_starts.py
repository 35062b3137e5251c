"""What the test of two processes runs in each of them: make a model ready, ask it, print the answer."""

import asyncio
import os
import sys
from dataclasses import replace

from agent_fabric.domain.models.messages import Message, Role
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.infrastructure.models.ollama.backend import OllamaBackend
from agent_fabric.testing.workbench import SETTINGS


async def main(base_url: str, *command: str) -> None:
    session = HttpSession()
    backend = OllamaBackend(session, ensure=True, start_cmd=command, auto_pull=False, environ=os.environ)
    settings = replace(SETTINGS, backend="ollama", base_url=base_url, model="qwen2.5:7b")
    client = await backend.ready(settings, lambda _: None)
    answer = await client.chat(
        [Message(Role.USER, "hi")], settings.model, tools=(), temperature=0.0, top_p=1.0, max_tokens=9
    )
    print(answer.content)
    await session.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
