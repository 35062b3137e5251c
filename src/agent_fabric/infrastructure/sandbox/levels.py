"""Levels of the sandbox: which one this machine gives, boxes of each, and the boxes of all runs of this process.

The level is found by trying, best first, and remembered for a short time.
"""

import asyncio
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, assert_never

from agent_fabric import __version__
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.folders import base_folder
from agent_fabric.config.schema.sandbox import SandboxConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.sandbox.workspaces import require_elsewhere, require_workspace

Level = Literal["A", "A+", "B", "C"]
"""How strong a box is; see docs/operate/security.md."""


class Box(Sandbox, Protocol):
    """A Sandbox that can be ended."""

    async def aclose(self) -> None:
        """End the box and all that runs in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a box is to know of the world around it."""

    hidden: Path | None = None
    """A folder that commands must never see: fabric's own."""
    egress_socket: Path | None = None
    """The unix socket of the proxy through which commands reach the network; None: they do not. Only level A has it."""
    commands: bool = True
    """Whether commands run at level C."""


# What makes boxes is imported when a box of its level is made: other runs would only pay for it.


def make_box(
    level: Level, workspace: Path, run_id: str, config: SandboxConfig, around: Surroundings | None = None
) -> Box:
    """Return a box of this level; nothing is started before its first command.

    Raises:
        ConfigError: this level cannot be had on this system, or not for this workspace.
    """
    around = around or Surroundings()
    if level != "A":  # which looks itself, and makes us read-only
        require_workspace(workspace)
        require_elsewhere(workspace)
    match level:
        case "A":
            return _bubblewrap(workspace, run_id, config, around)
        case "A+":
            return container_box(workspace, run_id, config, config.image, around)
        case "B":
            return _kernel_rules(workspace, run_id, config, around)
        case "C":
            return _unconfined_box(workspace, run_id, around)
        case unknown:
            assert_never(unknown)


def container_box(
    workspace: Path, run_id: str, config: SandboxConfig, image: str | None, around: Surroundings | None = None
) -> Box:
    """Return a box that is a container of this image.

    Raises:
        ConfigError: no image is named, or there is neither podman nor docker.
    """
    require_elsewhere(workspace)
    if image is None:
        raise ConfigError("Level A+ needs an image", hint="Set sandbox.image, or a specialist's container_image.")
    from agent_fabric.infrastructure.sandbox.podman import ContainerSandbox  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.sandbox.podman_engine import find_engine  # noqa: PLC0415 - see above

    return ContainerSandbox(
        workspace,
        run_id,
        image=image,
        engine=find_engine(config.container_engine),
        limits=config.limits,
        uid=config.uid,
        hidden=around.hidden if around else None,
    )


def _unconfined_box(workspace: Path, run_id: str, around: Surroundings) -> Box:
    from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox  # noqa: PLC0415 - see above

    return UnconfinedSandbox(workspace, run_id, commands=around.commands)


def _bubblewrap(workspace: Path, run_id: str, config: SandboxConfig, around: Surroundings) -> Box:
    if sys.platform != "linux":
        raise ConfigError("Level A needs Linux")
    from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox  # noqa: PLC0415 - see above

    return BubblewrapSandbox(
        workspace,
        run_id,
        limits=config.limits,
        uid=config.uid,
        hidden=around.hidden,
        egress_socket=around.egress_socket,
    )


def _kernel_rules(workspace: Path, run_id: str, config: SandboxConfig, around: Surroundings) -> Box:
    if sys.platform == "darwin":
        from agent_fabric.infrastructure.sandbox.seatbelt import SeatbeltSandbox  # noqa: PLC0415 - see above

        return SeatbeltSandbox(workspace, run_id, hidden=around.hidden)
    if sys.platform != "linux":
        raise ConfigError("Level B needs Linux or macOS")
    from agent_fabric.infrastructure.sandbox import seccomp  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.sandbox.landlock import LandlockSandbox  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version  # noqa: PLC0415 - see above

    if not landlock_version():
        raise ConfigError("This kernel has no Landlock", hint="Linux has it from 5.13 on, unless it is turned off.")
    if not seccomp.supported():
        raise ConfigError(f"There is no seccomp filter for {os.uname().machine}")
    return LandlockSandbox(workspace, run_id, limits=config.limits, uid=config.uid, hidden=around.hidden)


SENTENCES: Mapping[Level, str] = {
    "A": "Commands run in a box of their own: they see their workspace and the system's programs, and no network.",
    "A+": "Commands run in a container: they see its image and their workspace, and no network.",
    "B": "The kernel keeps commands to their workspace and the system's programs, without network; "
    "they can see which other processes exist.",
    "C": "Commands run with your rights. Anything you can read, they can read.",
}
"""What each level means, said aloud."""
REFUSED = "Commands do not run at all: fabric was started as root, and no sandbox works here."

REMEMBERED_S = 900.0
"""How long a level that worked is believed to work. One that fails later fails closed: its commands do not start."""
PROBLEM_REMEMBERED_S = 30.0
"""How long one that did not is believed not to: what was wrong may have passed."""

_BEST_FIRST: tuple[Level, ...] = ("A", "B")
_HINTS: Mapping[Level, str] = {
    "A": "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap). Where the "
    "system forbids user namespaces, allow them for /usr/bin/bwrap. Or set sandbox.level to auto.",
    "A+": "Install podman or docker, and see that the image is there. Or set sandbox.level to auto.",
    "B": "It needs Linux 5.13 or later with Landlock. Or set sandbox.level to auto.",
    "C": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxChoice:
    """The level that runs get, and why."""

    level: Level
    why: str
    """Such as `A: the strongest that works here`."""
    sentence: str
    """What the level means for the person, in plain words."""
    problems: tuple[str, ...] = ()
    """Why stronger levels do not work here, and what this one lacks on this machine."""
    commands: bool = True
    """Whether commands run at all."""


def choose_level(config: SandboxConfig, *, environ: Mapping[str, str] | None = None) -> SandboxChoice:
    """Return the level that the configuration asks for, or the strongest that works here.

    Takes under a millisecond when the answer is remembered, and else as long as it takes to start a box.

    Raises:
        ConfigError: the level is named in the configuration and does not work here. It is never lowered.
    """
    memory = _Memory(os.environ if environ is None else environ)
    if config.level == "C":
        return SandboxChoice(level="C", why="named in the configuration", sentence=SENTENCES["C"])
    if config.level != "auto":
        if problem := _problem_with(config.level, config, memory):
            raise ConfigError(
                f"The sandbox level {config.level} does not work here: {problem}", hint=_HINTS[config.level]
            )
        return _choose(config.level, "named in the configuration", [])
    problems: list[str] = []
    for level in _BEST_FIRST:
        problem = _problem_with(level, config, memory)
        if not problem:
            return _choose(level, "the strongest that works here", problems)
        problems.append(f"Level {level} does not work here: {problem}. {_HINTS[level]}")
    may_run = os.getuid() != 0
    return SandboxChoice(
        level="C",
        why="nothing stronger works here",
        sentence=SENTENCES["C"] if may_run else REFUSED,
        problems=tuple(problems),
        commands=may_run,
    )


def _choose(level: Level, why: str, problems: list[str]) -> SandboxChoice:
    if level == "B" and sys.platform == "linux":
        from agent_fabric.infrastructure.sandbox.landlock import landlock_gaps  # noqa: PLC0415 - only for this level

        problems = [*problems, *(f"This kernel's Landlock lacks: {gap}" for gap in landlock_gaps())]
    return SandboxChoice(level=level, why=why, sentence=SENTENCES[level], problems=tuple(problems))


def _problem_with(level: Level, config: SandboxConfig, memory: "_Memory") -> str:
    remembered = memory.of(level, config)
    if remembered is not None:
        return remembered
    from agent_fabric.infrastructure.sandbox.probe import problem_with  # noqa: PLC0415 - needed only when nothing is remembered

    def try_box() -> str:
        return asyncio.run(problem_with(partial(_box, level, config)))

    # A thread of its own, since the caller may be in an event loop already. Twice, since a stronger level is not given
    # up for what may be a busy moment.
    with ThreadPoolExecutor(1, "sandbox-probe") as thread:
        problem = thread.submit(try_box).result() and thread.submit(try_box).result()
    memory.keep(level, config, problem)
    return problem


def _box(level: Level, config: SandboxConfig, workspace: Path, run_id: str, fabric: Path) -> Box:
    return make_box(level, workspace, run_id, config, Surroundings(hidden=fabric))


class _Memory:
    """What earlier tries found, in the user's cache folder; good for this user, rights, kernel, boot, programs only."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        folder = base_folder(environ, "XDG_CACHE_HOME", ".cache")
        self._file = None if folder is None else folder / "sandbox.json"
        self._environ = environ

    def of(self, level: Level, config: SandboxConfig) -> str | None:
        """Return the problem with a level as it was found last, or None if no one knows."""
        entry = self._entries().get(level)
        if not isinstance(entry, dict) or entry.get("of") != self._circumstances(level, config):
            return None
        age = time.time() - entry.get("at", 0)
        limit = PROBLEM_REMEMBERED_S if entry["problem"] else REMEMBERED_S
        return str(entry["problem"]) if 0 <= age < limit else None

    def keep(self, level: Level, config: SandboxConfig, problem: str) -> None:
        if self._file is None:
            return
        entry = {"of": self._circumstances(level, config), "at": time.time(), "problem": problem}
        text = json.dumps({**self._entries(), level: entry})
        with suppress(OSError):  # a memory that cannot be kept costs the next one a try
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, text.encode(), durable=False)

    def _entries(self) -> dict[str, Any]:
        if self._file is None:
            return {}
        try:
            entries = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}

    def _circumstances(self, level: Level, config: SandboxConfig) -> list[str]:
        program = {"A": "bwrap", "A+": (*config.container_engine, "podman")[0]}.get(level, sys.executable)
        found = shutil.which(program, path=self._environ.get("PATH"))
        about = ""
        with suppress(OSError):
            status = Path(found or program).stat()
            about = f"{found}:{status.st_size}:{status.st_mtime_ns}"
        return [
            *(str(os.getuid()), _capabilities(), platform.release(), _boot(), about),
            *(__version__, str(config.image), str(config.uid)),
        ]


def _capabilities() -> str:
    """Return what root may do here: in a container it is less."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return next((line for line in status.splitlines() if line.startswith("CapEff")), "")
    return ""


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


class WaysOut(Protocol):
    """Gives the box of a run a way to the network."""

    def socket_for(self, run_id: RunId) -> Path:
        """Return the unix socket of the proxy for a run's box. Never blocks."""
        ...

    async def close(self, run_id: RunId) -> None:
        """End a run's way out."""
        ...


class RunSandboxes:
    """Sandboxes of the level that was chosen; and containers, for packs that ask for one."""

    def __init__(
        self,
        choice: SandboxChoice,
        config: SandboxConfig,
        *,
        around: Surroundings | None = None,
        containers: bool = False,
        ways_out: WaysOut | None = None,
    ) -> None:
        """Make boxes as `choice` says.

        `containers` tells whether packs may ask for them, so that those of an earlier driver are looked for;
        `ways_out` gives the boxes of runs that may use the network a way to it.
        """
        self._ways_out = ways_out
        self._choice = choice
        self._config = config
        self._around = replace(around or Surroundings(), commands=choice.commands)
        self._containers = containers
        self._boxes: dict[RunId, dict[str | None, Box]] = {}

    @property
    def level(self) -> str:
        return self._choice.level

    @property
    def choice(self) -> SandboxChoice:
        """The level, and why."""
        return self._choice

    def for_run(self, run_id: RunId, workspace: str, *, network_allowed: bool) -> Sandbox:
        """Return the run's box: the same one for all its packs.

        Raises:
            ConfigError: this level cannot be had for this workspace.
        """
        boxes = self._boxes.setdefault(run_id, {})
        if None not in boxes:
            boxes[None] = self._make(run_id, workspace, network_allowed=network_allowed)
        return boxes[None]

    def container_for(self, run_id: RunId, workspace: str, image: str) -> Sandbox:
        """Return the run's container of this image.

        Raises:
            ConfigError: there is neither podman nor docker.
        """
        boxes = self._boxes.setdefault(run_id, {})
        if image not in boxes:
            boxes[image] = container_box(Path(workspace), run_id, self._config, image, self._around)
        return boxes[image]

    async def close(self, run_id: RunId) -> None:
        for box in self._boxes.pop(run_id, {}).values():
            await box.aclose()
        if self._ways_out is not None:
            await self._ways_out.close(run_id)

    async def end_leftovers(self, run_id: RunId, workspace: str) -> int:
        known = self._boxes.get(run_id, {}).get(None)
        ended = await (known or self._make(run_id, workspace)).end_leftovers()
        if self._containers and self.level != "A+":
            ended += await self._remove_containers(run_id)
        return ended

    async def aclose(self) -> None:
        """End all boxes."""
        for run_id in list(self._boxes):
            await self.close(run_id)

    async def _remove_containers(self, run_id: RunId) -> int:
        # Few runs have containers, so the others do not pay for what handles them.
        from agent_fabric.infrastructure.sandbox.podman_engine import find_engine, remove_containers  # noqa: PLC0415

        try:
            engine = find_engine(self._config.container_engine)
        except ConfigError:  # then there is none to remove, and a caller that wants one is told
            return 0
        return await remove_containers(engine, run_id)

    def _make(self, run_id: RunId, workspace: str, *, network_allowed: bool = False) -> Box:
        around = self._around
        if network_allowed and self._ways_out is not None and self.level == "A":
            around = replace(around, egress_socket=self._ways_out.socket_for(run_id))
        return make_box(self._choice.level, Path(workspace), run_id, self._config, around)
