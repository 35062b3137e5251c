"""The values that a shell offers: runs, approvals, users, keys, workflows, agents, packs and models of a folder.

A person waits for them at every press of a key. So nothing here builds the application, imports pydantic or pathlib,
asks a server or writes. What cannot be read offers nothing.
"""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

Offer = tuple[str, str]
"""A value and its description."""
_MAX_BYTES = 1024 * 1024
_BUILT_IN = {
    "models": ("fast", "quality"),
    "specialists": ("engineering", "research", "enterprise_research", "sysadmin", "assistant"),
}
_SUFFIXES = {"workflows": (".yaml", ".yml", ".json"), "agents": (".json", ".yaml", ".yml", ".md")}
_FOLDERS = {"workflows": "workflow-definitions", "agents": "agent-definitions"}
_NO_AGENTS = ("README.MD", "AGENTS.MD")


def offers(kind: str, prefix: str, workspace: str | None, environ: Mapping[str, str]) -> list[Offer]:
    """Return the values of a kind, such as runs or workflows, that begin with a prefix."""
    here = os.getcwd()  # noqa: PTH109 - pathlib takes its time
    root = _root(here) if workspace is None else os.path.join(here, os.path.expanduser(workspace))  # noqa: PTH111, PTH118
    if kind in ("runs", "approvals", "evals", "users", "keys"):
        if _is_elsewhere(root, environ):
            return []
        from agent_fabric.infrastructure.persistence.runs import completion_rows as rows  # noqa: PLC0415 - only these read

        reads = {"runs": rows.newest_runs, "approvals": rows.pending_approvals, "users": rows.users}
        reads["evals"] = rows.newest_evals
        return reads.get(kind, rows.live_keys)(f"{root}/fabric.db", prefix)
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
