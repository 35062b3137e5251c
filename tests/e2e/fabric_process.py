"""Runs of the real engine, in this process or as the `fabric` command, and what they leave behind."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import Driving, LocalFabric, build_local
from agent_fabric.config.folders import base_folder
from agent_fabric.config.loader import read_config
from agent_fabric.config.store_address import URL_VARIABLE
from agent_fabric.domain.runs.task import Budget, Profile, RunResult, RunStatus
from agent_fabric.domain.tools.specs import Effect
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from e2e.fork_server import Process, start_fabric

TESTS = Path(__file__).resolve().parents[1]
PATIENCE_S = 120.0


def settings(base_url: str, *, model: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a configuration whose one model is at `base_url`; `model` changes the model, `more` the rest."""
    quality = {"base_url": base_url, "model": "scripted", "backend": "generic", "timeout_s": 20.0, **(model or {})}
    # See `on_postgres`; otherwise nothing is set.
    store = {"store": {"url": url, "pool": 4}} if (url := os.environ.get(URL_VARIABLE)) else {}
    return {"models": {"quality": quality}, **store, **more}


def configure(file: Path, configured: Mapping[str, Any]) -> None:
    """Write a configuration such that a process which is just starting finds the old one or the new one.

    Never an empty one: that is valid, and means a model of our own, which may have to be fetched and takes its time.
    """
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(json.dumps(configured))
    fresh.replace(file)


@dataclass(frozen=True)
class Outcome:
    """What came of a run, as the engine tells it and as its folder shows it."""

    result: RunResult
    run_dir: Path
    seconds: float

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The run log."""
        return read_lines(self.run_dir)

    @property
    def kinds(self) -> list[str]:
        """The kinds of its events, in order."""
        return [line["kind"] for line in self.lines]

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        """What the events of one kind say."""
        return [line["payload"] for line in self.lines if line["kind"] == kind]

    @property
    def code(self) -> str:
        """The error code, empty without an error."""
        return self.result.error.code if self.result.error else ""

    @property
    def hint(self) -> str:
        """What a person is advised to do."""
        return self.result.error.hint if self.result.error else ""

    def require_failed(self, code: str) -> None:
        """Check that the run failed with this code, and that everything to understand it is there (AF-131)."""
        assert (self.result.status, self.code) == (RunStatus.FAILED, code), self.result.error
        assert self.result.error is not None
        assert self.result.error.message
        assert self.result.error.hint, "a failure says what to do about it"
        assert self.kinds[-1] == "run_failed"
        assert "run_complete" not in self.kinds
        require_left_behind(self.run_dir)


def require_left_behind(run_dir: Path) -> None:
    """Check that a run left its folder, its workspace and a log that shows that the model was asked."""
    assert (run_dir / "workspace").is_dir()
    assert [line for line in read_lines(run_dir) if line["kind"] == "llm_request"]


def read_lines(run_dir: Path) -> list[dict[str, Any]]:
    """Return the run log, line by line."""
    text = (run_dir / "runlog.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@contextlib.asynccontextmanager
async def local_fabric(
    folder: Path, configured: Mapping[str, Any], sink: EventSink | None = None
) -> AsyncIterator[LocalFabric]:
    """Give the real engine on the real store, and close it."""
    fabric = build_local(folder / ".fabric", read_config({}, overrides=configured), Driving(sink=sink))
    try:
        yield fabric
    finally:
        await fabric.aclose()


async def carry_out(
    folder: Path,
    base_url: str,
    *,
    prompt: str = "do it",
    profile: Profile = Profile.TASK,
    sink: EventSink | None = None,
    model: Mapping[str, Any] | None = None,
    **more: Any,
) -> Outcome:
    """Do a task in this process; its log can be looked at, even that of a chat."""
    more = {"encryption": "off", **more}
    configured = settings(base_url, model=model, **more)
    config = read_config({}, overrides=configured).config
    async with local_fabric(folder, configured, sink) as fabric, asyncio.timeout(PATIENCE_S):
        task = task_from(config, prompt, pack=next(iter(more.get("specialists", {"engineering": None}))))
        if profile is Profile.CHAT:
            task = replace(task, profile=profile, budget=Budget.of(profile, **more.get("budget", {})))
        started = time.monotonic()
        result = await fabric.execute_task(task)
        seconds = time.monotonic() - started
        return Outcome(result, Path(fabric.records.layout.run_dir(result.run_id)), seconds)


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    out: str
    err: str
    seconds: float
    max_rss_bytes: int

    @property
    def json(self) -> dict[str, Any]:
        """The one object that it printed."""
        value: dict[str, Any] = json.loads(self.out)
        return value


def engineered(arguments: Sequence[Any]) -> Sequence[Any]:
    """Name the engineering pack in a `run` that names none, so that nobody has to be chosen."""
    if arguments[:1] != ("run",) or {"--pack", "--help", "--explain-routing"} & set(arguments):
        return arguments
    return ("run", "--pack", "engineering", *arguments[1:])


@dataclass
class Fabric:
    """The `fabric` command in a folder of its own, with nothing of ours in its environment."""

    folder: Path
    configured: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    """Where the configuration lies; by default in `folder`."""
    server: str = ""
    """The address of a server whose runs are worked on instead of those in `folder`."""
    fresh: bool = False
    """Whether each process is a fresh interpreter instead of a fork of a warm one."""

    @property
    def root(self) -> Path:
        """The fabric folder."""
        return self.folder / ".fabric"

    def run_dirs(self) -> list[Path]:
        """The folders of all runs."""
        return sorted((self.root / "runs").iterdir()) if self.root.exists() else []

    def by_us(self) -> "Fabric":
        """Give the command the key of this process's user, so that each trusts the folder that the other has made."""
        key = (self.home or self.folder) / ".local" / "share" / "agent-fabric" / "audit.key"
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_bytes(audit_key(os.environ).value)
        if os.environ.get(URL_VARIABLE):  # processes of one database have the same keys
            own = base_folder(os.environ, "XDG_DATA_HOME", ".local", "share")
            for other in [] if own is None else own.glob("*.key*"):
                shutil.copy2(other, key.parent)
        return self

    async def start(self, *arguments: str) -> "Started":
        """Start `fabric` with these arguments; `run` uses the engineering pack unless it is told otherwise."""
        home = self.home or self.folder
        home.mkdir(parents=True, exist_ok=True)
        config = home / "fabric-config.json"
        configure(config, self.configured)
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "PYTHONPATH"}}
        paths = os.pathsep.join(path for path in (kept.get("PYTHONPATH"), str(TESTS)) if path)
        # The home folder is another one, so what a version manager has put in front of `python3` finds nothing there.
        programs = os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", os.defpath)))
        process = await start_fabric(
            [*engineered(arguments), *(() if self.server else ("--workspace", str(self.root)))],
            cwd=home,
            env={
                **kept,
                "PATH": programs,
                "HOME": str(home),
                "TMPDIR": str(home),
                "FABRIC_CONFIG_PATH": str(config),
                "PYTHONPATH": paths,
                **({"FABRIC_URL": self.server} if self.server else {}),
                **self.environment,
            },
            fresh=self.fresh,
        )
        return Started(process, time.monotonic())

    async def __call__(self, *arguments: str, timeout_s: float = PATIENCE_S) -> Ended:
        """Run `fabric` with these arguments until it ends."""
        return await (await self.start(*arguments)).ended(timeout_s=timeout_s)


@dataclass
class Started:
    """A `fabric` process under way."""

    process: Process
    at: float

    async def ended(self, *, timeout_s: float = PATIENCE_S) -> Ended:
        """Wait for its end; kill it, and raise TimeoutError, if that takes too long."""
        memory = _Memory(self.process.pid)
        watch = asyncio.create_task(memory.watch())
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await self.process.communicate()
            seconds = time.monotonic() - self.at
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.communicate()
            raise
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
        assert self.process.returncode is not None
        return Ended(self.process.returncode, out.decode(), err.decode(), seconds, memory.most_bytes)


@dataclass
class _Memory:
    """The most memory that a process has held so far, as the kernel counts it."""

    pid: int
    most_bytes: int = 0

    async def watch(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(0.02)

    def _look(self) -> None:
        with contextlib.suppress(OSError, IndexError):
            status = Path(f"/proc/{self.pid}/status").read_text()
            self.most_bytes = int(status.split("VmHWM:")[1].split()[0]) * 1024


async def until(condition: Callable[[], object], what: str, *, timeout_s: float = PATIENCE_S) -> None:
    """Wait for something outside of this process that tells nobody when it happens."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain: {what}"
        await asyncio.sleep(0.01)


def long_sleep() -> str:
    """Return a command that takes longer than any test waits, and whose words no other process has."""
    return f"sleep 661.{uuid.uuid4().int}"


def running(command: str) -> list[int]:
    """Return the processes with these words in their command line, in whatever box they run.

    A box has its own numbers for processes, so what a command says about itself does not help to find it from outside.
    One that has ended but was not collected has no command line any more.
    """
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if command in (process / "cmdline").read_text(errors="replace").replace("\0", " "):
                    found.append(int(process.name))
    return found


TROUBLE: Mapping[str, Any] = {
    "specialists": {"trouble": {"description": "Has bad tools.", "builder": "e2e.fabric_process:trouble_pack"}}
}
"""Configuration of a pack whose tools misbehave."""


def trouble_pack(workspace: str, network_allowed: bool) -> BaseSpecialistPack:
    """Build a pack whose tools misbehave."""
    loop: dict[str, Any] = {}
    loop["loop"] = loop

    def nested(levels: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for _ in range(levels):
            value = {"deep": value}
        return value

    def explode() -> None:
        raise RuntimeError("the tool blew up")

    def block() -> None:
        time.sleep(60)

    async def hang() -> None:
        await asyncio.Event().wait()

    def unreadable(what: str) -> object:
        return {
            "a loop": loop,
            "deep": nested(600),
            "too deep": nested(2_000),
            "strange keys": {("a", "b"): 1},
            "not a number": float("nan"),
        }[what]

    def tool(name: str, **properties: Any) -> Any:
        return make_tool_def(name, name, properties, effect=Effect.READS, timeout_s=0.3)

    return BaseSpecialistPack(
        system_prompt=f"Trouble in {workspace}, network {network_allowed}.",
        tools=[
            (tool("explode"), tool_from(explode)),
            (tool("block"), tool_from(block)),
            (tool("hang"), tool_from(hang)),
            (tool("unreadable", what={"type": "string"}), tool_from(unreadable)),
        ],
        finish=make_finish_tool_def({"summary": {"type": "string"}}),
    )
