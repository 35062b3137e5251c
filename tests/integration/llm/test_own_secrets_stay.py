"""Programs that we start for models see the user's environment, but nothing that opens agent-fabric itself."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from agent_fabric.config.schema.models import ManagedLlamaConfig
from agent_fabric.config.variable_names import CREDENTIALS, OURS
from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.models.model_http import HttpSession, ServerAddress
from agent_fabric.infrastructure.models.ollama.server import OllamaServer
from agent_fabric.infrastructure.models.ollama.starter import OllamaStarter
from agent_fabric.infrastructure.models.servers.managed_llama import ManagedLlama
from agent_fabric.infrastructure.models.weights.mirrors import MirrorFailed
from agent_fabric.infrastructure.models.weights.wheel_mirror import download_wheel

TELL = "import os, sys; open({file!r}, 'w').write('\\n'.join(os.environ)); sys.exit(3)"
"""A program that writes down the names of its variables, and fails."""


class Told:
    """An environment with all of our secrets in it, and what a child saw of it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "seen"
        self.program = TELL.format(file=str(self.file))
        self.environ = {
            **os.environ,
            **dict.fromkeys(OURS | CREDENTIALS, "of-agent-fabric"),
            "XDG_STATE_HOME": str(folder / "state"),
            "MINE": "of the user",
        }

    def require_only_the_users(self) -> None:
        seen = set(self.file.read_text().split("\n"))
        assert {"MINE", "PATH"} <= seen
        assert not (OURS | CREDENTIALS) & seen


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


async def test_ollama_sees_no_secret_of_ours(told: Told, unused_tcp_port: int) -> None:
    async with HttpSession() as session:
        server = OllamaServer(session, ServerAddress(base_url=f"http://127.0.0.1:{unused_tcp_port}/v1"))
        starter = OllamaStarter((sys.executable, "-c", told.program), environ=told.environ, wait_s=20)
        assert not (await starter.start(server, lambda _: None)).running
    told.require_only_the_users()


async def test_a_managed_llama_server_sees_no_secret_of_ours(told: Told, tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_text("{}")
    config = ManagedLlamaConfig.model_validate({"command": (sys.executable, "-c", told.program), "model": model})
    llama = ManagedLlama(config, folder=tmp_path / "servers", environ=told.environ)
    try:
        with suppress(FabricError):
            await llama.start()
    finally:
        await llama.aclose()
    told.require_only_the_users()


async def test_pip_sees_no_secret_of_ours(told: Told, tmp_path: Path) -> None:
    programs, wheels = tmp_path / "programs", tmp_path / "wheels"
    programs.mkdir()
    wheels.mkdir()
    (programs / "pip.py").write_text(told.program)
    stand_in = programs / "pip3"
    stand_in.write_text(f"#!{sys.executable}\n{told.program}\n")
    stand_in.chmod(0o700)
    path = os.pathsep.join((str(programs), told.environ["PATH"]))
    environ = {**told.environ, "PATH": path, "PYTHONPATH": str(programs)}
    with pytest.raises(MirrorFailed):
        await download_wheel("any", wheels, environ=environ, max_bytes=1_000, report=lambda _: None)
    told.require_only_the_users()
