"""Whose name commits carry that commands in a box make: the user's, as outside the box.

A box has a home folder of its own, so git would know no one there and refuse to commit. Of the user's git settings only
the name and the e-mail address enter the box, as settings that every repository's own go before.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from agent_fabric.infrastructure.own_path import own_path

_TIMEOUT_S = 5.0
_VARIABLES = {"name": "GIT_AUTHOR_NAME", "email": "GIT_AUTHOR_EMAIL"}
_PLACES = ("HOME", "XDG_CONFIG_HOME", "PATH")
_MAX_CHARS = 300


def git_identity(environment: Mapping[str, str]) -> str:
    """Return the user's name and e-mail address as text of a git settings file; empty: neither is known."""
    places = tuple((name, environment[name]) for name in _PLACES if name in environment)
    known = dict(_read_configuration(places, _changed_at(environment)))
    known |= {key: environment[name] for key, name in _VARIABLES.items() if environment.get(name)}
    lines = [f"\t{key} = {_quote(known[key])}\n" for key in _VARIABLES if known.get(key)]
    return "".join(("[user]\n", *lines)) if lines else ""


def _changed_at(environment: Mapping[str, str]) -> tuple[int, ...]:
    """Return when the user's settings were changed last, so that a server need not be restarted for it."""
    home = Path(environment.get("HOME") or "/nonexistent")
    folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    found: list[int] = []
    for path in (home / ".gitconfig", folder / "git" / "config", Path("/etc/gitconfig")):
        try:
            found.append(path.stat().st_mtime_ns)
        except OSError:
            found.append(0)
    return tuple(found)


@lru_cache(maxsize=8)
def _read_configuration(
    places: tuple[tuple[str, str], ...], changed_at: tuple[int, ...]
) -> tuple[tuple[str, str], ...]:
    """Ask git itself, which knows how its settings files include others; of no repository."""
    environment = dict(places)
    git = shutil.which("git", path=own_path(environment.get("PATH"))) if any(changed_at) else None
    if git is None:
        return ()
    try:
        asked = subprocess.run(
            [git, "config", "--includes", "--null", "--get-regexp", r"^user\.(name|email)$"],
            cwd="/",
            env={**environment, "GIT_DIR": os.devnull},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()  # commits then fail as they do for a user without a name, and git says why
    entries = asked.stdout.decode(errors="replace").split("\0")
    settings = (entry.partition("\n") for entry in entries if entry)
    return tuple((name.removeprefix("user."), value) for name, _, value in settings)


def _quote(value: str) -> str:
    plain = "".join(each for each in value if each.isprintable())[:_MAX_CHARS]
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
