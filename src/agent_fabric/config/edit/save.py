"""Writes a change into a configuration file without losing anything that a person wrote there."""

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from agent_fabric.config.edit import json_edit, toml_edit
from agent_fabric.config.edit.change import CannotEdit, Change, applied
from agent_fabric.config.environment import CONFIG_PATH
from agent_fabric.config.files import parse_settings, read_text, user_file, user_folder
from agent_fabric.config.problems import ConfigProblem

NEW_FILE: Final = "config.yaml"


class Saved(NamedTuple):
    """What was written."""

    path: Path
    backup: Path | None
    """The file as it was before; None when there was none."""
    lines: str
    """What the file now says, as a person would write it."""


def file_to_change(environ: Mapping[str, str]) -> Path:
    """Return the file that the user's own choices go to, whether it exists or not.

    Raises:
        ConfigProblem: there are several, or no place for one.
    """
    if chosen := environ.get(CONFIG_PATH):
        return Path(os.path.expanduser(chosen))  # noqa: PTH111 - as the loader does
    folder = user_folder(environ)
    if folder is None:
        raise ConfigProblem(
            "There is no home folder to keep a configuration in", hint=f"export {CONFIG_PATH}=/some/path/config.yaml"
        )
    return user_file(environ) or folder / NEW_FILE


def save_model(path: Path, key: str, change: Change) -> Saved:
    """Change the settings of one model in a file, which is made if it does not exist.

    The new text is read back and compared before it is written: either the file means what it meant, with this change,
    or nothing is written.

    Raises:
        ConfigProblem: the file cannot be read or written, or not be changed without risk; the hint has what to write.
    """
    with_model, lines = _editor(path)
    shown = lines(key, change)
    exists = os.path.lexists(path)
    before = read_text(path) if exists else ""
    try:
        wanted = applied(parse_settings(before, path), key, change)
        after = with_model(before, key, change)
        is_right = parse_settings(after, path) == wanted
    except (CannotEdit, ConfigProblem) as problem:
        raise _cannot_edit(path, shown, str(problem)) from None
    if not is_right:
        raise _cannot_edit(path, shown, "it is written in an unusual way")
    try:
        backup = _replace(path, before, after) if exists else None
        if not exists:
            _create(path, after)
    except OSError as problem:
        raise ConfigProblem(
            f"{path} cannot be written: {problem.strerror or problem}",
            hint=f"Make it writable, or write this into a configuration file yourself:\n{shown}",
        ) from None
    return Saved(path, backup, shown)


def _editor(path: Path) -> tuple[Callable[[str, str, Change], str], Callable[[str, Change], str]]:
    match path.suffix:
        case ".json":
            return json_edit.with_model, json_edit.lines
        case ".toml":
            return toml_edit.with_model, toml_edit.lines
        case _:
            from agent_fabric.config.edit import yaml_edit  # noqa: PLC0415 - costs 50 ms, as in `files`

            return yaml_edit.with_model, yaml_edit.lines


def _create(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(path, text, 0o600)


def _replace(path: Path, before: str, after: str) -> Path:
    real = Path(os.path.realpath(path))  # people keep their settings elsewhere and link to them
    backup = real.with_name(real.name + ".bak")
    shutil.copy2(real, backup)
    if read_text(real) != before:
        raise ConfigProblem(f"{path} was changed by another process at this moment", hint="Try again.")
    _write(real, after, stat.S_IMODE(real.stat().st_mode))
    return backup


def _write(path: Path, text: str, mode: int) -> None:
    """Write a file so that there is always the old one or the new one, also after a power cut."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _cannot_edit(path: Path, shown: str, why: str) -> ConfigProblem:
    return ConfigProblem(
        f"{path} was left as it is, since changing it could destroy something: {why}",
        hint=f"Write this into it yourself:\n{shown}",
    )
