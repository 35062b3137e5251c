"""Shell completion of values, such as the id of a run, and of the words of commands: before any command is imported.

A person waits for it at every press of a key. So nothing here builds the application, imports pydantic or pathlib, asks
a server or writes. What cannot be read offers nothing.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_fabric.interfaces.cli.completion_table import offer_words
from agent_fabric.interfaces.cli.main import COMMANDS

Offer = tuple[str, str]
"""A value and its description."""
_MAX_BYTES = 1024 * 1024
_BUILT_IN = {
    "models": ("fast", "quality"),
    "specialists": ("engineering", "research", "enterprise_research", "sysadmin", "review", "assistant"),
}
_SUFFIXES = {"workflows": (".yaml", ".yml", ".json"), "agents": (".json", ".yaml", ".yml", ".md")}
_FOLDERS = {"workflows": "workflow-definitions", "agents": "agent-definitions"}
_NO_AGENTS = ("README.MD", "AGENTS.MD")
NOT_A_VALUE = -1
"""What is typed is something else, such as a subcommand or an option."""
NO_FILES = 3
"""The exit code with which bash is told that no file name fits either."""
_MAY_BE_FILES = frozenset({"workflows", None})
ARGUMENTS = {
    **dict.fromkeys(("resume", "cancel", "diff", "undo", "files", "verify", "logs show", "logs export"), "runs"),
    **dict.fromkeys(("workflow resume", "workflow cancel", "workflow signal", "workflow lineage", "eval add"), "runs"),
    **dict.fromkeys(("eval show", "eval resume", "eval cancel"), "evals"),
    **dict.fromkeys(("approvals show", "approvals approve", "approvals deny", "approvals done"), "approvals"),
    **dict.fromkeys(("workflow show", "workflow graph", "workflow run"), "workflows"),
    **dict.fromkeys(("agents show", "agents run"), "agents"),
    **dict.fromkeys(("models probe", "models pull"), "models"),
    **dict.fromkeys(("users set", "users password", "users remove", "token issue"), "users"),
    "keys revoke": "keys",
}
"""What the first argument of a command is."""
OPTIONS = {"--run": "runs", "--pack": "specialists", "--model-key": "models", "--key": "models"}
"""What an option takes."""
VALUED = frozenset(OPTIONS).union(
    ("--workspace", "--server", "--input", "-i", "--inputs", "--visibility", "--reason", "--args", "--hash"),
    ("--set", "--sign", "--node", "--data", "--from", "--format", "--output", "-o", "--kinds", "--model"),
    (
        "--max-steps",
        "--max-cost",
        "--priority",
        "--pool",
        "--task-force-mode",
        "--kind",
        "--limit",
        "--role",
        "--scope",
    ),
    ("--lifetime", "--check", "--to", "--id", "--only", "--compare", "--report", "--min-right"),
)
"""Options of these commands after which a value comes."""
_GROUPS = frozenset(command.split()[0] for command in ARGUMENTS if " " in command) | {"audit"}
_MAX_CHARACTERS = 60


def complete_value(environ: Mapping[str, str]) -> int:
    """Print the values that fit what is typed; return the exit code (NO_FILES for bash), or NOT_A_VALUE.

    Nothing that goes wrong is told: its text would end up in the line that is being typed.
    """
    shell = environ.get("_FABRIC_COMPLETE", "").removeprefix("complete_")
    kind: str | None = ""
    try:
        words, typed = typed_words(shell, environ)
        kind = kind_of(words, typed)
        offered = offer_words(words, typed) if kind is None else _find(kind, words, typed, environ)
        if offered is None:
            return NOT_A_VALUE
        found = offered
    except Exception:  # noqa: BLE001 - see above
        found = []
    text = format_offers(shell, found, are_ours=kind is None)
    if shell == "fish" and environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if text else 1  # fish asks whether there are any
    sys.stdout.write(f"{text}\n" if text else "")
    return NO_FILES if shell == "bash" and not text and kind not in _MAY_BE_FILES else 0


def typed_words(shell: str, environ: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the words between `fabric` and the cursor, and the one at the cursor."""
    if shell == "bash":
        words, at = _split(environ.get("COMP_WORDS", "")), int(environ.get("COMP_CWORD", "0"))
        before, typed = words[1:at], words[at] if at < len(words) else ""
        # Bash takes `--pack=x` for three words.
        return [word for word in before if word != "="], "" if typed == "=" else typed
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    return (words[:-1], words[-1]) if words and not line.endswith(" ") else (words, "")


def kind_of(words: Sequence[str], typed: str) -> str | None:
    """Return which kind of value is typed after these words; None: something else."""
    path, last, arguments = _read(words)
    if last is not None:
        return OPTIONS.get(last)
    if not typed.startswith("-") and not any(word in COMMANDS for word in words):
        return "commands" if all(word.startswith("-") for word in words[::2]) else None
    if typed.startswith("-") or not path or arguments:
        return None
    return "runs" if path == "run" and "--continue" in words else ARGUMENTS.get(path)


def format_offers(shell: str, found: Iterable[Offer], *, are_ours: bool = False) -> str:
    """Return values as the script of a shell wants them.

    The script of zsh evaluates the answer, and that of bash expands it. A name that could mean something there is left
    out; of descriptions only letters, digits and harmless signs are kept. Subcommands and options are our own words.
    """
    safe = [(value, plain_text(text)) for value, text in found if are_ours or _is_safe(value)]
    if shell == "zsh":
        items = "\n".join(f'"{value}":"{text}"' if text else f'"{value}"' for value, text in safe)
        return f"_arguments '*: :(({items}))'" if items else ""
    if shell == "fish":
        return "\n".join(f"{value}\t{text}" if text else value for value, text in safe)
    if shell in ("powershell", "pwsh"):
        return "\n".join(f"{value}:::{text or ' '}" for value, text in safe)
    return "\n".join(value for value, _ in safe)


def _find(kind: str, words: Sequence[str], typed: str, environ: Mapping[str, str]) -> list[Offer]:
    if kind == "commands":
        return [(name, text) for name, text in COMMANDS.items() if name.startswith(typed)]
    server, workspace = _given_value("--server", words), _given_value("--workspace", words)
    if works_elsewhere(server, workspace, environ):
        return []
    earlier, comma, prefix = typed.rpartition(",") if kind == "specialists" else ("", "", typed)
    return [(f"{earlier}{comma}{value}", text) for value, text in offers(kind, prefix, workspace, environ)]


def _split(line: str) -> list[str]:
    if "\n" in line:
        return line.split("\n")  # bash gives each word in a line of its own
    if not any(sign in line for sign in "\"'\\"):
        return line.split()
    import shlex  # noqa: PLC0415 - takes its time

    return shlex.split(line)


def _read(words: Sequence[str]) -> tuple[str, str | None, list[str]]:
    """Return the command, the option whose value comes next, and the arguments so far."""
    plain: list[str] = []
    last: str | None = None
    for word in words:
        if last is not None:
            last = None
        elif word in VALUED:
            last = word
        elif not word.startswith("-"):
            plain.append(word)
    length = 2 if plain and plain[0] in _GROUPS else 1
    return " ".join(plain[:length]) if len(plain) >= length else "", last, plain[length:]


def _given_value(option: str, words: Sequence[str]) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def _is_safe(value: str) -> bool:
    return value.isascii() and all(sign.isalnum() or sign in "._-," for sign in value) and value[:1] != "-"


def plain_text(text: str) -> str:
    """Return the beginning of a description without what could mean something to a shell."""
    kept = "".join(sign if sign.isalnum() or sign in ".,-_/" else " " for sign in text[:_MAX_CHARACTERS])
    return " ".join(kept.split())


def offers(kind: str, prefix: str, workspace: str | None, environ: Mapping[str, str]) -> list[Offer]:
    """Return the values of a kind, such as runs or workflows, that begin with a prefix."""
    here = os.getcwd()  # noqa: PTH109 - pathlib takes its time
    root = _root(here) if workspace is None else os.path.join(here, os.path.expanduser(workspace))  # noqa: PTH111, PTH118
    if kind in ("runs", "approvals", "evals", "users", "keys"):
        if _is_elsewhere(root, environ):
            return []
        from agent_fabric.bootstrap.this_machine import offer_stored  # noqa: PLC0415 - only these read

        return offer_stored(kind, f"{root}/fabric.db", prefix)
    files = _files(root, environ)
    names = _entries(files, kind) if kind in _BUILT_IN else _definitions(files, kind, root, here)
    return [(name, "") for name in sorted(set(names)) if name.startswith(prefix)]


def works_elsewhere(server: str | None, workspace: str | None, environ: Mapping[str, str]) -> bool:
    """Tell whether the command works on a server: what lies in this folder is then not what it means."""
    chosen = server or (environ.get("FABRIC_URL") if workspace is None else None)
    return bool(chosen) and chosen != "auto"


def _is_elsewhere(root: str, environ: Mapping[str, str]) -> bool:
    """Tell whether the store may be in a database, which is too slow for a press of a key."""
    if environ.get("FABRIC_STORE__URL") or environ.get("FABRIC_STORE"):
        return True
    return any("postgres" in text or "env:" in text for _, text in _files(root, environ) if "store" in text)


def _root(here: str) -> str:
    folder = here
    while not os.path.isdir(f"{folder}/.fabric"):  # noqa: PTH112 - pathlib takes its time
        above = os.path.dirname(folder)  # noqa: PTH120 - as above
        if above == folder:
            return f"{here}/.fabric"
        folder = above
    return f"{folder.rstrip('/')}/.fabric"


def _files(root: str, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return suffix and text of every configuration file that can be read."""
    chosen, home = environ.get("FABRIC_CONFIG_PATH"), environ.get("HOME", "")
    config = environ.get("XDG_CONFIG_HOME", "")
    folders = (f"{config if config.startswith('/') else f'{home}/.config'}/agent-fabric", root)
    paths = [f"{folder}/config{suffix}" for folder in folders for suffix in (".json", ".yaml", ".yml", ".toml")]
    found = []
    for path in [os.path.expanduser(chosen)] if chosen else paths:  # noqa: PTH111 - pathlib takes its time
        if os.path.isfile(path):  # noqa: PTH113 - as above; opening a named pipe would block
            with open(path, encoding="utf-8-sig") as file:  # noqa: PTH123 - as above
                found.append((os.path.splitext(path)[1], file.read(_MAX_BYTES)))  # noqa: PTH122 - as above
    return found


def _entries(files: Iterable[tuple[str, str]], section: str) -> Iterable[str]:
    """Return the built-in keys of a section, and those in files."""
    yield from _BUILT_IN[section]
    for suffix, text in files:
        if suffix in (".yaml", ".yml"):
            yield from _yaml_keys(text, section)
        elif isinstance(entries := _parse(suffix, text).get(section), dict):
            yield from entries


def _parse(suffix: str, text: str) -> dict[str, Any]:
    if suffix == ".toml":
        import tomllib  # noqa: PLC0415 - takes its time

        return tomllib.loads(text)
    value = json.loads(text) if suffix == ".json" and text.strip() else {}
    return value if isinstance(value, dict) else {}


def _yaml_keys(text: str, section: str) -> Iterable[str]:
    """Return the keys right below a section of a YAML file in block style; a parser would take too long."""
    inside, depth = False, 0
    for line in text.splitlines():
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if not bare or bare.startswith("#"):
            continue
        if indent == 0:
            inside, depth = bare.split("#")[0].rstrip() == f"{section}:", 0
        elif inside and (depth in (0, indent)) and ":" in bare:
            depth = indent
            yield bare.partition(":")[0].strip("\"' ")


def _definitions(files: Iterable[tuple[str, str]], kind: str, root: str, here: str) -> Iterable[str]:
    """Return the names of definition files, in the folders that the configuration names."""
    folders: list[str] = [_FOLDERS[kind]]
    for suffix, text in files:
        section = _parse(suffix, text).get(kind)
        if isinstance(section, dict) and isinstance(section.get("definitions"), list):
            folders = [os.path.expanduser(str(each)) for each in section["definitions"]]  # noqa: PTH111 - see above
    home = os.path.dirname(root)  # noqa: PTH120 - pathlib takes its time
    places = (here, home) if here.startswith(f"{home.rstrip('/')}/") else (home,)
    for folder in {os.path.join(place, each) for place in places for each in folders}:  # noqa: PTH118 - as above
        if os.path.isdir(folder):  # noqa: PTH112 - as above
            for name in os.listdir(folder):  # noqa: PTH208 - as above
                stem, suffix = os.path.splitext(name)  # noqa: PTH122 - as above
                if suffix in _SUFFIXES[kind] and not name.startswith(".") and name.upper() not in _NO_AGENTS:
                    yield stem
