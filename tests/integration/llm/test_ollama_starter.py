"""Ollama is started when nobody answers: real processes, with a stand-in in the place of `ollama serve`."""

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ModelError
from agent_fabric.domain.models.messages import Message, ModelSettings, Role
from agent_fabric.infrastructure.models.model_http import HttpSession, ServerAddress
from agent_fabric.infrastructure.models.ollama.backend import OllamaBackend
from agent_fabric.infrastructure.models.ollama.server import OllamaServer
from agent_fabric.infrastructure.models.ollama.starter import OllamaStarter, log_folder
from agent_fabric.testing.workbench import SETTINGS
from standins import ollama_standin

SERVE = (*ollama_standin.COMMAND, "--model", "qwen2.5:7b=7.6B")
STARTS = Path(__file__).with_name("ollama_starts.py")


class Machine:
    """A user's machine: a state folder, a free port, and servers that are ended when the test is over."""

    def __init__(self, folder: Path, port: int) -> None:
        self.environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.told: list[str] = []
        self._pids = folder / "pids"

    def command(self, *command: str) -> tuple[str, ...]:
        """Return a command that leaves its process id where we find it."""
        return ("sh", "-c", f"echo $$ >> {shlex.quote(str(self._pids))}; exec {shlex.join(command)}")

    def pids(self) -> list[int]:
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []

    def starter(self, *command: str, wait_s: float = 20.0) -> OllamaStarter:
        return OllamaStarter(command, environ=self.environ, wait_s=wait_s)

    def settings(self) -> ModelSettings:
        return replace(SETTINGS, backend="ollama", base_url=self.base_url, model="qwen2.5:7b")

    def end_all(self) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


@pytest.fixture
def machine(tmp_path: Path, unused_tcp_port: int) -> Iterator[Machine]:
    made = Machine(tmp_path, unused_tcp_port)
    yield made
    made.end_all()


@pytest.fixture
async def session() -> AsyncIterator[HttpSession]:
    async with HttpSession() as opened:
        yield opened


@pytest.fixture
def server(machine: Machine, session: HttpSession) -> OllamaServer:
    return OllamaServer(session, ServerAddress(base_url=machine.base_url))


@pytest.mark.proves("AF-081", "AF-175")
async def test_server_that_is_down_is_started_and_answers_and_listens_where_we_ask(
    machine: Machine, server: OllamaServer
) -> None:
    starter = machine.starter(*machine.command(*SERVE))
    assert (await starter.start(server, machine.told.append)).running
    assert await server.version() == "0.13.0"
    assert machine.told[0].startswith("Starting Ollama: ")
    (pid,) = machine.pids()
    assert os.getsid(pid) == pid, "it has a session of its own, so that Ctrl-C does not reach it"
    (log,) = log_folder(machine.environ).glob("*.log")
    assert "stand-in for Ollama" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.proves("AF-081", "AF-175")
async def test_run_starts_the_server_and_gets_its_answer_and_starts_it_again_when_it_died(
    machine: Machine, session: HttpSession
) -> None:
    command = machine.command(*SERVE)
    backend = OllamaBackend(session, ensure=True, start_cmd=command, auto_pull=False, environ=machine.environ)

    async def ask() -> str:
        client = await backend.ready(machine.settings(), machine.told.append)
        answer = await client.chat(
            [Message(Role.USER, "hi")], "qwen2.5:7b", tools=(), temperature=0.0, top_p=1.0, max_tokens=9
        )
        return answer.content

    assert await ask() == "hello"
    machine.end_all()
    with pytest.raises(ModelError):
        await ask()
    assert await ask() == "hello"
    assert len(machine.pids()) == 2


async def test_server_that_answers_is_not_started_again(machine: Machine, server: OllamaServer) -> None:
    starter = machine.starter(*machine.command(*SERVE))
    outcomes = await asyncio.gather(*(starter.start(server, machine.told.append) for _ in range(5)))
    assert all(outcome.running for outcome in outcomes)
    assert len(machine.pids()) == 1


@pytest.mark.proves("AF-081")
async def test_command_that_does_not_exist_is_said_quickly_and_not_tried_again_at_once(
    machine: Machine, server: OllamaServer
) -> None:
    starter = machine.starter("no-such-ollama", "serve")
    begun = time.monotonic()
    outcome = await starter.start(server, machine.told.append)
    assert time.monotonic() - begun < 30
    assert not outcome.running
    assert outcome.reason == "`no-such-ollama serve` cannot be started: No such file or directory"
    said = len(machine.told)
    assert await starter.start(server, machine.told.append) == outcome
    assert len(machine.told) == said


@pytest.mark.proves("AF-081")
async def test_command_that_ends_at_once_tells_its_last_words(machine: Machine, server: OllamaServer) -> None:
    starter = machine.starter("sh", "-c", "echo 'Error: listen tcp: address already in use' >&2; exit 3")
    outcome = await starter.start(server, machine.told.append)
    assert not outcome.running
    assert "ended at once with code 3: Error: listen tcp: address already in use" in outcome.reason


async def test_command_that_never_answers_is_given_up_and_its_log_named(machine: Machine, server: OllamaServer) -> None:
    starter = machine.starter(*machine.command("sleep", "60"), wait_s=0.5)
    outcome = await starter.start(server, machine.told.append)
    assert not outcome.running
    assert "does not answer after 0.5 seconds" in outcome.reason
    assert str(log_folder(machine.environ)) in outcome.reason


async def test_command_that_leaves_the_server_to_a_service_is_waited_for(
    machine: Machine, server: OllamaServer
) -> None:
    inner = machine.command(*SERVE, "--delay-s", "0.3")
    outcome = await machine.starter("sh", "-c", f"{shlex.join(inner)} & exit 0").start(server, machine.told.append)
    assert outcome.running


async def test_server_on_another_machine_is_never_started(machine: Machine, session: HttpSession) -> None:
    elsewhere = OllamaServer(session, ServerAddress(base_url="http://192.0.2.1:11434/v1"))
    outcome = await machine.starter(*machine.command(*SERVE)).start(elsewhere, machine.told.append)
    assert not outcome.running
    assert machine.pids() == []


async def test_folder_that_cannot_be_used_is_a_reason_not_a_crash(machine: Machine, server: OllamaServer) -> None:
    Path(machine.environ["XDG_STATE_HOME"]).write_text("a file")
    outcome = await machine.starter(*SERVE).start(server, machine.told.append)
    assert not outcome.running
    assert "cannot be used" in outcome.reason


@pytest.mark.parametrize("command", [("",), ("/",), ("a\0b",), ("/etc/hostname", "serve")])
async def test_command_that_is_nonsense_is_a_reason_not_a_crash(
    machine: Machine, server: OllamaServer, command: tuple[str, ...]
) -> None:
    outcome = await machine.starter(*command).start(server, machine.told.append)
    assert not outcome.running
    assert "cannot be started" in outcome.reason


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_STATE_HOME": "/x/state", "HOME": "/home/me"}, "/x/state/agent-fabric/ollama"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.local/state/agent-fabric/ollama"),
        ({"HOME": "/home/me"}, "/home/me/.local/state/agent-fabric/ollama"),
    ],
)
def test_log_is_kept_in_the_users_state_folder(environ: dict[str, str], folder: str) -> None:
    assert log_folder(environ) == Path(folder)


async def test_two_processes_that_need_it_at_once_start_one_server_which_outlives_both(machine: Machine) -> None:
    command = machine.command(*SERVE, "--delay-s", "0.5")
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, STARTS, machine.base_url, *command, env=machine.environ, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    async with asyncio.timeout(60):
        said = [(await process.communicate())[0] for process in processes]
    assert said == [b"hello\n", b"hello\n"]
    (pid,) = machine.pids()
    os.kill(pid, 0)


async def test_secrets_that_a_command_prints_stay_in_its_own_log(machine: Machine, server: OllamaServer) -> None:
    outcome = await machine.starter("sh", "-c", 'printf "bad token=%s\\n" hush-hush >&2; exit 3').start(
        server, machine.told.append
    )
    assert "bad token=[redacted]" in outcome.reason
