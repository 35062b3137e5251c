"""How far a call reaches that a person is asked about: the files, hosts and nodes that it names, and the way back."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import Invocation, UnparsableCommand
from agent_fabric.domain.policy.outside_plan import Outside

MAX_NAMES: Final = 50
"""Of each kind."""
_PATH_ARGUMENTS: Final = frozenset({"path", "file", "paths", "files", "destination", "to_path", "target_path"})
_NODE_ARGUMENTS: Final = frozenset({"node", "nodes", "hostname"})
_CHANGES_FILES: Final = frozenset(
    {"rm", "rmdir", "mv", "cp", "ln", "touch", "mkdir", "chmod", "chown", "chgrp", "tee", "truncate", "shred", "unlink"}
)
"""Programs whose every argument is a file that they change or make."""
_CONTENTS: Final = frozenset(
    {"content", "text", "body", "old", "new", "old_text", "new_text", "diff", "patch", "message"}
)
"""Arguments that are written somewhere; what they mention is not touched."""
_URL: Final = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s\"'<>|;)]{1,2000}", re.IGNORECASE)
_LOGIN: Final = re.compile(r"(?:^|\s)[\w.-]{1,64}@([\w-]{1,63}(?:\.[\w-]{1,63}){0,8})")
_PATH: Final = re.compile(
    r"(?:\.{0,2}/|~/)?[\w.@+-]+(?:/[\w.@+*-]+)+/?"  # src/main.py
    r"|(?:\.{0,2}/|~/)[\w.@+*-]+"  # ./build
    r"|[\w-]+\.[A-Za-z]\w{0,5}"  # notes.md
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastRadius:
    """What a call names that it could touch. Programs may touch more than they are told."""

    files: tuple[str, ...]
    hosts: tuple[str, ...]
    nodes: tuple[str, ...]
    reversible: bool
    """Whether what it does can be taken back."""
    why: str
    """In words: where it reaches, and what cannot be taken back."""


def blast_radius(
    args: Mapping[str, Any], *, rule: str, sandbox: str, destination: str, outside: Outside | None
) -> BlastRadius:
    """Return how far a call reaches, as far as its arguments tell."""
    inner = args.get("arguments")  # of a call that is handed on, such as to a machine of the fleet
    args = {**args, **inner} if isinstance(inner, Mapping) else args
    command = args.get("command")
    texts = [text for key, value in args.items() if key not in _CONTENTS for text in _texts(value)]
    files = [*_texts_under(args, _PATH_ARGUMENTS), *(_files_of(command) if isinstance(command, str) else ())]
    hosts = [host for text in (*texts, destination, *_words(outside)) for host in _hosts(text)]
    nodes = tuple(_texts_under(args, _NODE_ARGUMENTS))
    leaves = outside is not None or bool(destination) or rule == "outward_effect"
    if leaves and outside is None and not destination and sandbox != "C":
        why = "another machine, as far as the box lets it out; what was sent cannot be taken back"
    elif leaves:
        why = "another machine; what was sent cannot be taken back"
    elif nodes:
        why = "machines of the fleet; nothing there is taken back by itself"
    elif sandbox == "C":
        why = "all files of this user; changes outside the workspace cannot be taken back"
    else:
        why = "the workspace; changes can be taken back"
    return BlastRadius(
        files=_distinct(files),
        hosts=_distinct(hosts),
        nodes=_distinct(nodes),
        reversible=not leaves and not nodes and sandbox != "C",
        why=why,
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))[:MAX_NAMES]


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() | tuple():
            for each in value:
                yield from _texts(each)
        case _:
            return


def _texts_under(args: Mapping[str, Any], keys: frozenset[str]) -> Iterator[str]:
    for key in keys & args.keys():
        yield from _texts(args[key])


def _words(outside: Outside | None) -> tuple[str, ...]:
    return () if outside is None else (outside.goes_to, *outside.words)


def _hosts(text: str) -> Iterator[str]:
    for address in _URL.findall(text):
        try:
            host = urlsplit(address).hostname
        except ValueError:
            continue
        if host:
            yield host
    yield from _LOGIN.findall(text)


def _files_of(command: str) -> Iterator[str]:
    try:
        found = parse_command(command)
    except UnparsableCommand:
        return
    for invocation in found:
        yield from (each.target for each in invocation.redirects if each.writes_file)
        yield from _arguments(invocation)


def _arguments(invocation: Invocation) -> Iterator[str]:
    for place, word in enumerate(invocation.words[1:], start=1):
        if word.startswith("-") or place in invocation.unknown or "://" in word:
            continue
        if invocation.name in _CHANGES_FILES or _PATH.fullmatch(word):
            yield word
