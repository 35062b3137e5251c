"""Tells whether a fabric folder was created by this user on this machine.

A fabric folder is trusted: its configuration can name programs to start, its runs can be resumed. A folder that was
unpacked or cloned with a project must not be. So a created folder gets a mark, signed with a key of the user and bound
to its path. A folder without a mark is used only after the person has trusted it.

The mark is bound to the configuration and to the variables of the project's `.env`: a `git pull` can change either.
"""

import hashlib
import hmac
import os
import stat
from contextlib import suppress
from pathlib import Path

from agent_fabric.config.dotenv import read_dotenv
from agent_fabric.config.files import MAX_FILE_BYTES
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.audit.key import UNKEYED, AuditKey
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.runs.log.layout import FOLDER as FABRIC_FOLDER

FOLDER = "made-here"
_SUFFIXES = (".json", ".yaml", ".yml", ".toml")
"""Of files that are obeyed."""


def mark(root: Path, key: AuditKey) -> None:
    """Write down that this user made a folder, or trusts it and the configuration that is in it now.

    Raises:
        OSError: the mark cannot be written.
    """
    _write_mark(root, key, _read_mark(root, key))


def _write_mark(root: Path, key: AuditKey, said: list[str]) -> None:
    path = _mark(root, key)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, "\n".join(said).encode(), durable=False)


def claim(root: Path, key: AuditKey) -> None:
    """Mark a folder that has nothing in it yet. A `.env` beside it was there before, and is not trusted by that."""
    if key != UNKEYED and _is_new(root):
        with suppress(OSError):  # a full disk is noticed, and explained, by whatever comes next
            _write_mark(root, key, _read_mark(root, key, dotenv=b""))


def is_ours(root: Path, key: AuditKey) -> bool:
    """Tell whether a folder may be obeyed: nothing is in it yet, or it has this user's mark for this configuration."""
    return key == UNKEYED or (_is_new(root) and not _dotenv(root)) or _mark_of(root, key) == _read_mark(root, key)


def require_made_locally(root: Path, key: AuditKey) -> None:
    """Refuse a folder whose runs someone else may have made up.

    Raises:
        ConfigError: no one has said that it can be trusted.
    """
    if key == UNKEYED or _is_new(root) or _mark_of(root, key)[:1] == _read_mark(root, key)[:1]:
        return
    if others := _other_things(root):
        raise ConfigError(
            f"{root} is no fabric folder, but holds other files, such as {', '.join(others)}",
            hint=f"--workspace names the folder for records, such as {root / FABRIC_FOLDER}. To work on these files, "
            "leave it out: go there, and use --here.",
        )
    raise ConfigError(
        f"{root} was not made by you on this machine, so nothing in it is obeyed",
        hint="If you moved it or know its origin: fabric config trust. If not, remove it or name another --workspace.",
    )


def require_ours(root: Path, key: AuditKey) -> None:
    """Refuse a folder that someone else may have filled, or whose configuration someone else may have changed.

    Raises:
        ConfigError: no one has said that it can be trusted.
    """
    require_made_locally(root, key)
    if not is_ours(root, key):
        if _dotenv(root) and (_is_new(root) or _mark_of(root, key) == _read_mark(root, key, dotenv=b"")):
            raise ConfigError(
                f"{root.parent / '.env'} has settings of agent-fabric that you have not trusted, so nothing is done",
                hint="Look at its FABRIC_ lines. If they are as you want them: fabric config trust.",
            )
        raise ConfigError(
            f"The configuration in {root} is not the one that you trusted, so it is not obeyed",
            hint="Look at it. If it is as you want it: fabric config trust.",
        )


def _is_new(root: Path) -> bool:
    """Whether there is nothing in a folder but what we put there before we mark it.

    A link is not: it may lead to any folder, and links in it to any other.
    """
    try:
        if root.is_symlink():
            return False
        with os.scandir(root) as entries:
            return all(_is_of_making(entry) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return True  # the code that makes it says what is wrong with it
    except OSError:
        return False


def _other_things(root: Path) -> list[str]:
    """Return a few names in a folder that is none of ours, such as a project; none: it may be a fabric folder."""
    with suppress(OSError):
        names = sorted(os.listdir(root))  # noqa: PTH208 - names only
        if root.name != FABRIC_FOLDER and not {FOLDER, "fabric.db"} & set(names):
            known = {".gitignore", FABRIC_FOLDER, "runs"}
            return [name for name in names if name not in known and not name.endswith(_SUFFIXES)][:3]
    return []


def _is_of_making(entry: os.DirEntry[str]) -> bool:
    match entry.name:
        case ".gitignore":
            return entry.is_file(follow_symlinks=False)
        case "runs":
            return entry.is_dir(follow_symlinks=False) and not os.listdir(entry.path)  # noqa: PTH208 - names only
        case "made-here":  # perhaps of someone who marks it just now
            return entry.is_dir(follow_symlinks=False)
        case _:
            return False


def _mark(root: Path, key: AuditKey) -> Path:
    return root / FOLDER / key.name


def _mark_of(root: Path, key: AuditKey) -> list[str]:
    """Return what the mark says; nothing without one."""
    with suppress(OSError, ValueError):
        return _mark(root, key).read_text().split()
    return []


def _read_mark(root: Path, key: AuditKey, *, dotenv: bytes | None = None) -> list[str]:
    """Return what a mark must say of the place, and of the configuration in it and beside it."""
    # Not only where a link leads to: a project could lead us to another fabric folder of the same user.
    itself = os.path.join(os.path.realpath(root.parent), root.name)  # noqa: PTH118 - as it is compared
    place = b"agent-fabric folder\0" + os.fsencode(itself) + b"\0" + os.fsencode(os.path.realpath(root))
    try:
        configured = _configuration(root) + (_dotenv(root) if dotenv is None else dotenv)
        return [hmac.digest(key.value, said, "sha256").hex() for said in (place, place + b"\0" + configured)]
    except OSError:
        return [hmac.digest(key.value, place, "sha256").hex(), "unreadable"]


def _configuration(root: Path) -> bytes:
    """Return what tells one configuration from another; policies that it names lie beside it."""
    found = hashlib.sha256()
    for name in sorted(name for name in os.listdir(root) if name.endswith(_SUFFIXES)):  # noqa: PTH208 - names only
        found.update(os.fsencode(name) + b"\0")
        file = os.open(root / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(file).st_mode):
                found.update(hashlib.sha256(_read(file)).digest())
        finally:
            os.close(file)
    return found.digest()


def _dotenv(root: Path) -> bytes:
    """Return what tells one set of settings in the project's `.env` from another; nothing without any."""
    try:
        found = read_dotenv(root)
    except ConfigProblem:
        return b"unreadable"
    said = "\0".join(f"{name}={found[name].value}" for name in sorted(found))
    return hashlib.sha256(said.encode()).digest() if found else b""


def _read(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as whole:
        return whole.read(MAX_FILE_BYTES + 1)
