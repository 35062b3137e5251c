"""A repository of the workspace, read without git, so that none of its settings is obeyed.

And what a command outside has around it: the user's environment and programs, nothing of the workspace or of ours.
"""

import asyncio
import getpass
import os
import posixpath
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.variable_names import OURS
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.outside_plan import CannotRunOutside
from agent_fabric.infrastructure.own_path import own_path

_MAX_BYTES = 16 * 1024 * 1024
_MAX_REFS = 10_000
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(r"refs/[A-Za-z0-9._/@+=-]+")
_YOURSELF = "Name the command in your result, for a person to run."


@dataclass(frozen=True, slots=True)
class Repository:
    """What a push needs to know of a repository."""

    objects: Path
    branch: str
    """The current one; empty: none."""
    refs: dict[str, str]
    """Commits by full name."""
    config: bytes
    """Its settings, as text. Only addresses are taken from them."""
    shallow: bytes

    def commit_of(self, name: str) -> tuple[str, str]:
        """Return the full name, if it has one, and the commit of a branch, a tag or a commit.

        Raises:
            CannotRunOutside: there is none.
        """
        if name in {"HEAD", "@"}:
            name = f"refs/heads/{self.branch}"
        for full in (name, f"refs/heads/{name}", f"refs/tags/{name}", f"refs/remotes/{name}"):
            if full in self.refs:
                return full, self.refs[full]
        if _SHA.fullmatch(name):
            return "", name
        raise CannotRunOutside(f"There is no branch, tag or commit {name!r} in the repository.")


async def read_repository(sandbox: Sandbox, workspace: str, folder: str) -> Repository:
    """Read the repository in a folder of the workspace.

    Raises:
        CannotRunOutside: there is none, or it consists of files elsewhere.
    """
    git = posixpath.normpath(f"{folder}/.git")
    objects = await asyncio.to_thread(_objects, workspace, git)
    if objects is None:
        raise CannotRunOutside(f"The workspace has no repository of its own in {folder!r}. {_YOURSELF}")
    if await _text(sandbox, f"{git}/objects/info/alternates") or await _text(sandbox, f"{git}/reftable/tables.list"):
        raise CannotRunOutside(
            f"The repository keeps its objects or branches in a way that is not known here. {_YOURSELF}"
        )
    head = (await _text(sandbox, f"{git}/HEAD")).strip()
    return Repository(
        objects=objects,
        branch=head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else "",
        refs=await _refs(sandbox, git),
        config=(await _text(sandbox, f"{git}/config")).encode(),
        shallow=(await _text(sandbox, f"{git}/shallow")).encode(),
    )


def _objects(workspace: str, git: str) -> Path | None:
    """Return the folder of a repository's objects, if no link leads to it and it lies in the workspace."""
    root = Path(os.path.realpath(workspace))
    objects = root / git / "objects"
    inside = objects.is_relative_to(root) and Path(os.path.realpath(objects)) == objects
    if not inside or not objects.is_dir():
        return None
    if "\n" in git or _holds_link(objects):
        raise CannotRunOutside(f"The repository keeps objects elsewhere. {_YOURSELF}")
    return objects


def _holds_link(folder: Path) -> bool:
    waiting = [os.fspath(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    return True
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return False


async def _refs(sandbox: Sandbox, git: str) -> dict[str, str]:
    refs: dict[str, str] = {}
    for line in (await _text(sandbox, f"{git}/packed-refs")).splitlines():
        sha, _, name = line.partition(" ")
        if _SHA.fullmatch(sha) and _REF.fullmatch(name):
            refs[name] = sha
    try:
        loose, more = await sandbox.list_files(f"{git}/refs", max_entries=_MAX_REFS)
    except OSError:
        return refs
    if more:
        raise CannotRunOutside(f"The repository has more than {_MAX_REFS:,} branches and tags. {_YOURSELF}")
    for path in loose:
        name = path.removeprefix(f"{git}/")
        sha = (await _text(sandbox, path)).strip() if _REF.fullmatch(name) else ""
        if _SHA.fullmatch(sha):
            refs[name] = sha
    return refs


async def _text(sandbox: Sandbox, path: str) -> str:
    try:
        data, size = await sandbox.read_file(path, max_bytes=_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""
    if size > len(data):
        raise CannotRunOutside(f"{path} is too long. {_YOURSELF}")
    return data.decode(errors="replace")


_PLACES_OF_GIT = re.compile(
    r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|NAMESPACE|PREFIX|CONFIG.*)"
)
"""Variables that would make git work on another repository, or obey further settings."""
_OF_SHELLS = re.compile(r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*")
"""Variables that a shell obeys before it starts a program."""
_GIT_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.commitGraph": "false",  # it could tell another history than the commits
    "push.recurseSubmodules": "no",
    "safe.bareRepository": "explicit",
}
_GIT = {"GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS))} | {
    f"GIT_CONFIG_{part}_{n}": text
    for n, setting in enumerate(_GIT_SETTINGS.items())
    for part, text in zip(("KEY", "VALUE"), setting, strict=True)
}
"""No hook runs and no program of a repository is started, whatever other settings say."""
_NO_QUESTIONS = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GCM_INTERACTIVE": "never"}
"""No one is there to answer."""
_NO_SCRIPTS = {"npm_config_ignore_scripts": "true"}


def users_environment(environment: Mapping[str, str], workspace: str) -> dict[str, str]:
    """Return the user's environment as a command outside sees it."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in OURS
        and not name.startswith("FABRIC_")
        and not _PLACES_OF_GIT.fullmatch(name)
        and not _OF_SHELLS.fullmatch(name)
    }
    root = Path(os.path.realpath(workspace))
    entries = own_path(environment.get("PATH")).split(os.pathsep)
    path = [entry for entry in entries if not Path(os.path.realpath(entry)).is_relative_to(root)]
    return kept | _GIT | _NO_QUESTIONS | _NO_SCRIPTS | {"PATH": os.pathsep.join(path)}


def find_program(word: str, environment: Mapping[str, str], workspace: str) -> str:
    """Return the path of a program.

    Raises:
        CannotRunOutside: it is not installed, or belongs to the workspace.
    """
    found = shutil.which(word.rpartition("/")[2], path=environment["PATH"])
    if found is None or (word.startswith("/") and os.path.realpath(word) != os.path.realpath(found)):
        raise CannotRunOutside(
            f"{word} is not on the PATH of this machine, outside of the workspace and its environments."
        )
    if Path(os.path.realpath(found)).is_relative_to(os.path.realpath(workspace)):
        raise CannotRunOutside(f"{word} belongs to the workspace, and no file of it is executed outside the box.")
    return found


def account() -> str:
    """Return whose rights a command outside has."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
