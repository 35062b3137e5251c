"""A `.git` folder that a command has made: what git would execute or obey in it is put aside, the rest may stay."""

import os
import re
from collections.abc import Callable
from contextlib import suppress

PutAside = Callable[[int, str], bool]
"""Renames a name in an open folder; tells whether it was there."""

_KEPT_HOOK = ".sample"
_NEVER = ("commondir", "config.worktree", "modules", "worktrees")
_MAX_BYTES = 64 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_SECTION = re.compile(r'\[\s*([a-z]+)(?:\s+"[^"\\]*")?\s*\]')
_SETTING = re.compile(r"([a-z]+)\s*=\s*[^\\]*")
_HARMLESS = {
    "core": {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "symlinks", "autocrlf"},
    "user": {"name", "email"},
    "init": {"defaultbranch"},
    "remote": {"url", "fetch"},
    "branch": {"remote", "merge", "rebase"},
    "extensions": {"objectformat", "refstorage"},
    "pull": {"rebase"},
    "commit": {"gpgsign"},
}
"""Settings that start nothing. Any other, and the whole file is put aside."""


def put_aside_orders(folder: int, put_aside: PutAside) -> list[str]:
    """Put aside what git would obey in this folder; return the names."""
    names = [name for name in _NEVER if _exists(folder, name)]
    if _has_hooks(folder):
        names.append("hooks")
    if _exists(folder, "config") and not is_harmless(_text(folder, "config")):
        names.append("config")
    return [name for name in names if put_aside(folder, name)]


def is_repository(folder: int) -> bool:
    """Whether git takes this folder itself for a repository and obeys its settings, as it does with a bare one."""
    has = {name for name in ("HEAD", "objects", "refs", "commondir") if _exists(folder, name)}
    return has >= {"HEAD", "objects", "refs"} or has >= {"HEAD", "commondir"}


def is_harmless(text: str | None) -> bool:
    """Whether git's settings only say who and where, and start nothing. What cannot be read for sure does not pass."""
    if text is None:
        return False
    harmless: set[str] = set()
    for line in (line.strip() for line in text.casefold().splitlines()):
        if not line or line[0] in "#;":
            continue
        if section := _SECTION.fullmatch(line):
            harmless = _HARMLESS.get(section[1], set())
        elif not (setting := _SETTING.fullmatch(line)) or setting[1] not in harmless:
            return False
    return True


def _has_hooks(folder: int) -> bool:
    try:
        hooks = os.open("hooks", _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return False
    except OSError:  # a link, or not a folder
        return True
    try:
        return any(not name.endswith(_KEPT_HOOK) for name in os.listdir(hooks))  # noqa: PTH208 - an open folder
    finally:
        os.close(hooks)


def _exists(folder: int, name: str) -> bool:
    with suppress(OSError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _text(folder: int, name: str) -> str | None:
    """Return a short text; None if it is none."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        data = os.read(file, _MAX_BYTES)
        return data.decode() if len(data) < _MAX_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(file)
