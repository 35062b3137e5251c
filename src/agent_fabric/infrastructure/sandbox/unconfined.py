"""The box that is none: level C. Files stay in the workspace; commands run with all the rights of the caller."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from pathlib import Path

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.domain.policy.protected import HIDDEN, is_protected
from agent_fabric.infrastructure.sandbox.beneath import Beneath
from agent_fabric.infrastructure.sandbox.command_line import bash_arguments
from agent_fabric.infrastructure.sandbox.draining import (
    MAX_OUTPUT_BYTES,
    Output,
    drained_output,
    ended_within,
    wait_for_end,
)
from agent_fabric.infrastructure.sandbox.environment import allowed_variables
from agent_fabric.infrastructure.sandbox.process_environments import RUN, SETTLE_S, entry, kill_marked, lowest_pid_of
from agent_fabric.infrastructure.sandbox.run_processes import SHELL_MARK
from agent_fabric.infrastructure.sandbox.workspaces import WorkspaceFiles

_COMMAND = "FABRIC_COMMAND_ID"

_START = (
    b"""
%s
exec 3<&0 </dev/null
( trap "" HUP INT QUIT TERM; exec /bin/sh -c "$1" watcher <&3 3<&- >/dev/null 2>&1 & )
shift
exec bash --noprofile --norc -o pipefail -c "$@" 3<&-
"""
    % SHELL_MARK
)
"""Mark the process as a run's, start the watcher, then become the command.

The watcher is started twice removed, so that no program of the command finds a child it did not start, and by a
program of its own, so that a search by command line does not find it.
"""

_WATCH = f"""
read -r _
if read -r self _ </proc/self/stat; then
  for _ in 1 2 3; do
    for found in $(grep -lszxF "{_COMMAND}=${_COMMAND}" /proc/[0-9]*/environ); do
      found=${{found#/proc/}}
      found=${{found%/environ}}
      [ "$found" = "$self" ] || kill -KILL "$found"
    done
  done
fi
kill -KILL 0
""".encode()
"""Wait until the other end of stdin, held by the driver alone, is closed; then end every process of the command."""


class UnconfinedSandbox(WorkspaceFiles):
    """Sandbox of level C: no wall around commands, only order.

    Commands see an environment without keys or tokens, have no terminal and no input. Of each output the first and
    the last half of `max_output_bytes` are kept; the rest is read, counted and dropped.

    A command's processes are found by their process group and, on Linux, by a mark in their environment, so that those
    which left the group end too. What clears its environment and leaves the group escapes: level C is no boundary.
    """

    level = "C"

    def __init__(
        self,
        workspace: Path,
        run_id: str,
        *,
        commands: bool = True,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Make a box; without `commands` it has files only, and says why instead of running anything."""
        self._workspace = workspace
        self._run_id = run_id
        self._commands = commands
        self._max_output_bytes = max_output_bytes
        self._given_environment = environment
        self._running: set[str] = set()

    # A box is made for every run, and many runs use only a part of it: so each part when it is first needed.

    @cached_property
    def _files(self) -> Beneath:
        return Beneath(self._workspace, hidden=HIDDEN, protected=is_protected)

    @cached_property
    def _environment(self) -> dict[str, str]:
        given = os.environ if self._given_environment is None else self._given_environment
        return allowed_variables(given) | {RUN: self._run_id}

    async def run_command(
        self, command: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandOutcome:
        """Run one bash command line with the workspace as its current folder.

        Raises:
            ValueError: the command is not valid text.
            OSError: the command could not be started.
        """
        if not self._commands:
            raise PermissionError(
                "Commands do not run here: fabric was started as root and no sandbox works. Start it as a plain user, "
                "install bubblewrap, or set sandbox.level to C on purpose."
            )
        arguments = bash_arguments(command)
        mark = secrets.token_hex(8)
        process: asyncio.subprocess.Process | None = None
        begun = time.monotonic()
        with ExitStack() as pipes:
            output = pipes.enter_context(drained_output(self._max_output_bytes))
            self._running.add(mark)
            try:
                process = await self._start(arguments, environment or {}, mark, output, pipes)
                end = partial(_signal_group, process.pid, signal.SIGTERM)
                timed_out = await wait_for_end(process, output, timeout_s, end)
            finally:
                await _end(process, mark, begun)
                self._running.discard(mark)
            await ended_within(SETTLE_S, output)
        return output.outcome(
            -signal.SIGKILL if process.returncode is None else process.returncode, timed_out=timed_out
        )

    async def end_leftovers(self) -> int:
        """End processes that an earlier driver of this run left behind; always 0 where there is no /proc."""
        ours = {entry(_COMMAND, mark) for mark in self._running}
        return await asyncio.to_thread(kill_marked, entry(RUN, self._run_id), spare=ours)

    async def aclose(self) -> None:
        """Do nothing: nothing goes on between commands."""

    async def _start(
        self,
        arguments: list[bytes],
        environment: Mapping[str, str],
        mark: str,
        output: Output,
        pipes: ExitStack,
    ) -> asyncio.subprocess.Process:
        watched, lifeline = os.pipe()
        pipes.callback(os.close, lifeline)
        try:
            return await asyncio.create_subprocess_exec(
                *(b"/bin/sh", b"-c", _START, b"sh", _WATCH, *arguments),
                cwd=self._files.root,
                env={**self._environment, **environment, _COMMAND: mark},
                stdin=watched,
                stdout=output.out.writer,
                stderr=output.err.writer,
                start_new_session=True,
            )
        except OSError as error:
            # The system's own message would name the workspace's place on this machine.
            number = error.errno or 0
            raise OSError(number, f"the command cannot be started: {os.strerror(number)}") from None
        finally:
            os.close(watched)
            output.close_writers()


async def _end(process: asyncio.subprocess.Process | None, mark: str, begun: float) -> None:
    """Kill whatever is left of a command. The signals are sent even if the wait for their effect is cancelled."""
    lowest = 0
    if process is not None:
        _signal_group(process.pid, signal.SIGKILL)
        lowest = lowest_pid_of(process.pid, begun)
    await asyncio.to_thread(kill_marked, entry(_COMMAND, mark), lowest=lowest)
    if process is not None:
        await ended_within(SETTLE_S, process)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
