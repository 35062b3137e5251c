"""What commands that only read import: no engine, no HTTP client, no configuration where they need none.

A command starts as fast as what it imports; times are measured in `benchmarks/bench_startup.py`, here it is counted.
All commands run in one process each time, forked from one that has imported the command line and nothing else.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fabric.interfaces.cli.main import COMMANDS

HEAVY = {
    "aiohttp": "aiohttp",
    "asyncio": "asyncio",
    "config": "agent_fabric.config.schema.fabric",
    "cryptography": "cryptography",
    "engine": "agent_fabric.bootstrap.local",
    "events": "agent_fabric.domain.events",
    "fastapi": "fastapi",
    "logs": "agent_fabric.infrastructure.persistence.runs.event_store",
    "mcp": "mcp",
    "models": "agent_fabric.infrastructure.models.stack",
    "numpy": "numpy",
    "packages": "importlib.metadata",
    "pydantic": "pydantic",
    "store": "apsw",
    "yaml": "yaml",
}
"""What takes its time, by a short name."""
_ROWS = """
run --help      |
chat --help     |
logs list       | asyncio events store
sessions list   | asyncio store
memory list     | asyncio store
memory review   | asyncio store
agents list     | asyncio config packages
workflow list   | asyncio config events packages
eval list       | asyncio store
schedules list  | asyncio store
sensors list    | asyncio config engine events logs packages store
webhooks list   | asyncio store
channels list   | config packages
channels people | asyncio events store
dead list       | asyncio store
approvals list  | asyncio events store
whoami          |
users list      | asyncio store
keys list       | asyncio store
token show      |
audit list      | asyncio events store
audit verify    | asyncio config events packages store
db status       | asyncio store
cluster status  | asyncio store
doctor          | asyncio config events models packages store
models list     | asyncio config models packages
secrets list    | asyncio
skills list     | asyncio packages
mcp list        | asyncio config packages
policy show     | asyncio config events packages
policy check ls | asyncio config events packages
config show     | config packages
schema agent    |
"""
READING = {
    command.strip(): frozenset(names.split())
    for command, _, names in (line.partition("|") for line in _ROWS.strip().splitlines())
}
"""What each command may import of it."""
ACTING = {
    *(
        "run",
        "chat",
        "acp",
        "init",
        "resume",
        "cancel",
        "diff",
        "undo",
        "files",
        "web",
        "serve",
        "worker",
        "login",
        "logout",
    ),
    *("gc", "verify", "compare", "review", "node", "nodes", "fleet"),
}
"""Commands that do more than read, or ask a server."""
FORKS = """
import io, json, os, sys
import agent_fabric.interfaces.cli.invocation
from agent_fabric.interfaces.cli.main import main

def run_once(arguments):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        sys.stdout = sys.stderr = io.StringIO()
        code = None
        try:
            main(arguments)
        except SystemExit as done:
            code = done.code
        answer = [code, sorted(name for name in json.loads(sys.argv[1]) if name in sys.modules)]
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)

print(json.dumps([run_once(arguments) for arguments in json.loads(sys.argv[2])]))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, frozenset[str]]]:
    """Return the exit code of each command and what it imported. The first one makes the store."""
    home = tmp_path_factory.mktemp("home")
    told = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home / "data")}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FABRIC_")} | told
    folder = ["--workspace", str(Path(home) / ".fabric")]
    called = [["memory", "list"], *(command.split() for command in READING)]
    arguments = [each if "--help" in each or each[0] == "schema" else [*each, *folder] for each in called]
    done = subprocess.run(
        [sys.executable, "-c", FORKS, json.dumps(list(HEAVY.values())), json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env=environment,
        cwd=home,
    )
    short = {module: name for name, module in HEAVY.items()}
    answers = json.loads(done.stdout)[1:]
    return {
        command: (code, frozenset(short[name] for name in names))
        for command, (code, names) in zip(READING, answers, strict=True)
    }


@pytest.mark.parametrize("command", READING)
def test_what_a_reading_command_imports(command: str, imported: dict[str, tuple[int, frozenset[str]]]) -> None:
    code, found = imported[command]
    assert code in (0, 1), "the command did its work"
    assert found <= READING[command], f"it imports {', '.join(sorted(found - READING[command]))} as well"
    assert found >= READING[command], f"it no longer needs {', '.join(sorted(READING[command] - found))}"


def test_every_command_is_in_the_table_or_does_more_than_read() -> None:
    listed = {command.split()[0] for command in READING if "--help" not in command}
    assert listed | ACTING == set(COMMANDS)
