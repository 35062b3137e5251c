"""The files of the page, as they are sent: under a name that changes with their content, read and compressed once."""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from agent_fabric.interfaces.http.page.bundles import join_modules

CLIENT: Final = "client"
TEMPLATE: Final = "index.html"
SHELL: Final = "shell.html"
"""What is shown until the program runs, with a message box that takes keys."""
LOADING: Final = '<p class="boot">Loading…</p>'
"""The same for whoever will have to log in first."""
ENTRY: Final = "main.js"
BUNDLES: Final = (ENTRY, "view/turn.js")
"""The first load, and what a conversation needs beyond it."""
FIRST_LOAD: Final = (ENTRY, "early.js", "style.css", "icon.svg")
"""What a browser asks for before the page can be used."""
HTML: Final = "text/html; charset=utf-8"
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
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Whatever a model or a tool writes, the page runs no other program and asks no other machine."""


@dataclass(frozen=True)
class Asset:
    """One file."""

    content: bytes
    media_type: str

    @cached_property
    def compressed(self) -> bytes:
        """Made when the first browser asks for it."""
        return gzip.compress(self.content, 9, mtime=0)


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of the page."""

    digest: str
    """Of all their contents: it is part of every address, so that a browser may keep them for ever."""
    files: Mapping[str, Asset]
    index: Asset
    """The page itself, which names them."""
    shell: Asset
    """The page for a browser that has logged in before: one can type before any script has come."""


@cache
def load_assets() -> Assets:
    """Read the files that were installed with the program."""
    found = dict(_files(resources.files("agent_fabric.interfaces.web") / CLIENT))
    template, shell = found.pop(TEMPLATE).decode(), found.pop(SHELL).decode()
    served = join_modules(found, BUNDLES)
    digest = hashlib.sha256(b"".join(name.encode() + b"\0" + served[name] for name in sorted(served))).hexdigest()[:16]
    files = {name: Asset(content, MEDIA_TYPES[_suffix(name)]) for name, content in served.items()}
    page = template.replace("{{base}}", f"/app/{digest}")
    index, known = (Asset(page.replace("{{shown}}", shown).encode(), HTML) for shown in (LOADING, shell))
    return Assets(digest, files, index, known)


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif _suffix(entry.name) in MEDIA_TYPES or entry.name in {TEMPLATE, SHELL}:
            yield f"{prefix}{entry.name}", entry.read_bytes()


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
