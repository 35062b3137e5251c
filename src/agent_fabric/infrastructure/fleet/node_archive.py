"""Builds `fabric-node.pyz`: every module that the node's program imports, and no other, always with the same bytes."""

import ast
import hashlib
import io
import threading
import zipfile
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

ROOT: Final = "agent_fabric"
START: Final = f"{ROOT}.interfaces.node.main"
MAX_BYTES: Final = 400_000
_SHEBANG: Final = b"#!/usr/bin/env python3\n"
_MAIN: Final = """\
import os
import sys

PROGRAM = "{program}"
words = [part for word in sys.argv for part in word.split("=", 1)]
usual = "/var/lib/fabric-node" if os.geteuid() == 0 else os.path.expanduser("~/.fabric-node")
folder = words[words.index("--dir") + 1] if "--dir" in words[:-1] else usual
unpacked = os.path.join(folder, "program", PROGRAM)
if os.path.isdir(unpacked):
    sys.path.insert(0, unpacked)

from agent_fabric.interfaces.node.main import main

sys.exit(main())
"""
"""Where the program was unpacked when it joined, it need not be compiled again with every start."""
_BUILDING: Final = threading.Lock()
"""Building takes a second, and twenty invitations at once would build it twenty times."""
_MOMENT: Final = (2020, 1, 1, 0, 0, 0)


class NodeArchive(NamedTuple):
    """The program of a node."""

    data: bytes
    sha256: str


def node_archive() -> NodeArchive:
    """Return the archive that belongs to this version; built once, however many ask for it at first."""
    with _BUILDING:
        return _build()


@cache
def _build() -> NodeArchive:
    sources = _sources()
    program = hashlib.sha256(b"\0".join(name.encode() + b"\0" + text for name, text in sorted(sources.items())))
    sources["__main__.py"] = _MAIN.format(program=program.hexdigest()[:16]).encode()
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in sorted(sources.items()):
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    data = buffer.getvalue()
    return NodeArchive(data, hashlib.sha256(data).hexdigest())


def _sources() -> dict[str, bytes]:
    """Return the files of everything that the program imports, however late."""
    found: dict[str, bytes] = {}
    waiting = [START]
    while waiting:
        name = waiting.pop()
        path = _path_of(name)
        if path is None or path in found:
            continue
        text = _read(path)
        found[path] = text
        parents = name.split(".")
        waiting += [".".join(parents[:n]) for n in range(1, len(parents))]
        waiting += _imported_modules(text)
    return found


def _path_of(name: str) -> str | None:
    base = name.replace(".", "/")
    return next((path for path in (f"{base}.py", f"{base}/__init__.py") if _exists(path)), None)


def _exists(path: str) -> bool:
    return files(ROOT).joinpath(path.removeprefix(f"{ROOT}/")).is_file()


def _read(path: str) -> bytes:
    return files(ROOT).joinpath(path.removeprefix(f"{ROOT}/")).read_bytes()


def _imported_modules(text: bytes) -> list[str]:
    """Return our modules that a source imports, but for those that only its types need."""
    names: list[str] = []
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        waiting += ast.iter_child_nodes(node)
    return [name for name in names if name == ROOT or name.startswith(f"{ROOT}.")]
