"""The token of a fabric folder: the one who can read the file `.fabric/token` owns the folder, and may do everything.

A token that others could have read is no secret any more, and one that is a link or someone else's was not made by us:
the server puts a new one in its place when it starts, and until then no one is let in with it.
"""

import os
import re
import secrets
from pathlib import Path

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.private_files import NotPrivate, read_private, write_private
from agent_fabric.infrastructure.runs.log.layout import Layout

LOCAL_PREFIX = "local_"
_BYTES = 32
_FORM = re.compile(r"[\x21-\x7e]{32,512}\n?")


def token_file(root: Path) -> Path:
    """Return where the token of a fabric folder lies."""
    return root / "token"


def local_token(root: Path) -> str:
    """Return the token of a fabric folder, making it, and the folder, when it is first needed.

    Raises:
        ConfigError: it cannot be read or made, or the file system lets everyone read it.
    """
    found = read_local_token(root)
    if found is None:
        # Looked at again: what lies there now may be the good one of a process that was faster.
        _make(root, replace=_lies_there(root) and read_local_token(root) is None)
        found = read_local_token(root)
    if found is None:
        raise ConfigError(
            f"{token_file(root)} cannot be kept private",
            hint="This file system may not know owners. Choose a folder on another one with --workspace.",
        )
    return found


def read_local_token(root: Path) -> str | None:
    """Return the token of a fabric folder, or None if it has none that can be trusted. Never makes one.

    Raises:
        ConfigError: there is one that we may not read.
    """
    try:
        content = read_private(token_file(root))
    except NotPrivate:
        return None
    text = (content or b"").decode("ascii", "replace")
    return text.rstrip("\n") if _FORM.fullmatch(text) else None


def rotate_local_token(root: Path) -> str:
    """Put a new token in the place of the old one, which counts no more.

    Raises:
        ConfigError: it cannot be written.
    """
    _make(root, replace=True)
    return local_token(root)


class LocalToken:
    """The token as it is now, for use with every request; the file is read again when it has changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._file = str(token_file(root))
        self._seen: tuple[int, ...] = ()
        self._token: str | None = None

    def __call__(self) -> str | None:
        """Return the token; None if there is none that can be trusted."""
        try:
            found = os.lstat(self._file)  # for each request, so without path objects
            seen = (found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_mode, found.st_uid)
            if seen != self._seen:
                self._token = read_local_token(self._root)
                self._seen = seen
        except (OSError, ConfigError):
            self._seen, self._token = (), None
        return self._token


def _make(root: Path, *, replace: bool) -> None:
    Layout(root).make()  # it hides itself from git, so that no token is ever committed
    write_private(token_file(root), f"{LOCAL_PREFIX}{secrets.token_urlsafe(_BYTES)}\n".encode(), replace=replace)


def _lies_there(root: Path) -> bool:
    """Tell whether there is something that cannot be trusted."""
    path = token_file(root)
    return path.exists() or path.is_symlink()
