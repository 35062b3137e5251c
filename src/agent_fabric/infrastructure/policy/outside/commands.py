"""Runs approved commands outside the box: as the user, in an empty folder, bound to what was shown."""

import asyncio
import fnmatch
import hashlib
import os
import posixpath
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.outside import OutsideCall, local_words, suffixes_taken_along
from agent_fabric.domain.policy.outside_plan import CannotRunOutside, Outside
from agent_fabric.domain.tools.specs import ToolResult
from agent_fabric.infrastructure.policy.outside.push import Push, push_words
from agent_fabric.infrastructure.policy.outside.repository import (
    account,
    find_program,
    read_repository,
    users_environment,
)
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.shell import command_output

MAX_FILES = 50
"""Each is shown."""
MAX_BYTES = 256 * 1024 * 1024
_MAX_LISTED = 10_000
_COPIERS = frozenset({"scp", "sftp", "rsync", "kubectl", "oc"})
_OF_A_HOST = re.compile(r"[^/=:-][^/=:]*:")
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://")
_HERE = re.compile(r"(?:fileb?|dir|oci|oci-archive|docker-archive):")
_UPWARDS = re.compile(r"(?:^(?:-[A-Za-z0-9]+)?|[^A-Za-z0-9._-])\.\.(?:/|$)")
_ABSOLUTE = re.compile(rf"(?:^(?:-[A-Za-z0-9]+)?|[=@<,;]|{_HERE.pattern})/")
_ARCHIVE = "Make an archive of them in the box, and name that."


async def expand_patterns(call: OutsideCall, sandbox: Sandbox) -> tuple[str, ...]:
    """Return the words of a call with the files that its patterns stand for.

    Raises:
        CannotRunOutside: there is no such file, or there are too many.
    """
    words: list[str] = []
    for at, word in enumerate(call.words):
        if at not in call.patterns:
            words.append(word)
            continue
        pattern = posixpath.normpath(word)
        folder = posixpath.dirname(pattern) or "."
        listed, _ = await sandbox.list_files(folder, max_entries=_MAX_LISTED)
        matching = [path for path in listed if _fits(path, pattern)]
        if not matching:
            raise CannotRunOutside(f"No file is called {word}.")
        # No name of a file passes for an option, or for something on another machine.
        words += [path if path[0].isalnum() and not word.startswith("./") else f"./{path}" for path in matching]
    return tuple(words)


async def carry(words: tuple[str, ...], sandbox: Sandbox, workspace: str, into: Path) -> tuple[str, ...]:
    """Copy the files that words name into a folder, and return a line about each.

    Raises:
        CannotRunOutside: they are too many or too large.
    """
    lines: list[str] = []
    paths: list[str] = []
    for word in local_words(words):
        if not _is_elsewhere(words[0], word):
            lines += [f"uses {path}, outside of the workspace" for path in _paths_outside(word, workspace)]
        for name in _names_in(word):
            if not name.startswith("/"):
                paths += await _files_at(name, sandbox)
    total = 0
    ends = suffixes_taken_along(words)
    for path in dict.fromkeys(paths):
        if _is_of_a_repository(path):
            raise CannotRunOutside(f"{path} would be obeyed there. Do not name it.")
        if ends is not None and not path.endswith(ends):
            continue  # settings, which it would obey
        data, size = await sandbox.read_file(path, max_bytes=MAX_BYTES - total + 1)
        total += size
        if total > MAX_BYTES:
            raise CannotRunOutside(f"It would take along more than {MAX_BYTES // 2**20} MiB. Take less.")
        await asyncio.to_thread(_write, into / path, data)
        lines.append(_describe(path, data))
    if len(lines) > MAX_FILES:
        raise CannotRunOutside(f"It would take along more than {MAX_FILES} files. {_ARCHIVE}")
    return tuple(dict.fromkeys(lines))


def _write(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def _names_in(word: str) -> Iterator[str]:
    """Yield what may be a path in a word: `x`, `--file=x`, `@x`, `name=@x`, `name=<x`."""
    yield word
    if "=" in word:
        yield word.partition("=")[2].lstrip("@<")
    if word.startswith(("@", "-d@", "-F@", "-T")):
        yield word.lstrip("-dFT").lstrip("@")


async def _files_at(name: str, sandbox: Sandbox) -> list[str]:
    """Return the files that a name stands for: itself, or those of the folder."""
    path = posixpath.normpath(name) if name else ".."
    if path == ".." or path.startswith("../"):
        return []
    try:
        await sandbox.read_file(path, max_bytes=1)
    except IsADirectoryError:
        listed, more = await sandbox.list_files(path, max_entries=MAX_FILES * 2)
        files = [each for each in listed if not each.endswith("/")]
        if more or len(files) > MAX_FILES:
            raise CannotRunOutside(f"{path} holds more than {MAX_FILES} files. {_ARCHIVE}") from None
        return files
    except (OSError, ValueError):
        return []  # no file
    return [path]


def _is_elsewhere(program: str, word: str) -> bool:
    """Tell whether a word is an address or a path on another machine."""
    if program.rpartition("/")[2] in _COPIERS and _OF_A_HOST.match(word):
        return True
    return bool(_ADDRESS.match(word)) and not _HERE.match(word)


def _paths_outside(word: str, workspace: str) -> Iterator[str]:
    """Yield the absolute paths in a word that name something on this machine, or something that may be written.

    Raises:
        CannotRunOutside: a path leads to the workspace, or to what programs of this machine hold.
    """
    if _UPWARDS.search(word):
        raise CannotRunOutside(f"{word!r} leads out of its folder. Name files by their path from the workspace.")
    root = os.path.realpath(workspace)
    for found in _ABSOLUTE.finditer(word):
        path = re.split("[,;]", word[found.end() - 1 :], maxsplit=1)[0]
        if path.startswith("//") and not _HERE.search(found.group()):
            continue  # of an address
        path = re.sub("/+", "/", path)
        place, said = Path(os.path.realpath(path)), Path(os.path.normpath(path))
        if place.is_relative_to(root):
            raise CannotRunOutside(f"Name {path} by its path from the workspace, without a leading slash.")
        if any(each.is_relative_to(folder) for each in (place, said) for folder in ("/proc", "/dev/fd")):
            raise CannotRunOutside(f"{path} is not for commands outside the box.")
        if place.exists() or (place.parent.is_dir() and place.parent != place.parent.parent):
            yield path


def _is_of_a_repository(path: str) -> bool:
    return ".git" in path.casefold().split("/") or path == "HEAD"


def _fits(path: str, pattern: str) -> bool:
    """Tell whether a pattern means a file: as in a shell, neither across folders nor hidden ones."""
    same_depth = path.count("/") == pattern.count("/")
    return same_depth and fnmatch.fnmatchcase(path, pattern) and not path.rpartition("/")[2].startswith(".")


def new_files(folder: Path, carried: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield what a command has made in its folder, beside the files that it took along.

    Raises:
        CannotRunOutside: there is too much of it.
    """
    taken, total = set(carried), 0
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    if len(found) > 2 * MAX_FILES:
        raise CannotRunOutside(f"It has made more than {MAX_FILES} files, so none of them is kept.")
    if sum(path.stat().st_size for path in found) > 2 * MAX_BYTES:
        raise CannotRunOutside(f"It has made more than {MAX_BYTES // 2**20} MiB, so none of it is kept.")
    for path in found:
        data = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        if _describe(name, data) in taken:
            continue
        total += len(data)
        if total > MAX_BYTES:
            raise CannotRunOutside(f"It has made more than {MAX_BYTES // 2**20} MiB, so not all of it is kept.")
        yield name, data


def _describe(path: str, data: bytes) -> str:
    return f"file {path}, {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}"


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
                made, problem = await asyncio.to_thread(_make, scratch, agreed)
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
        words = await expand_patterns(call, files)
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


def _make(scratch: Path, agreed: Outside) -> tuple[list[tuple[str, bytes]], str]:
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
