"""Changes the settings of one model in a configuration file; comments and order stay."""

import io
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent_fabric.config.files import parse_settings, read_text, user_file, user_folder
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.variable_names import CONFIG_PATH
from agent_fabric.infrastructure.atomic_files import write_atomically

NEW_FILE: Final = "config.yaml"

Change = Mapping[str, str | None]
"""Names of settings with their new texts; None removes a setting."""


class Saved(NamedTuple):
    """What was written."""

    path: Path
    backup: Path | None
    """The file as it was before; None when there was none."""
    lines: str
    """The change as a new file would have it."""


def file_to_change(environ: Mapping[str, str]) -> Path:
    """Return the user's own configuration file, whether it exists or not.

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
    """Change the settings of one model in a file, which is created if it does not exist.

    The new text is parsed and compared before it is written: either the file means what it meant, with this change,
    or nothing is written.

    Raises:
        ConfigProblem: the file cannot be read, changed or written; the hint has what to write.
    """
    lines = with_model("", path.suffix, key, change)
    exists = os.path.lexists(path)
    before = read_text(path) if exists else ""
    wanted = parse_settings(before, path)
    try:
        apply_change(wanted, key, change)
        after = with_model(before, path.suffix, key, change)
        if parse_settings(after, path) != wanted:
            raise ValueError("it is written in an unusual way")
    except (ValueError, ConfigProblem) as problem:
        raise ConfigProblem(
            f"{path} was left as it is, since changing it could destroy something: {problem}",
            hint=f"Write this into it yourself:\n{lines}",
        ) from None
    try:
        backup = _replace(path, before, after) if exists else None
        if not exists:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, after.encode())
    except OSError as problem:
        raise ConfigProblem(
            f"{path} cannot be written: {problem.strerror or problem}",
            hint=f"Make it writable, or write this into a configuration file yourself:\n{lines}",
        ) from None
    return Saved(path, backup, lines)


def apply_change(settings: MutableMapping[str, Any], key: str, change: Change) -> None:
    """Make the change below `models.<key>`.

    Raises:
        ValueError: something else than a mapping stands there.
    """
    for name in ("models", key):
        if settings.get(name) is None:
            settings[name] = {}
        settings = settings[name]
        if not isinstance(settings, MutableMapping):
            raise ValueError(f"{name!r} is not a mapping")  # noqa: TRY004 - what is wrong is the file
    for name, text in change.items():
        if text is None:
            settings.pop(name, None)
        else:
            settings[name] = text


def with_model(text: str, suffix: str, key: str, change: Change) -> str:
    """Return a valid text with the change made.

    Raises:
        ValueError: the library for this format cannot represent the text.
    """
    match suffix:
        case ".json":
            settings = json.loads(text) if text.strip() else {}
            apply_change(settings, key, change)
            indent = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
            return json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
        case ".toml":
            return _in_toml(text, key, change)
        case _:
            return _in_yaml(text, key, change)


def _in_toml(text: str, key: str, change: Change) -> str:
    import tomlkit  # noqa: PLC0415 - only what changes a file needs it
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    try:
        document = tomlkit.parse(text if not text or text.endswith("\n") else f"{text}\n")
        if "models" not in document:
            document.add("models", tomlkit.table(is_super_table=True))
        apply_change(document, key, change)
        return tomlkit.dumps(document)
    except TOMLKitError as problem:
        raise ValueError(str(problem)) from None


def _in_yaml(text: str, key: str, change: Change) -> str:
    from ruamel.yaml import YAML  # noqa: PLC0415 - only what changes a file needs it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415
    from ruamel.yaml.util import load_yaml_guess_indent  # noqa: PLC0415

    editor = YAML()
    editor.preserve_quotes = True
    editor.width = 10_000
    editor.explicit_start = text.startswith("---")
    out = io.StringIO()
    try:
        document, indent, dash = load_yaml_guess_indent(text, yaml=editor)
        nested = re.search(r"^( +)[^\s-]", text, re.MULTILINE)
        editor.indent(mapping=len(nested[1]) if nested else 2, sequence=indent, offset=dash)
        settings = {} if document is None else document
        apply_change(settings, key, {name: _yaml_text(value) for name, value in change.items()})
        editor.dump(settings, out)
    except (YAMLError, AttributeError, TypeError) as problem:
        raise ValueError(str(problem)) from None
    after = out.getvalue() if document is not None else "\n".join([*text.splitlines(), out.getvalue()])
    comments = (line.strip() for line in text.splitlines() if line.lstrip().startswith("#"))
    if any(comment not in after for comment in comments):
        raise ValueError("a comment stands where it would get lost")
    return after.replace("\n", "\r\n") if "\r\n" in text else after


def _yaml_text(text: str | None) -> str | None:
    import yaml  # noqa: PLC0415 - only what changes a file needs it
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString  # noqa: PLC0415

    # What plain words mean differs between YAML 1.2, which is written, and 1.1, which is read.
    if text is None or (text.isidentifier() and yaml.safe_load(text) == text):
        return text
    quoted: str = DoubleQuotedScalarString(text)
    return quoted


def _replace(path: Path, before: str, after: str) -> Path:
    real = Path(os.path.realpath(path))  # the file may be a link to another folder
    backup = real.with_name(real.name + ".bak")
    shutil.copy2(real, backup)
    if read_text(real) != before:
        raise ConfigProblem(f"{path} was changed by another process at this moment", hint="Try again.")
    mode = stat.S_IMODE(real.stat().st_mode)
    write_atomically(real, after.encode(), mode=mode)
    real.chmod(mode)  # the umask may have removed rights
    return backup
