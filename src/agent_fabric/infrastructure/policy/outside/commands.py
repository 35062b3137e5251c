"""Runs approved commands outside the box: as the user, in an empty folder, bound to what was shown."""

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.outside import OutsideCall
from agent_fabric.domain.policy.outside_plan import CannotRunOutside, Outside
from agent_fabric.domain.tools.specs import ToolResult
from agent_fabric.infrastructure.policy.outside.carried import carry, expanded, new_files
from agent_fabric.infrastructure.policy.outside.push import Push
from agent_fabric.infrastructure.policy.outside.push_words import push_words
from agent_fabric.infrastructure.policy.outside.repository import read_repository
from agent_fabric.infrastructure.policy.outside.surroundings import account, find_program, users_environment
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.shell import command_output


class UsersCommands:
    """`OutsideCommands` with the rights of the user that this process runs as.

    They run in a new folder that holds copies of the files they name and nothing else, word by word, without a terminal
    or input. Their processes have the mark of the run and end with this one.
    """

    async def plan(self, call: OutsideCall, run_id: RunId, workspace: str) -> Outside | None:
        with _scratch() as scratch:
            prepared = await _prepare(call, UnconfinedSandbox(Path(workspace), run_id), workspace, scratch)
            return None if prepared is None else prepared.outside

    async def run(
        self, agreed: Outside, call: OutsideCall, run_id: RunId, workspace: str, *, timeout_s: float
    ) -> ToolResult:
        files = UnconfinedSandbox(Path(workspace), run_id)
        with _scratch() as scratch:
            prepared = await _prepare(call, files, workspace, scratch)
            if prepared is None or prepared.outside != agreed:
                raise CannotRunOutside(
                    "It is no longer what the person agreed to, so it was not run: the commits, the files or "
                    "the address have changed since. Make the call again; the person is asked again."
                )
            # With the mark of the run, its processes cannot answer what runs ask.
            runner = UnconfinedSandbox(scratch, run_id)
            environment = await asyncio.to_thread(users_environment, os.environ, workspace)
            outcome = await runner.run_command(shlex.join(agreed.words), timeout_s=timeout_s, environment=environment)
            succeeded = outcome.exit_code == 0 and not outcome.timed_out
            output = {"ran": f"outside the box, as {agreed.account}", **command_output(outcome, timeout_s)}
            if _is_push(call):
                made = list(prepared.noted.items()) if succeeded else []
                if succeeded and prepared.track:
                    output["note"] = f"No upstream is set: a push outside changes no settings. Set it: {prepared.track}"
            else:
                made, problem = await asyncio.to_thread(_made, scratch, agreed)
                output |= {"not_kept": problem} if problem else {}
        kept, problems = await _keep(made, files)
        output |= {"not_kept": problems} if problems else {}
        brought = () if _is_push(call) else kept
        output |= {"new_files": list(brought)} if brought else {}
        # What another machine says is a stranger's text, and may be private.
        said_by = f"outside: {agreed.goes_to or agreed.words[0].rpartition('/')[2]}"
        return ToolResult(output=output, changed=bool(brought), wrote=brought, exposes=said_by, private=said_by)


class _Prepared(NamedTuple):
    outside: Outside
    noted: Mapping[str, bytes]
    """Files of the repository that say afterwards what was pushed."""
    track: str = ""
    """The command that sets the upstream of the pushed branch, if it has none."""


async def _prepare(call: OutsideCall, files: Sandbox, workspace: str, scratch: Path) -> _Prepared | None:
    """Work out what would run, and put what it needs into the folder; None: it needs nothing outside."""
    environment = await asyncio.to_thread(users_environment, os.environ, workspace)
    program = await asyncio.to_thread(find_program, call.words[0], environment, workspace)
    try:
        if _is_push(call):
            wanted = push_words(call.words)
            repository = await read_repository(files, workspace, wanted.folder)
            push = Push(program, environment, repository, wanted, workspace, scratch)
            planned = await push.plan()
            return None if planned is None else _Prepared(*planned)
        words = await expanded(call, files)
        carries = await carry(words, files, workspace, scratch)
    except OSError as problem:
        raise CannotRunOutside(f"What it needs cannot be read: {problem.strerror or problem}") from None
    return _Prepared(Outside(words=(program, *words[1:]), account=account(), carries=carries), {})


def _is_push(call: OutsideCall) -> bool:
    return call.words[0].rpartition("/")[2] == "git"


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="fabric-outside-")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(scratch: Path, agreed: Outside) -> tuple[list[tuple[str, bytes]], str]:
    """Return the files that a command has made, and why they are not kept."""
    try:
        return list(new_files(scratch, agreed.carries)), ""
    except CannotRunOutside as problem:
        return [], str(problem)


async def _keep(made: Sequence[tuple[str, bytes]], files: Sandbox) -> tuple[tuple[str, ...], list[str]]:
    """Write files into the workspace; return those that were, and why others were not."""
    kept: list[str] = []
    problems: list[str] = []
    for name, data in made:
        try:
            await files.write_file(name, data)
        except OSError as problem:
            problems.append(f"{name}: {problem.strerror or problem}")
        else:
            kept.append(name)
    return tuple(kept), problems
