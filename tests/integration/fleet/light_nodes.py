"""Light nodes: they have keys and show who they are, but keep no spool. In one process, or a process for each.

    python light_nodes.py URL COUNT [--prefix light] [--witness FILE] [--pause-s 0] [--again-s 0.2]

Run as a program, it prints the ids of its processes as one line of JSON and ends with them. The invitation comes in the
environment. Whatever they are told to execute they note in the witness, once for each execution id, and answer after a
pause.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from agent_fabric.application.fleet.json_rpc import RpcPeer
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.fleet.protocol import SOCKET_PATH, Method, node_message
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.node.websocket import WebSocket

TOKEN = "LIGHT_NODES_TOKEN"
ANSWER_TIMEOUT_S = 60.0
AGAIN_S = 0.2


@dataclass(slots=True)
class LightNode:
    """A node that remembers nothing but its state and what it has done since it was started."""

    url: str
    token: str
    name: str
    witness: Path | None = None
    pause_s: float = 0.0
    again_s: float = AGAIN_S
    """How long it waits at most before it connects again."""
    key: SigningKey = field(default_factory=SigningKey.new)
    agent_id: str = ""
    hub_key: str = ""
    state: str = ""
    socket: WebSocket | None = None
    tasks: "list[asyncio.Task[None]]" = field(default_factory=list)
    done: "set[str]" = field(default_factory=set)

    async def join(self, client: httpx2.AsyncClient) -> None:
        """Enrol."""
        body = {"token": self.token, "public_key": self.key.public, "name": self.name, "os_info": {}}
        told = (await client.post("/api/v1/nodes/join", json=body)).json()
        self.agent_id, self.hub_key = told["agent_id"], told["hub_key"]

    async def connect(self) -> None:
        """Connect, and show who this is."""
        self.socket = await WebSocket.connect(f"{self.url.replace('http', 'ws')}{SOCKET_PATH}")
        peer = RpcPeer(self.socket.send, self._answer)
        self.tasks = [asyncio.create_task(self._read(self.socket, peer))]
        about = {"public_key": self.key.public, "nonce": "n", "uid": 1000, "floor": {"profile": "open"}}
        tools = {"native_tools": list(NODE_TOOLS)}
        told = await peer.call(
            Method.IDENTIFY,
            {"agent_id": self.agent_id, "capabilities": tools, "node": about},
            timeout_s=ANSWER_TIMEOUT_S,
        )
        message = node_message(self.agent_id, self.hub_key, told["challenge"], self.state)
        proof = {"signature": self.key.sign(message), "state": self.state}
        told = await peer.call(Method.PROVE, proof, timeout_s=ANSWER_TIMEOUT_S)
        self.state = told["state"]
        self.tasks.append(asyncio.create_task(self._beat(peer, float(told["heartbeat_s"]))))

    async def stay(self) -> None:
        """Enrol, connect, and connect again, until the process ends."""
        async with httpx2.AsyncClient(base_url=self.url, timeout=ANSWER_TIMEOUT_S) as client:
            await self.join(client)
        while True:
            try:
                await self.connect()
                await self.tasks[0]
            except Exception as problem:  # noqa: BLE001 - whatever a hub does that was killed
                print(f"{self.name}: {problem!r}", file=sys.stderr)
            await self.drop()
            await asyncio.sleep(random.uniform(0.0, self.again_s))  # as true nodes do

    async def drop(self) -> None:
        """End the connection without a word."""
        for task in self.tasks:
            task.cancel()
        if self.socket is not None:
            self.socket._writer.transport.abort()

    async def _read(self, socket: WebSocket, peer: RpcPeer) -> None:
        try:
            while True:
                await peer.receive(await socket.receive())
        except Exception as problem:
            peer.close(problem)
            raise

    async def _beat(self, peer: RpcPeer, every_s: float) -> None:
        share = random.uniform(0.0, 1.0)  # as true nodes do
        while True:
            await asyncio.sleep(share * every_s)
            told = await peer.call(Method.HEARTBEAT, {"busy": 0}, timeout_s=ANSWER_TIMEOUT_S)
            every_s, share = float(told["heartbeat_s"]), 1.0

    async def _answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method != Method.EXECUTE:
            return {}
        if self.witness is not None and params["execution_id"] not in self.done:
            self.done.add(params["execution_id"])
            with self.witness.open("a") as file:  # O_APPEND, one write
                file.write(f"{self.name} {time.time():.6f}\n")
        await asyncio.sleep(self.pause_s)
        return {"status": "success", "exit_code": 0, "stdout": ""}


@asynccontextmanager
async def light_processes(url: str, count: int, token: str, *options: str) -> AsyncIterator[list[int]]:
    """Start light nodes, each a process of its own; yield their ids. They are killed at the end."""
    words = (sys.executable, __file__, url, str(count), *options)
    environment = {**os.environ, TOKEN: token}
    parent = await asyncio.create_subprocess_exec(
        *words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    found: list[int] = json.loads(await parent.stdout.readline())
    try:
        yield found
    finally:
        for pid in found:
            os.kill(pid, 9)
        await parent.wait()


def be_processes(options: argparse.Namespace) -> None:
    """Be many nodes; wait until they have ended."""
    children = []
    for number in range(options.count):
        child = os.fork()
        if not child:
            name = f"{options.prefix}-{number:04}"
            told = (options.witness, options.pause_s, options.again_s)
            node = LightNode(options.url, os.environ[TOKEN], name, *told)
            asyncio.run(node.stay())
            os._exit(0)
        children.append(child)
    print(json.dumps(children), flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("count", type=int)
    parser.add_argument("--prefix", default="light")
    parser.add_argument("--witness", type=Path)
    parser.add_argument("--pause-s", type=float, default=0.0)
    parser.add_argument("--again-s", type=float, default=AGAIN_S)
    be_processes(parser.parse_args())
