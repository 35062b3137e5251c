"""Finds and reads configuration files."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from agent_fabric.config.folders import base_folder
from agent_fabric.config.formats.json_text import parse_json
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.config.plain import kind_of, plain_mapping
from agent_fabric.config.problems import ConfigProblem

MAX_FILE_BYTES: Final = 1024 * 1024


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Return the user's own file, if there is one."""
    folder = user_folder(environ)
    return None if folder is None else _only_file(folder)


def user_folder(environ: Mapping[str, str]) -> Path | None:
    """Return where the user's own file belongs; None for a user without a home."""
    return base_folder(environ, "XDG_CONFIG_HOME", ".config")


def project_file(fabric_folder: Path) -> Path | None:
    """Return the file that lies in a fabric folder, if there is one."""
    return _only_file(fabric_folder)


def read_settings(path: Path) -> dict[str, Any]:
    """Read a file by its suffix; an empty file has no settings.

    Raises:
        ConfigProblem: it cannot be read or does not hold a mapping.
    """
    _parser(path)  # a file that is no configuration is not even opened
    return parse_settings(read_text(path), path)


def read_text(path: Path) -> str:
    """Return the text of a configuration file.

    Raises:
        ConfigProblem: it cannot be read, or is no text.
    """
    return decode(_read(path), path)


def parse_settings(text: str, path: Path) -> dict[str, Any]:
    """Return the settings in a file's text; for errors see `read_settings`."""
    parse = _parser(path)
    if not text.strip():
        return {}
    try:
        settings = parse(text)
    except SyntaxProblem as problem:
        place = f" (line {problem.line}, column {problem.column})" if problem.line else ""
        raise ConfigProblem(f"{path}{place}: {problem.message}", hint=_HINTS[path.suffix]) from None
    if settings is None and path.suffix in {".yaml", ".yml"}:
        return {}
    if not isinstance(settings, dict):
        raise ConfigProblem(
            f"{path}: the top level must be a mapping of keys to settings, got {kind_of(settings)}",
            hint=_HINTS[path.suffix],
        )
    return plain_mapping(settings, source=f"file {path}")


def _parser(path: Path) -> Callable[[str], Any]:
    parse = _PARSERS.get(path.suffix)
    if parse is None:
        raise ConfigProblem(f"{path}: the name does not show the format", hint=f"Use a name that ends in {_SUFFIXES}.")
    return parse


def _only_file(folder: Path) -> Path | None:
    candidates = [folder / f"config{suffix}" for suffix in _PARSERS]
    found = [path for path in candidates if os.path.lexists(path)]
    if len(found) > 1:
        raise ConfigProblem(
            f"{folder} has more than one configuration file: {', '.join(path.name for path in found)}",
            hint="Keep only one of them.",
        )
    return found[0] if found else None


def read_beginning(path: Path, most: int) -> bytes | None:
    """Return what a regular file holds, one byte more than `most` if it has more; None: it is something else.

    Raises:
        OSError, ValueError: it cannot be read, or its name has a null character.
    """
    # Not blocking: opening a named pipe would otherwise wait for a writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NONBLOCK)) as file:
        return file.read(most + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None


def reason_of(error: OSError | ValueError) -> str:
    """Return why a file cannot be read."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _read(path: Path) -> bytes:
    try:
        data = read_beginning(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        raise ConfigProblem(f"{path} does not exist", hint="Create the file, or correct FABRIC_CONFIG_PATH.") from None
    except IsADirectoryError:
        raise ConfigProblem(f"{path} is a directory", hint="Name the file, not its folder.") from None
    except (OSError, ValueError) as error:
        raise ConfigProblem(f"{path} cannot be read: {reason_of(error)}") from None
    if data is None:
        raise ConfigProblem(f"{path} is not a regular file")
    if len(data) > MAX_FILE_BYTES:
        raise ConfigProblem(f"{path} is larger than 1 MiB, too large for a configuration file")
    return data


def decode(data: bytes, path: Path) -> str:
    """Return the text of a file.

    Raises:
        ConfigProblem: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigProblem(f"{path} is not UTF-8 text (line {line})", hint="Save the file as UTF-8.") from None


def _parse_yaml(text: str) -> Any:
    from agent_fabric.config.formats.yaml_text import parse_yaml  # noqa: PLC0415 - costs 50 ms, most never need it

    return parse_yaml(text)


def _parse_toml(text: str) -> Any:
    from agent_fabric.config.formats.toml_text import parse_toml  # noqa: PLC0415 - costs 10 ms, most never need it

    return parse_toml(text)


_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    ".json": parse_json,
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
    ".toml": _parse_toml,
}
_SUFFIXES: Final = ".json, .yaml, .yml or .toml"
_HINTS: Final[Mapping[str, str]] = {
    ".json": "The file must be JSON: double quotes, no comments, no comma after the last item.",
    ".yaml": "The file must be YAML: key: value, indented with spaces.",
    ".yml": "The file must be YAML: key: value, indented with spaces.",
    ".toml": "The file must be TOML: key = value, text in quotes, groups as [section].",
}
