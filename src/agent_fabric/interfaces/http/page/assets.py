"""The files of the page, as they are sent: under a name that changes with their content, compressed once."""

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

CLIENT: Final = "client"
TEMPLATE: Final = "index.html"
ENTRY: Final = "main.js"
STYLE: Final = "style.css"
MEDIA_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Whatever a model or a tool writes, the page runs no other program and asks no other machine."""
_IMPORT: Final = re.compile(r"""^(?:import|export)\b[^"';]*?["'](\.{1,2}/[^"']+)["']""", re.MULTILINE)
"""A module that is loaded at once; `import("…")` loads later."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    content: bytes
    compressed: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of the page."""

    digest: str
    """Of all their contents: it is part of every address, so that a browser may keep them for ever."""
    files: Mapping[str, Asset]
    index: Asset
    """The page itself, which names them."""


def load_assets() -> Assets:
    """Read the files that were installed with the program."""
    found = dict(_files(resources.files("agent_fabric.interfaces.web") / CLIENT))
    template = found.pop(TEMPLATE).decode()
    digest = hashlib.sha256(b"".join(name.encode() + b"\0" + found[name] for name in sorted(found))).hexdigest()[:16]
    files = {name: _asset(content, MEDIA_TYPES[_suffix(name)]) for name, content in found.items()}
    preloads = "\n".join(
        f'<link rel="modulepreload" href="/app/{digest}/{name}">' for name in eager_modules(found, ENTRY)
    )
    page = template.replace("{{base}}", f"/app/{digest}").replace("{{preloads}}", preloads).encode()
    return Assets(digest, files, _asset(page, "text/html; charset=utf-8"))


def eager_modules(files: Mapping[str, bytes], entry: str) -> list[str]:
    """Return the modules that a browser needs before the page works, so that it asks for all of them at once."""
    found = [entry]
    for name in found:  # grows on the way
        for target in _IMPORT.findall(files[name].decode()):
            path = _joined(name, target)
            if path not in found:
                found.append(path)
    return found


def _joined(name: str, target: str) -> str:
    parts = name.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif _suffix(entry.name) in MEDIA_TYPES or entry.name == TEMPLATE:
            yield f"{prefix}{entry.name}", entry.read_bytes()


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


def _asset(content: bytes, media_type: str) -> Asset:
    return Asset(content, gzip.compress(content, 9, mtime=0), media_type)
