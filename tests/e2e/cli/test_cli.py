"""The command line as a person and a script meet it: a real process, a real store, a scripted model."""

import asyncio
import codecs
import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from agent_fabric import __version__
from agent_fabric.interfaces.cli.invocation import invoke
from agent_fabric.testing.scripted_model import (
    Call,
    Calls,
    Finish,
    Hang,
    Script,
    ScriptedModel,
    Slow,
    Status,
    Turn,
)
from e2e.fabric_process import configure, engineered, long_sleep, running, until
from e2e.fork_server import Process, start_fabric
from services import need_program

PATIENCE_S = 60.0
COMMANDS = (
    *("run", "agents", "resume", "cancel", "approvals", "diff", "undo", "serve", "audit", "gc", "verify", "doctor"),
    *("logs", "models", "mcp", "policy", "config", "schema", "workflow", "users", "keys", "token", "secrets", "db"),
    *("login", "logout", "whoami", "files", "compare", "review", "init", "skills", "eval", "worker", "cluster"),
    *("acp", "chat", "sessions", "memory"),
    *("channels", "schedules", "sensors", "dead", "web", "webhooks"),
    *("nodes", "node", "fleet"),
)
SUBCOMMANDS = (
    *("approvals list", "approvals show", "approvals approve", "approvals deny", "approvals done"),
    *("agents list", "agents show", "agents validate", "agents run"),
    *("workflow list", "workflow validate", "workflow show", "workflow graph", "workflow run", "workflow resume"),
    *("workflow cancel", "workflow signal", "workflow lineage"),
    *("audit list", "audit verify"),
    *("sessions list", "sessions show", "sessions search", "sessions rename", "sessions fork", "sessions export"),
    *("sessions delete",),
    *("memory add", "memory list", "memory show", "memory search", "memory review", "memory edit", "memory forget"),
    *("memory why", "memory export", "memory import"),
    *(
        "nodes list",
        "nodes show",
        "nodes invite",
        "nodes exec",
        "nodes shell",
        "nodes release",
        "nodes upgrade",
        "nodes cp",
        "nodes output",
        "nodes queue",
        "nodes rename",
        "nodes label",
    ),
    *("nodes policy", "nodes rotate", "nodes revoke", "nodes resolve", "nodes audit"),
    *("fleet plan", "fleet list", "fleet show", "fleet apply", "fleet halt", "fleet resume", "fleet abort"),
    *("node join", "node run", "node install", "node status", "node trust", "node leave"),
    *("cluster status", "cluster drain", "cluster drill"),
    *("schedules add", "schedules list", "schedules show", "schedules set", "schedules pause", "schedules resume"),
    *("channels list", "channels pair", "channels people", "channels unpair", "channels test"),
    *("channels deliveries", "channels resend", "channels notify"),
    *("webhooks list", "webhooks add", "webhooks test", "webhooks rotate", "webhooks remove"),
    *(
        "schedules import",
        "schedules remove",
        "schedules fire",
        "schedules backfill",
        "schedules why",
        "schedules simulate",
    ),
    *(
        "schedules tick",
        "sensors list",
        "sensors look",
        "sensors why",
        "dead list",
        "dead show",
        "dead replay",
        "dead drop",
    ),
    *("logs list", "logs show", "logs search", "logs export"),
    *("models list", "models pull", "models use", "models probe", "models rm", "models stop"),
    *("mcp list", "mcp inspect", "mcp trust", "mcp serve"),
    *("users list", "users add", "users set", "users password", "users remove"),
    *("keys list", "keys create", "keys revoke", "token show", "token rotate", "token issue"),
    *("secrets set", "secrets list", "secrets remove", "secrets rotate", "db status", "db backup", "db restore"),
    *("policy check", "policy show", "policy simulate"),
    *("config show", "config trust"),
)
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\x07 \u202eevil\r\n\x08"
"""Sets the title, clears the screen, changes colours in two ways, rings, and writes backwards."""

SLEEP = long_sleep()
LOOK = Call("list_files", {"path": "."})
DONE = Finish(summary="all done", artifacts=["a.txt"], next_steps=[], notes="")
SCRIPT = Script(
    turns=(LOOK, DONE),
    named={
        "hang": (Turn(LOOK, faults=(Hang(),)), DONE),
        "hang-always": (Hang(times=99),),
        "sleep": (Call("shell", {"command": SLEEP}), DONE),
        "stubborn": (Call("shell", {"command": f"trap '' TERM INT; while true; do {SLEEP}; done"}), DONE),
        "gate": (Call("shell", {"command": "until [ -e open ]; do sleep 0.05; done"}), DONE, DONE),
        "refuse": (Status(400, times=99),),
        "slow": (LOOK, Slow(DONE, 1.0)),
        "hostile": (
            Calls((Call("shell", {"command": f"echo {shlex.quote(HOSTILE)}"}),), text=HOSTILE),
            Finish(summary=HOSTILE, artifacts=[HOSTILE], next_steps=[], notes=HOSTILE),
        ),
        "long": (
            *(Call("shell", {"command": f"echo {number}; seq 2000"}) for number in range(10)),
            DONE,
        ),
    },
)


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


@dataclass
class Fabric:
    """The `fabric` command with nothing of ours in its environment."""

    folder: Path
    """Where it is called."""
    home: Path
    configured: Mapping[str, Any]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.folder / ".fabric"

    def env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        self.home.mkdir(exist_ok=True)
        config = self.home / "config.json"
        configure(config, self.configured)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        ours = {"HOME": str(self.home), "TMPDIR": str(self.home), "FABRIC_CONFIG_PATH": str(config), "TERM": "xterm"}
        return {**kept, **ours, **self.environment, **(more or {})}

    async def start(
        self,
        *arguments: str | bytes,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        before: str = "",
        stdin: int = asyncio.subprocess.DEVNULL,
        stdout: int = asyncio.subprocess.PIPE,
        stderr: int = asyncio.subprocess.PIPE,
    ) -> Process:
        """Start it; `before` is Python that runs in its process first."""
        how: dict[str, Any] = {"cwd": cwd or self.folder, "env": self.env(env)}
        how |= {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        if not before:
            return await start_fabric(engineered(arguments), **how)
        code = f"{before}\nfrom agent_fabric.interfaces.cli.main import main; main()"
        return await asyncio.create_subprocess_exec(sys.executable, "-c", code, *engineered(arguments), **how)

    async def __call__(
        self, *arguments: str | bytes, given: bytes | None = None, timeout_s: float = PATIENCE_S, **how: Any
    ) -> Ended:
        stdin = asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE
        process = await self.start(*arguments, stdin=stdin, **how)
        return await ended(process, given, timeout_s=timeout_s)

    async def ids(self) -> list[str]:
        """The ids of all runs, the newest first."""
        runs = (await self("logs", "list", "--json", "--limit", "100")).json["runs"]
        return [run["run_id"] for run in runs]


async def ended(process: Process, given: bytes | None = None, *, timeout_s: float = PATIENCE_S) -> Ended:
    """Wait for the end, and check what holds for every command in every case."""
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate(given)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
        raise
    assert process.returncode is not None
    result = Ended(process.returncode, (out or b"").decode(), (err or b"").decode())
    require_no_trace(result.out + result.err)
    return result


def require_no_trace(text: str) -> None:
    assert "Traceback" not in text, text
    assert "itself failed" not in text, text


async def together(*commands: Any) -> list[Ended]:
    """Run independent commands side by side, so that both processors have something to do."""
    two = asyncio.Semaphore(3)

    async def one(command: Any) -> Ended:
        async with two:
            result: Ended = await command
            return result

    return list(await asyncio.gather(*(one(command) for command in commands)))


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(SCRIPT) as model:
        yield model


@pytest.fixture
def fabric(tmp_path: Path, model: ScriptedModel) -> Fabric:
    folder = tmp_path / "project"
    folder.mkdir()
    return Fabric(folder, tmp_path / "home", configuration(model.base_url))


@pytest.fixture
def alone(tmp_path: Path) -> Fabric:
    """A fabric whose model nobody serves."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Fabric(folder, tmp_path / "home", configuration("http://127.0.0.1:9/v1"))


def configuration(base_url: str) -> dict[str, Any]:
    quality = {"base_url": base_url, "model": "scripted", "backend": "generic", "connect_timeout_s": 2}
    return {"models": {"quality": quality}, "local_llm_ensure_available": False}


def runlog(fabric: Fabric, run_id: str) -> list[dict[str, Any]]:
    data = (fabric.root / "runs" / run_id / "runlog.jsonl").read_bytes()
    return [json.loads(line) for line in data.splitlines()]


async def begun(fabric: Fabric, model: ScriptedModel, script: str, *more: str) -> Process:
    """Start a run and wait until its model has been asked."""
    asked = len(model.requests)
    process = await fabric.start("run", f"[[script={script}]]", *more)
    await model.wait_for_requests(asked + 1, timeout_s=PATIENCE_S)
    return process


async def command_began() -> None:
    """Wait until the command of the only run is there."""
    await until(lambda: running(SLEEP), "the command began")


# --- help, version, mistakes


@pytest.mark.proves("AF-026")
async def test_help_needs_no_server_no_model_and_no_folder(alone: Fabric) -> None:
    asked = [[], ["--help"], ["-h"], ["help"], *([name, "--help"] for name in COMMANDS)]
    answers = await together(*(alone(*arguments) for arguments in asked), alone("--version"))
    for arguments, answer in zip(asked, answers, strict=False):
        assert (answer.code, answer.err) == (0, ""), arguments
        assert "Usage: fabric" in answer.out
        assert "\x1b" not in answer.out
    assert all(name in answers[0].out for name in COMMANDS)
    assert answers[-1] == Ended(0, f"agent-fabric {__version__}\n", "")
    assert list(alone.folder.iterdir()) == []


def test_every_command_below_another_has_help_too(capsys: pytest.CaptureFixture[str]) -> None:
    for name in SUBCOMMANDS:
        command, *rest = name.split()
        assert invoke(command, [*rest, "--help"]) == 0
        shown = capsys.readouterr()
        assert (shown.out.split(" [OPTIONS]")[0].strip(), shown.err) == (f"Usage: fabric {name}", "")
        assert "\x1b" not in shown.out


@pytest.mark.proves("AF-021", "AF-023", "AF-024", "AF-025")
async def test_every_option_of_the_seeds_is_offered(alone: Fabric) -> None:
    run, listed, shown, searched = await together(
        alone("run", "--help"),
        alone("logs", "list", "--help"),
        alone("logs", "show", "--help"),
        alone("logs", "search", "--help"),
    )
    for option in ("--pack", "--model-key", "--network-allowed", "--no-network-allowed", "--verbose"):
        assert option in run.out
    assert {"--workspace", "--limit"} <= set(re.findall(r"--[a-z-]+", listed.out))
    assert {"--workspace", "--kinds"} <= set(re.findall(r"--[a-z-]+", shown.out))
    assert {"--workspace", "--limit"} <= set(re.findall(r"--[a-z-]+", searched.out))


MISTAKES: Mapping[str, Sequence[str]] = {
    "no run chosen": ("resume", "--verbose"),
    "two runs chosen": ("resume", "abc", "--last"),
    "empty task": ("run", ""),
    "task of spaces": ("run", " \n\t "),
    "empty standard input": ("run", "-"),
    "unknown pack": ("run", "x", "--pack", "plumbing"),
    "unknown model": ("run", "x", "--model-key", "best"),
    "unknown run": ("cancel", "ffffffff"),
    "unknown run to show": ("logs", "show", "ffffffff"),
    "nothing to resume": ("resume", "--last"),
}
MISTYPED: Mapping[str, Sequence[str]] = {
    "unknown option": ("run", "--colour", "x"),
    "unknown subcommand": ("logs", "lsit"),
    "missing argument": ("run", "--verbose"),
    "missing id": ("cancel", "--reason", "x"),
    "not a number": ("run", "x", "--max-steps", "many"),
    "number too small": ("run", "x", "--max-steps", "0"),
    "limit too small": ("logs", "list", "--limit", "0"),
}


async def require_explained(fabric: Fabric, mistakes: Mapping[str, Sequence[str]]) -> None:
    answers = await together(
        *(fabric(*arguments) for arguments in mistakes.values()),
        *(fabric(*arguments, "--json") for arguments in mistakes.values()),
    )
    for name, words, as_json in zip(mistakes, answers, answers[len(mistakes) :], strict=False):
        assert (words.code, words.out) == (2, ""), name
        assert words.err.startswith("error: "), name
        assert "hint: " in words.err, name
        assert (as_json.code, as_json.err) == (2, ""), name
        assert as_json.json["error"]["code"], name
        assert as_json.json["error"]["message"], name
        assert as_json.json["_meta"]["status"] is None, name
    assert not fabric.root.exists() or not list((fabric.root / "runs").iterdir())


async def test_a_mistake_is_explained_with_exit_code_two(alone: Fabric) -> None:
    await require_explained(alone, MISTAKES)


async def test_what_is_mistyped_is_explained_with_exit_code_two(alone: Fabric) -> None:
    """Typer brings its own click: its errors are not those of the package click."""
    await require_explained(alone, MISTYPED)


async def test_following_cannot_be_one_object(fabric: Fabric) -> None:
    await fabric("run", "look")
    answer = await fabric("logs", "show", (await fabric.ids())[0], "--follow", "--json")
    assert answer.code == 2
    assert answer.json["error"]["hint"]


async def test_an_unknown_command_is_answered_with_the_nearest_one(alone: Fabric) -> None:
    near, far, option = await together(alone("rnu", "x"), alone("xyzzy"), alone("--verbose"))
    assert (near.code, near.out) == (2, "")
    assert "Did you mean `fabric run`?" in near.err
    assert far.code == option.code == 2
    assert "fabric --help" in far.err


async def test_an_unknown_command_with_json_is_one_object(alone: Fabric) -> None:
    answer = await alone("rnu", "--json")
    assert answer.code == 2
    assert "fabric run" in answer.json["error"]["hint"]


# --- tasks


@pytest.mark.proves("AF-020", "AF-130", "AF-131", "AF-133")
async def test_a_task_is_done_and_everything_about_it_is_kept(fabric: Fabric) -> None:
    (words, as_json) = await together(fabric("run", "look around"), fabric("run", "look around", "--json"))
    assert words.code == as_json.code == 0
    assert "completed" in words.out
    assert "all done" in words.out
    run_id = as_json.json["_meta"]["run_id"]
    assert as_json.err == ""
    assert as_json.json["summary"] == "all done"
    assert as_json.json["_meta"]["status"] == "completed"
    assert Path(as_json.json["_meta"]["run_dir"]) == fabric.root / "runs" / run_id
    assert (fabric.root / "runs" / run_id / "workspace").is_dir()
    kinds = [line["kind"] for line in runlog(fabric, run_id)]
    assert kinds == [
        *("run_created", "recruitment", "pack_start", "llm_request", "llm_response", "tool_call", "tool_result"),
        *("llm_request", "llm_response", "workspace_compared", "tool_call", "tool_result", "run_complete"),
    ]
    assert (fabric.root / ".gitignore").read_text() == "*\n"
    for text in (words.out, words.err, as_json.out):
        assert "\x1b" not in text, "no terminal, no escape codes"


ODD_TASKS: Mapping[str, tuple[Sequence[str | bytes], bytes | None, str]] = {
    "from standard input": (("run", "-"), "Grüße\n  zwei\n".encode(), "Grüße\n  zwei"),
    "bytes that are no text, as an argument": (("run", b"\xff\xfe \x80 \xed\xa0\x80 end"), None, "end"),
    "bytes that are no text, from standard input": (("run", "-"), bytes(range(1, 256)), "abc"),
    "several lines": (("run", "one\ntwo\r\nthree"), None, "one\ntwo\r\nthree"),
    "a leading dash": (("run", "--", "--help me"), None, "--help me"),
    "control characters": (("run", HOSTILE), None, "evil"),
    "a number": (("run", "42"), None, "42"),
    "options behind it": (("run", "x", "--no-ensure", "--no-network-allowed", "--max-steps", "7"), None, "x"),
    "a pack and a model": (("run", "--pack", "engineering", "--model-key", "quality", "-v", "y"), None, "y"),
}


@pytest.mark.parametrize("odd", ODD_TASKS)
async def test_odd_tasks_reach_the_model_as_text(fabric: Fabric, model: ScriptedModel, odd: str) -> None:
    arguments, given, expected = ODD_TASKS[odd]
    answer = await fabric(*arguments, given=given)
    assert answer.code == 0, answer.err
    opening = model.requests[0].body["messages"][1]["content"]
    assert expected in opening
    opening.encode()  # no surrogates
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", answer.out.replace("\n", ""))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", answer.err.replace("\n", ""))
    if odd == "options behind it":
        created = runlog(fabric, (await fabric.ids())[0])[0]["payload"]
        assert created["network_allowed"] is False
        assert created["budget"]["max_steps"] == 7


async def test_a_task_of_a_million_characters_is_the_most(fabric: Fabric, model: ScriptedModel) -> None:
    good, long, longer = await together(
        fabric("run", "-", "--json", given=b"x" * 1_000_000),
        fabric("run", "-", "--json", given=b"x" * 2_000_000),
        fabric("run", "-", given="ü".encode() * 5_000_000),
    )
    assert good.code == 0
    assert len(model.requests[0].body["messages"][1]["content"]) == 1_000_000
    assert (long.code, longer.code) == (2, 2)
    assert "1,000,000" in long.json["error"]["message"]
    (listed,) = (await fabric("logs", "list", "--json")).json["runs"]
    assert len(listed["prompt"]) == 1_000_000


# --- what is printed, and where


async def test_a_model_cannot_steer_the_terminal(fabric: Fabric) -> None:
    (answer,) = await together(fabric("run", "[[script=hostile]]", "-v"))
    shown = await fabric("logs", "show", (await fabric.ids())[0])
    for text in (answer.out, answer.err, shown.out):
        assert "evil" in text
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text), repr(text)
    assert not re.search("[\x80-\x9f\u202e]", answer.out + answer.err)


async def test_a_log_cannot_steer_the_terminal_with_c1_codes(fabric: Fabric) -> None:
    result = await fabric("run", "[[script=hostile]]", "--json")
    shown = await fabric("logs", "show", result.json["_meta"]["run_id"])
    assert not re.search("[\x7f-\x9f\u202e]", shown.out)
    assert not re.search("[\x7f-\x9f\u202e]", result.out)


class Screen:
    """What a pseudo-terminal received."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, b"\x28\x00\x78\x00\x00\x00\x00\x00")
        os.set_blocking(self.ours, False)
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self) -> str:
        with contextlib.suppress(BlockingIOError):
            try:
                while data := os.read(self.ours, 65_536):
                    self.text += self._decoder.decode(data)  # a piece may end within a character
            except OSError as problem:
                if problem.errno != errno.EIO:
                    raise
        return self.text

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


async def on_a_terminal(fabric: Fabric, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    screen = Screen()
    try:
        process = await fabric.start(
            *arguments, env=env, stdin=screen.theirs, stdout=screen.theirs, stderr=screen.theirs
        )
        async with asyncio.timeout(PATIENCE_S):
            waiting = asyncio.create_task(process.wait())
            while not waiting.done():
                screen.read()
                await asyncio.sleep(0.02)
        require_no_trace(screen.read())
        return waiting.result(), screen.text
    finally:
        screen.close()


async def test_a_terminal_sees_a_live_line_and_colours_unless_it_does_not_want_them(fabric: Fabric) -> None:
    (code, colourful), (_, plain), (_, hostile) = await asyncio.gather(
        on_a_terminal(fabric, "run", "look"),
        on_a_terminal(fabric, "run", "look", env={"NO_COLOR": "1"}),
        on_a_terminal(fabric, "run", "[[script=hostile]]", "-v"),
    )
    assert code == 0
    assert "\x1b[32mcompleted\x1b[0m" in colourful
    assert "asking scripted …\r\x1b[2K" in colourful
    assert "asking scripted …\r\x1b[2K" in plain
    assert not re.search(r"\x1b\[\d*m", plain)
    left = re.sub(r"\x1b\[(\d*m|2K)", "", hostile)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", left), repr(left)
    assert "\x1b[2J" not in hostile


async def test_a_dumb_terminal_gets_no_escape_codes_at_all(fabric: Fabric) -> None:
    _, text = await on_a_terminal(fabric, "run", "look", env={"TERM": "dumb"})
    assert "\x1b" not in text


async def test_a_terminal_gets_a_transcript_with_colours_folded_and_paged(fabric: Fabric) -> None:
    await fabric("run", "[[script=long]]")
    show = ("logs", "show", "--last")
    env = {"PAGER": "sed 's/^/> /'"}
    (code, paged), (_, whole), (_, plain), (_, unpaged), (_, empty), (_, missing) = await asyncio.gather(
        on_a_terminal(fabric, *show, env=env),
        on_a_terminal(fabric, *show, "--full", env=env),
        on_a_terminal(fabric, *show, env=env | {"NO_COLOR": "1"}),
        on_a_terminal(fabric, *show, env=env | {"NO_PAGER": "1"}),
        on_a_terminal(fabric, *show, env={"PAGER": ""}),
        on_a_terminal(fabric, *show, env={"PAGER": "no-such-pager --option"}),
    )
    assert code == 0
    assert all(line.startswith("> ") for line in paged.splitlines())
    assert "\x1b[32mcompleted\x1b[0m" in paged
    assert "characters, folded; --full shows it" in paged
    assert "more lines, folded; --full shows it" in paged
    assert "careful software engineer" not in paged
    assert "careful software engineer" in whole
    assert "folded" not in whole
    assert "1999" in whole
    assert "\x1b" not in plain
    assert {line[:2] for line in plain.splitlines()} == {"> "}
    for text in (unpaged, empty, missing):
        assert text.startswith("\x1b[1mrun ")


async def test_less_shows_colours_and_ends_if_all_fits_unless_it_is_told_otherwise(fabric: Fabric) -> None:
    await fabric("run", "look")
    show = ("logs", "show", "--last")
    (_, default), (_, own) = await asyncio.gather(
        on_a_terminal(fabric, *show, env={"PAGER": "echo LESS=$LESS; cat"}),
        on_a_terminal(fabric, *show, env={"PAGER": "echo LESS=$LESS; cat", "LESS": "S"}),
    )
    assert default.startswith("LESS=FRX\r\n")
    assert own.startswith("LESS=S\r\n")


async def test_leaving_the_pager_is_no_error(fabric: Fabric) -> None:
    await fabric("run", "[[script=long]]")
    code, text = await on_a_terminal(fabric, "logs", "show", "--last", "--full", env={"PAGER": "head -n 1"})
    assert (code, text.count("\n")) == (0, 1)


async def test_ctrl_c_in_the_pager_is_the_pagers(fabric: Fabric, tmp_path: Path) -> None:
    await fabric("run", "[[script=long]]")
    screen = Screen()
    try:
        mark = tmp_path / "waits"
        pager = f"head -n 1; touch {mark}; while [ -e {mark} ]; do sleep 0.02; done; cat > /dev/null; echo all read"
        process = await fabric.start(
            *("logs", "show", "--last", "--full"),
            env={"PAGER": pager},
            stdin=screen.theirs,
            stdout=screen.theirs,
            stderr=screen.theirs,
        )
        await until(mark.exists, "the pager reads")
        process.send_signal(signal.SIGINT)
        mark.unlink()
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == 0
        assert "all read" in screen.read()
    finally:
        screen.close()


async def cut_off(fabric: Fabric, *arguments: str) -> Ended:
    """Run a command whose reader leaves after the first bytes."""
    reading, writing = os.pipe()
    process = await fabric.start(*arguments, stdout=writing)
    os.close(writing)
    await asyncio.to_thread(os.read, reading, 100)
    os.close(reading)
    return await ended(process)


async def test_whoever_reads_only_the_beginning_gets_no_complaint(fabric: Fabric) -> None:
    result = await fabric("run", "[[script=long]]", "--json")
    answer = await cut_off(fabric, "logs", "show", result.json["_meta"]["run_id"], "--full")
    assert answer.err == ""


async def test_whoever_reads_only_the_beginning_gets_exit_code_zero(fabric: Fabric) -> None:
    result = await fabric("run", "[[script=long]]", "--json")
    answer = await cut_off(fabric, "logs", "show", result.json["_meta"]["run_id"], "--full")
    assert answer.code == 0


async def test_a_viewer_that_leaves_does_not_stop_the_run(fabric: Fabric) -> None:
    reading, writing = os.pipe()
    process = await fabric.start("run", "look", stderr=writing)
    os.close(writing)
    os.close(reading)
    answer = await ended(process)
    (run,) = (await fabric("logs", "list", "--json")).json["runs"]
    assert run["status"] == "completed"
    assert answer.code == 0


async def test_a_full_disk_behind_the_output_is_explained(alone: Fabric) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        answer = await ended(await alone.start("--help", stdout=full))
    finally:
        os.close(full)
    assert answer.code == 1
    assert "error: " in answer.err


async def test_a_closed_output_is_no_reason_for_a_traceback(alone: Fabric) -> None:
    await alone("--help", before="import sys; sys.stdout = None")


async def test_a_closed_input_is_an_empty_one(alone: Fabric) -> None:
    answer = await alone("run", "-", before="import sys; sys.stdin = None")
    assert answer.code == 2


async def test_an_output_that_knows_only_ascii_still_gets_the_result(fabric: Fabric) -> None:
    answer = await fabric("run", "look", env={"PYTHONIOENCODING": "ascii"})
    assert answer.code == 0
    assert "completed" in answer.out


# --- failing, stopping, going on


@pytest.mark.proves("C31")
async def test_a_run_that_fails_says_so_and_says_it_again(fabric: Fabric) -> None:
    words, as_json = await together(fabric("run", "[[script=refuse]]"), fabric("run", "[[script=refuse]]", "--json"))
    assert words.code == as_json.code == 1
    assert "failed" in words.out
    assert as_json.json["_meta"]["status"] == "failed"
    assert as_json.json["error"]["code"] == "model_refused"
    assert as_json.json["error"]["hint"]
    run_id = as_json.json["_meta"]["run_id"]
    again, last = await together(fabric("resume", run_id, "--json"), fabric("resume", "--last"))
    assert again.code == last.code == 1
    assert again.json == as_json.json
    assert [line["kind"] for line in runlog(fabric, run_id)].count("run_failed") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_stop_while_the_model_is_asked_leaves_a_run_that_goes_on(
    fabric: Fabric, model: ScriptedModel, number: signal.Signals
) -> None:
    process = await begun(fabric, model, "hang")
    process.send_signal(number)
    stopped = await ended(process)
    assert stopped.code == 130
    (run_id,) = await fabric.ids()
    assert "interrupted" in stopped.out
    assert f"fabric resume {run_id}" in stopped.out
    assert runlog(fabric, run_id)[-1]["kind"] == "run_interrupted"
    resumed = await fabric("resume", "--last", "--json")
    assert resumed.code == 0
    assert resumed.json["_meta"]["run_id"] == run_id


@pytest.mark.parametrize("script", ["sleep", "stubborn"])
async def test_a_stop_while_a_command_runs_ends_the_command_too(
    fabric: Fabric, model: ScriptedModel, script: str
) -> None:
    process = await begun(fabric, model, script, "--json")
    await command_began()
    process.send_signal(signal.SIGINT)
    stopped = await ended(process)
    assert stopped.code == 130
    assert stopped.json["_meta"]["status"] == "interrupted"
    await until(lambda: not running(SLEEP), "the command ended")
    resumed = await fabric("resume", stopped.json["_meta"]["run_id"][:8], "--json")
    assert resumed.code == 0
    assert resumed.json["_meta"]["status"] == "completed"


async def test_an_impatient_person_gets_the_same_end(fabric: Fabric, model: ScriptedModel) -> None:
    process = await begun(fabric, model, "stubborn", "--json")
    await command_began()
    for _ in range(10):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.005)
    stopped = await ended(process)
    await until(lambda: not running(SLEEP), "the command ended")
    assert stopped.code == 130
    assert stopped.json["_meta"]["status"] == "interrupted"


async def test_a_stop_during_the_start_is_quiet(alone: Fabric) -> None:
    interrupt = (
        "import os, signal, sys\n"
        "class Hook:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Hook())\n"
    )
    answer = await alone("run", "x", before=interrupt)
    assert answer.code == 130


def is_store(open_file: Path) -> bool:
    with contextlib.suppress(OSError):  # closed meanwhile
        return open_file.readlink().name == "fabric.db"
    return False


async def test_a_stop_before_the_run_is_created_is_one_object_too(fabric: Fabric) -> None:
    await fabric("run", "first")
    other = apsw.Connection(str(fabric.root / "fabric.db"))
    other.execute("BEGIN IMMEDIATE")
    try:
        begun_at = time.monotonic()
        process = await fabric.start("run", "second", "--json")
        files = Path(f"/proc/{process.pid}/fd")
        await until(lambda: any(map(is_store, files.iterdir())), "it opened the store", timeout_s=PATIENCE_S)
        await asyncio.sleep(max(0.5, (time.monotonic() - begun_at) / 2))  # now it wants to write
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
    finally:
        other.execute("ROLLBACK")
        other.close()
    answer = await ended(process)
    assert answer.code == 130
    assert answer.json["_meta"]["status"] == "interrupted"


@pytest.mark.slow
async def test_a_locked_store_does_not_keep_a_person_from_stopping(fabric: Fabric, model: ScriptedModel) -> None:
    """Another process may hold the file for long; Ctrl-C must be heard within seconds all the same."""
    process = await begun(fabric, model, "slow")
    other = apsw.Connection(str(fabric.root / "fabric.db"))
    other.set_busy_timeout(5_000)
    other.execute("BEGIN IMMEDIATE")
    await asyncio.sleep(1.5)  # the model answers, and the answer cannot be recorded
    try:
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.5)
    finally:
        other.execute("ROLLBACK")
        other.close()
    answer = await ended(process)
    assert answer.code in (0, 130)
    assert (await fabric("resume", "--last")).code == 0


async def test_a_second_driver_is_refused_and_told_who_has_it(fabric: Fabric, model: ScriptedModel) -> None:
    process = await begun(fabric, model, "gate", "--json")
    (run_id,) = await fabric.ids()
    words, as_json = await together(fabric("resume", run_id), fabric("resume", run_id, "--json"))
    assert (words.code, as_json.code) == (1, 1)
    assert f"process {process.pid} on" in words.err
    assert as_json.json["error"]["code"] == "run_held"
    assert f"process {process.pid} on" in as_json.json["error"]["message"]
    (fabric.root / "runs" / run_id / "workspace" / "open").touch()
    assert (await ended(process)).code == 0, "the holder goes on"
    kinds = [line["kind"] for line in runlog(fabric, run_id)]
    assert kinds.count("run_complete") == 1
    assert "run_resumed" not in kinds


async def test_cancelling_ends_a_run_from_anywhere(fabric: Fabric, model: ScriptedModel) -> None:
    process = await begun(fabric, model, "hang-always", "--json")
    looked = time.monotonic()
    (run_id,) = await fabric.ids()
    started = time.monotonic()
    cancelled = await fabric("cancel", run_id[:13], "--reason", "enough", "--json")
    ours = await ended(process)
    most = max(3.5, 3 * (started - looked))
    assert time.monotonic() - started < most, "less than two seconds, and two starts of Python"
    assert (cancelled.code, ours.code) == (0, 1)
    assert cancelled.json["_meta"]["status"] == ours.json["_meta"]["status"] == "cancelled"
    assert ours.json["error"]["code"] == "cancelled"
    assert ours.json["error"]["hint"] == "enough"
    again, resumed = await together(fabric("cancel", run_id), fabric("resume", run_id))
    assert again.code == 0
    assert resumed.code == 1
    assert [line["kind"] for line in runlog(fabric, run_id)].count("run_cancelled") == 1


async def test_cancelling_what_stands_still_or_has_ended(fabric: Fabric, model: ScriptedModel) -> None:
    process = await begun(fabric, model, "hang-always")
    process.kill()
    await process.communicate()
    dead = (await fabric.ids())[0]
    done = (await fabric("run", "look", "--json")).json["_meta"]["run_id"]
    listed = (await fabric("logs", "list")).out
    assert "interrupted" in listed
    stopped, late, unknown = await together(fabric("cancel", dead), fabric("cancel", done), fabric("cancel", "ffff"))
    assert stopped == Ended(0, f"Run {dead} is cancelled.\n", "")
    assert late == Ended(1, f"Run {done} had already ended: completed.\n", "")
    assert unknown.code == 2


async def test_a_killed_run_goes_on_and_its_log_is_whole(fabric: Fabric, model: ScriptedModel) -> None:
    process = await begun(fabric, model, "hang")
    (run_id,) = await fabric.ids()
    log = fabric.root / "runs" / run_id / "runlog.jsonl"
    await until(lambda: log.exists() and len(runlog(fabric, run_id)) == 4, "the log has followed")
    process.kill()
    await process.communicate()
    log.write_bytes(log.read_bytes()[:-15])
    other = await fabric("run", "something else")
    assert other.code == 0
    assert [line["seq"] for line in runlog(fabric, run_id)] == [0, 1, 2, 3], "the next start has repaired it"
    assert (await fabric("resume", run_id)).code == 0
    assert [line["seq"] for line in runlog(fabric, run_id)] == list(range(len(runlog(fabric, run_id))))


async def test_a_run_without_its_workspace_is_not_driven(fabric: Fabric, model: ScriptedModel) -> None:
    process = await begun(fabric, model, "hang")
    process.send_signal(signal.SIGINT)
    await ended(process)
    (run_id,) = await fabric.ids()
    (fabric.root / "runs" / run_id / "workspace").rmdir()
    answer = await fabric("resume", run_id, "--json")
    assert answer.code == 1
    assert answer.json["error"]["code"] == "run_undrivable"


# --- looking


@pytest.mark.proves("AF-023", "AF-024", "AF-025", "AF-148")
async def test_runs_can_be_listed_shown_searched_and_exported(fabric: Fabric) -> None:
    for prompt in ("apples and pears", "[[script=refuse]] plums"):
        await fabric("run", prompt)
    second, first = await fabric.ids()
    listed, one, found, none, shown, kinds, whole, as_json = await together(
        fabric("logs", "list"),
        fabric("logs", "list", "--limit", "1"),
        fabric("logs", "search", "PEARS nothing"),
        fabric("logs", "search", "quinces"),
        fabric("logs", "show", first, "--jsonl"),
        fabric("logs", "show", first, "--jsonl", "--kinds", "llm_request, tool_call"),
        fabric("logs", "show", first, "--jsonl", "--full"),
        fabric("logs", "show", first, "--json", "--kinds", "run_complete"),
    )
    assert [line.split()[0] for line in listed.out.splitlines()] == [second, first]
    assert [line.split()[3] for line in listed.out.splitlines()] == ["failed", "completed"]
    assert [line.split()[0] for line in one.out.splitlines()] == [second]
    assert [line.split()[0] for line in found.out.splitlines()] == [first]
    assert none == Ended(0, "", "No runs.\n")
    assert [json.loads(line) for line in shown.out.splitlines()] == runlog(fabric, first)
    assert {json.loads(line)["kind"] for line in kinds.out.splitlines()} == {"llm_request", "tool_call"}
    assert len(whole.out.splitlines()) == len(shown.out.splitlines())
    assert [event["kind"] for event in as_json.json["events"]] == ["run_complete"]
    before = runlog(fabric, first), (fabric.root / "run_index.jsonl").read_bytes()
    for run_id in (first, second):
        (fabric.root / "runs" / run_id / "runlog.jsonl").unlink()
    (fabric.root / "run_index.jsonl").unlink()
    single = await fabric("logs", "export", first)
    assert single == Ended(0, f"{fabric.root / 'runs' / first / 'runlog.jsonl'}\n", "")
    assert runlog(fabric, first) == before[0]
    assert not (fabric.root / "runs" / second / "runlog.jsonl").exists()
    everything = await fabric("logs", "export")
    assert len(everything.out.splitlines()) == 3
    assert runlog(fabric, second)[-1]["kind"] == "run_failed"
    index = [json.loads(line) for line in (fabric.root / "run_index.jsonl").read_bytes().splitlines()]
    assert [line["run_id"] for line in index] == [first, second]


async def test_following_ends_when_the_run_settles(fabric: Fabric, model: ScriptedModel) -> None:
    process = await begun(fabric, model, "slow")
    (run_id,) = await fabric.ids()
    followed, _ = await asyncio.gather(fabric("logs", "show", run_id, "--follow", "--jsonl"), ended(process))
    assert followed.code == 0
    assert json.loads(followed.out.splitlines()[-1])["kind"] == "run_complete"
    assert [json.loads(line)["seq"] for line in followed.out.splitlines()] == list(range(13))


async def test_a_follower_can_be_stopped(fabric: Fabric, model: ScriptedModel) -> None:
    process = await begun(fabric, model, "hang-always")
    (run_id,) = await fabric.ids()
    follower = await fabric.start("logs", "show", run_id, "-f")
    assert follower.stdout is not None
    await follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    assert (await ended(follower)).code == 130
    process.send_signal(signal.SIGTERM)
    assert (await ended(process)).code == 130


async def test_an_ambiguous_beginning_is_told_with_the_choices(fabric: Fabric) -> None:
    await fabric("run", "look")
    connection = apsw.Connection(str(fabric.root / "fabric.db"))
    connection.execute("UPDATE runs SET run_id = 'aa11'")
    connection.execute("INSERT INTO runs (run_id, status, created_at) VALUES ('aa22', 'completed', 1.0)")
    connection.close()
    answer = await fabric("logs", "show", "aa", "--json")
    assert answer.code == 2
    assert "aa11" in answer.json["error"]["hint"]
    assert "aa22" in answer.json["error"]["hint"]


async def test_an_id_that_is_no_text_is_an_unknown_one(fabric: Fabric) -> None:
    await fabric("run", "look")
    answer = await fabric("logs", "show", b"\xff")
    assert answer.code == 2


# --- folders


async def test_the_nearest_folder_upwards_is_used(fabric: Fabric) -> None:
    deep = fabric.folder / "src" / "deep"
    deep.mkdir(parents=True)
    await fabric("run", "look")
    await fabric("run", "look", cwd=deep)
    assert not (deep / ".fabric").exists()
    assert len(await fabric.ids()) == 2
    elsewhere = fabric.folder / "else where"
    await fabric("run", "look", "--workspace", str(elsewhere))
    assert (elsewhere / "fabric.db").exists()
    assert (elsewhere / ".gitignore").read_text() == "*\n"
    listed = await fabric("logs", "list", "--workspace", "else where")
    assert len(listed.out.splitlines()) == 1


async def test_looking_makes_nothing(alone: Fabric) -> None:
    listed, found, shown = await together(alone("logs", "list"), alone("logs", "search", "x"), alone("logs", "export"))
    assert (listed.code, found.code, shown.code) == (0, 0, 2)
    assert list(alone.folder.iterdir()) == []


BAD_FOLDERS = ("a file", "below a file", "a file named .fabric")


@pytest.mark.parametrize("bad", BAD_FOLDERS)
async def test_a_folder_that_cannot_be_made_is_explained(fabric: Fabric, bad: str) -> None:
    (fabric.folder / "file").touch()
    if bad == "a file named .fabric":
        (fabric.folder / ".fabric").touch()
        answer = await fabric("run", "look", "--json")
    else:
        place = fabric.folder / "file" if bad == "a file" else fabric.folder / "file" / "below"
        answer = await fabric("run", "look", "--workspace", str(place), "--json")
    assert answer.code in (1, 2)
    assert answer.json["error"]["hint"]


@pytest.mark.skipif(
    os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a folder that root cannot write"
)
async def test_a_folder_that_may_not_be_written_is_explained(fabric: Fabric) -> None:
    where = fabric.folder
    if os.geteuid() == 0:
        where = Path("/proc/self")  # root may write everywhere else
    else:
        where.chmod(0o500)
    answer = await fabric("run", "look", cwd=where)
    assert answer.code == 2
    assert "--workspace" in answer.err


async def test_a_folder_that_is_gone_is_explained(alone: Fabric) -> None:
    gone = alone.folder / "gone"
    gone.mkdir()
    answer = await alone("logs", "list", cwd=gone, before="import os; os.rmdir(os.getcwd())")
    assert answer.code == 2


async def test_a_folder_whose_name_is_no_text_works_or_is_explained(fabric: Fabric) -> None:
    odd = os.fsencode(fabric.folder) + b"/caf\xe9"
    os.mkdir(odd)  # noqa: PTH102 - pathlib has no bytes
    answer = await fabric("run", "look", cwd=Path(os.fsdecode(odd)))
    assert answer.code == 0 or "hint: " in answer.err


async def test_an_empty_folder_name_is_refused(fabric: Fabric) -> None:
    answer = await fabric("run", "look", "--workspace", "")
    assert answer.code == 2
    assert list(fabric.folder.iterdir()) == []


async def test_a_store_that_is_damaged_or_newer_is_explained(fabric: Fabric) -> None:
    await fabric("run", "look")
    database = fabric.root / "fabric.db"
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    newer = await fabric("run", "look", "--json")
    assert newer.code == 1
    assert "newer agent-fabric" in newer.json["error"]["message"]
    for side in fabric.root.glob("fabric.db-*"):
        side.unlink()
    database.write_bytes(b"nonsense " * 1_000)
    for answer in await together(fabric("logs", "list"), fabric("resume", "--last"), fabric("cancel", "x")):
        assert answer.code == 1
        assert "not a usable database" in answer.err
        assert "hint: " in answer.err


# --- configuration


@pytest.mark.proves("AF-150", "AF-153")
async def test_a_configuration_is_read_in_three_languages(alone: Fabric) -> None:
    texts = {
        "c.json": '{"models": {"quality": {"base_url": "http://one.example/v1", "model": "m"}}}',
        "c.yaml": "models:\n  quality:\n    base_url: http://one.example/v1\n    model: m\n",
        "c.toml": '[models.quality]\nbase_url = "http://one.example/v1"\nmodel = "m"\n',
    }
    alone.home.mkdir()
    for name, text in texts.items():
        (alone.home / name).write_text(text)
    paths = [str(alone.home / name) for name in texts]
    shown = await together(
        *(alone("config", "show", env={"FABRIC_CONFIG_PATH": path}) for path in paths),
        alone("config", "show", "--origin", env={"FABRIC_CONFIG_PATH": paths[0]}),
        alone(
            "config",
            "show",
            "--origin",
            "--json",
            env={"FABRIC_CONFIG_PATH": paths[0], "FABRIC_BUDGET__MAX_STEPS": "3"},
        ),
    )
    for answer in shown[:3]:
        assert answer.code == 0
        assert answer.json["models"]["quality"]["base_url"] == "http://one.example/v1"
    assert f'models.quality.model = "m"  [file {paths[0]}]' in shown[3].out
    assert "[default]" in shown[3].out
    assert shown[4].json["budget.max_steps"] == {"value": 3, "origin": "env FABRIC_BUDGET__MAX_STEPS"}
    assert list(alone.folder.iterdir()) == []


WRONG = {
    "unknown key": ("c.json", '{"modles": {}}'),
    "wrong type": ("c.yaml", "budget:\n  max_steps: many\n"),
    "not JSON": ("c.json", "{"),
    "not YAML": ("c.yaml", "a: [\n"),
    "not TOML": ("c.toml", "a = = 1\n"),
    "a list": ("c.json", "[1, 2]"),
    "unknown ending": ("c.ini", "[a]\n"),
    "not text": ("c.json", "\udcff\udcfe"),
    "missing": ("", ""),
}


async def test_a_wrong_configuration_is_explained(alone: Fabric) -> None:
    alone.home.mkdir()
    paths = [alone.home / f"{number}-{name or 'missing.json'}" for number, (name, _) in enumerate(WRONG.values())]
    for path, (name, text) in zip(paths, WRONG.values(), strict=True):
        if name:
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
    answers = await together(
        *(alone("run", "x", env={"FABRIC_CONFIG_PATH": str(path)}) for path in paths),
        *(alone("run", "x", "--json", env={"FABRIC_CONFIG_PATH": str(path)}) for path in paths),
    )
    for wrong, path, words, as_json in zip(WRONG, paths, answers, answers[len(paths) :], strict=False):
        assert words.code == as_json.code == 2, wrong
        assert words.err.startswith("error: "), wrong
        assert as_json.json["error"]["code"] == "config_invalid"
        assert path.name in as_json.json["error"]["message"] + as_json.json["error"]["hint"], wrong
    assert not alone.root.exists()


# --- completion


async def test_bash_completes_commands_and_options(alone: Fabric) -> None:
    def asked(words: str, number: int) -> dict[str, str]:
        return {"_FABRIC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}

    commands, sub, options, script, named = await together(
        alone(env=asked("fabric ", 1)),
        alone(env=asked("fabric logs s", 2)),
        alone(env=asked("fabric run --no", 2)),
        alone("--show-completion", "bash", env={"SHELL": "/bin/bash"}),
        alone(env=asked("fabric xyzzy ", 2)),
    )
    assert sorted(commands.out.split()) == sorted(COMMANDS)
    assert sub.out.split() == ["search", "show"]
    assert options.out.split() == ["--no-network-allowed", "--no-outside", "--no-ensure"]
    assert "complete -o default -F _fabric_completion fabric" in script.out
    assert (named.code, named.err) == (0, "")


@pytest.mark.proves("DU-10")
async def test_bash_offers_no_file_names_where_a_value_of_a_server_belongs(alone: Fabric, tmp_path: Path) -> None:
    installed = await alone("--install-completion", "bash", env={"HOME": str(tmp_path)})
    assert installed.code == 0, installed.err
    script = (tmp_path / ".bash_completions" / "fabric.sh").read_text()
    assert (await alone("--show-completion", "bash")).out == script

    def asked(code: int) -> str:
        """Complete with a stand-in for `fabric` that offers nothing; say whether file names are switched off."""
        lines = [script, "compopt() { echo compopt $*; }", f"stub() {{ exit {code}; }}", "env() { stub; }"]
        lines += ["COMP_WORDS=(fabric diff ''); COMP_CWORD=2", "_fabric_completion fabric"]
        bash = shutil.which("bash") or ""
        return subprocess.run([bash, "-c", "\n".join(lines)], capture_output=True, text=True, check=True).stdout

    need_program("bash", "bash")
    assert asked(3) == "compopt +o default\n"
    assert asked(0) == ""


@pytest.mark.proves("DU-9")
async def test_bash_completes_runs_workflows_packs_and_models(fabric: Fabric) -> None:
    def asked(*words: str, **more: str) -> dict[str, str]:
        line, number = "\n".join(("fabric", *words)), str(len(words))
        return {"_FABRIC_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": number, **more}

    async def offered(env: dict[str, str]) -> Ended:
        ended = await fabric(env=env)
        for _ in range(20):  # where the store takes more than a moment, as on a busy machine, nothing is offered
            if ended.out:
                break
            ended = await fabric(env=env)
        return ended

    assert (await fabric("run", "look around")).code == 0
    (run_id,) = await fabric.ids()
    folder = fabric.folder / "workflow-definitions"
    folder.mkdir()
    (folder / "report.yaml").write_text("name: report\n")
    (folder / "$(touch x).yaml").write_text("name: report\n")
    zsh = {"_FABRIC_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "fabric diff "}
    before = sorted(fabric.root.iterdir())
    runs, begun_so, others, workflows, packs, models, described, at_server = await together(
        offered(asked("logs", "show", "")),
        offered(asked("diff", run_id[:6])),
        fabric(env=asked("diff", "nothing-begins-so")),
        fabric(env=asked("workflow", "run", "")),
        fabric(env=asked("run", "--pack", "eng")),
        fabric(env=asked("run", "--model-key", "")),
        offered(zsh),
        fabric(env=asked("diff", "", FABRIC_URL="http://127.0.0.1:9")),
    )
    assert runs.out.split() == begun_so.out.split() == [run_id]
    assert workflows.out.split() == ["report"]
    assert packs.out.split() == ["engineering"]
    assert models.out.split() == ["fast", "quality"]
    assert f'"{run_id}":"completed look around"' in described.out
    assert others.out == at_server.out == ""
    assert {(each.code, each.err) for each in (runs, begun_so, workflows, packs, models, described)} == {(0, "")}
    assert {(each.code, each.err) for each in (others, at_server)} == {(3, "")}, "nor does any file name fit"
    assert sorted(fabric.root.iterdir()) == before


@pytest.mark.proves("DU-9")
async def test_completing_runs_and_commands_imports_neither_the_commands_nor_pydantic(alone: Fabric) -> None:
    seen = "import atexit, sys; atexit.register(lambda: print({'pydantic', 'typer', 'asyncio'} & set(sys.modules)))"
    asked = {"_FABRIC_COMPLETE": "complete_bash"}
    run, command = await together(
        alone(env={**asked, "COMP_WORDS": "fabric diff ", "COMP_CWORD": "2"}, before=seen),
        alone(env={**asked, "COMP_WORDS": "fabric und", "COMP_CWORD": "1"}, before=seen),
    )
    assert (run.code, run.out) == (3, "set()\n")
    assert (command.code, command.out) == (0, "undo\nset()\n")


async def test_completing_options_imports_only_their_command(alone: Fabric) -> None:
    seen = "import atexit, sys; atexit.register(lambda: print('agent_fabric.interfaces.cli.runs.run' in sys.modules))"
    words = {"_FABRIC_COMPLETE": "complete_bash", "COMP_WORDS": "fabric undo --l", "COMP_CWORD": "2"}
    ended = await alone(env=words, before=seen)
    assert (ended.code, ended.out) == (0, "--last\nFalse\n")


@pytest.mark.proves("DU-10")
@pytest.mark.parametrize("command", [("logs", "list"), ("approvals", "list"), ("approvals", "list", "--json")])
async def test_commands_that_only_read_do_not_import_pydantic(fabric: Fabric, command: tuple[str, ...]) -> None:
    assert (await fabric("run", "look around")).code == 0
    seen = "import atexit, sys; atexit.register(lambda: print({'pydantic'} & set(sys.modules), file=sys.stderr))"
    ended = await fabric(*command, before=seen)
    assert (ended.code, ended.err) == (0, "set()\n")


async def test_a_wrong_option_beside_completion_gives_no_traceback(alone: Fabric) -> None:
    assert (await alone("--show-completion", "--nope")).code == 2


async def test_a_broken_request_for_completion_gives_no_traceback(alone: Fabric) -> None:
    await alone(env={"_FABRIC_COMPLETE": "complete_bash"})
