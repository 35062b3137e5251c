"""The program that starts containers: podman, or the docker command line."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.own_path import own_path

LABEL = "agent-fabric.run"
"""Every container of ours has this label, with the id of its run."""

CONTAINER = "FABRIC_CONTAINER"
"""The variable that the engine's process of each container has: the command that kills the container, words split by
`SEPARATOR`. The guard of effects reads it, because a container is no process below ours."""
SEPARATOR = "\x1f"

_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Engine:
    """A command that starts containers, with its general options."""

    words: tuple[str, ...]

    @property
    def is_podman(self) -> bool:
        return "podman" in Path(self.words[0]).name

    def limits(self, *, processes: int, memory_mb: int) -> tuple[str, ...]:
        """Return the options for limits on the whole container, where the system can keep them."""
        if self.is_podman and os.getuid() != 0 and not _has_unified_control_groups():
            return ()
        memory = f"{memory_mb}m"
        return ("--pids-limit", str(processes), "--memory", memory, "--memory-swap", memory)

    def user_mapping(self) -> tuple[str, ...]:
        """Return the options by which a plain user's files are the same user's inside."""
        return ("--userns", "keep-id") if self.is_podman and os.getuid() != 0 else ()

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables of the process that is attached to a container."""
        return {**os.environ, CONTAINER: SEPARATOR.join((*self.words, "kill", name))}

    async def run(self, *words: str) -> tuple[int, str]:
        """Run one command of the engine; return its exit code and what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(*self.words, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_ANSWER_S):
                out, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return 1, ""
        return process.returncode or 0, out.decode(errors="replace")


def find_engine(configured: Sequence[str] = (), *, path: str | None = None) -> Engine:
    """Return the engine that the configuration names, or podman, or docker.

    Raises:
        ConfigError: it is not there.
    """
    path = own_path(os.environ.get("PATH") if path is None else path)
    if configured:
        if (found := shutil.which(configured[0], path=path)) is None:
            raise ConfigError(
                f"There is no program {configured[0]!r} to start containers with",
                hint="Correct sandbox.container_engine, or remove it to use podman or docker.",
            )
        return Engine((found, *configured[1:]))
    if podman := shutil.which("podman", path=path):
        # Its usual runtime, crun, cannot do with the older control groups.
        older = not _has_unified_control_groups() and shutil.which("runc", path=path)
        return Engine((podman, "--runtime", "runc") if older else (podman,))
    if docker := shutil.which("docker", path=path):
        return Engine((docker,))
    raise ConfigError(
        "A container is asked for, and neither podman nor docker is here",
        hint="Install podman (Debian, Ubuntu: apt install podman; Fedora: dnf install podman; "
        "macOS: brew install podman).",
    )


async def remove_containers(engine: Engine, run_id: str, *, spare: set[str] | None = None) -> int:
    """Remove the containers of a run, but for those named; return how many there were."""
    code, listed = await engine.run("ps", "--all", "--filter", f"label={LABEL}={run_id}", "--format", "{{.Names}}")
    names = [name for name in listed.split() if name not in (spare or set())]
    if code == 0 and names:
        await engine.run("rm", "--force", *names)
    return len(names) if code == 0 else 0


def _has_unified_control_groups() -> bool:
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()
