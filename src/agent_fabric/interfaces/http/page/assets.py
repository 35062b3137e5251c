"""The files of the page, as they are sent: under a name that changes with their content, read and compressed once."""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from agent_fabric.domain.dataclass import dataclass

_IMPORT: Final = re.compile(
    r'^import (?:\{(?P<names>[^}]*)\}|\* as (?P<whole>\w+)) from "(?P<target>\.{1,2}/[^"]+)";$', re.MULTILINE
)
_DECLARED: Final = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_LISTED: Final = re.compile(r"\bexport\s*\{([^}]*)\};?\s*$")
"""As in libraries that came minified, at their end."""
_LOADED: Final = re.compile(r'\bimport\("(\.{1,2}/[^"]+)"\)(?!\.)')
"""Loaded later. With a dot behind it, it is the name of a type in a comment."""
_NOT_UNDERSTOOD: Final = re.compile(r"^(?:import\b(?!\()|export\b).*", re.MULTILINE)


def join_modules(files: Mapping[str, bytes], entries: Sequence[str]) -> dict[str, bytes]:
    """Return the files as they are served: each entry holds what it imports, unless an earlier entry holds it.

    Raises:
        ValueError: a module imports or exports in a way that is not understood, or modules import each other.
    """
    home: dict[str, str] = {}
    for entry in entries:
        home |= {module: entry for module in list(modules_of(files, entry)) if module not in home}
    served: dict[str, bytes] = {}
    for name, content in files.items():
        if name in entries:
            served[name] = _bundle(files, home, name).encode()
        elif not name.endswith(".js"):
            served[name] = content
        elif name not in home:
            served[name] = _Rewriting(home, name, name).text(content.decode()).encode()
    return served


def modules_of(files: Mapping[str, bytes], entry: str) -> Iterator[str]:
    """Yield all modules that an entry needs at once, each after those that it imports itself.

    Raises:
        ValueError: modules import each other.
    """
    done: set[str] = set()
    open_ones: list[str] = []

    def visit(name: str) -> Iterator[str]:
        if name in open_ones:
            raise ValueError(f"Modules import each other: {' -> '.join([*open_ones, name])}")
        if name in done:
            return
        open_ones.append(name)
        for found in _IMPORT.finditer(files[name].decode()):
            yield from visit(_path(name, found["target"]))
        open_ones.pop()
        done.add(name)
        yield name

    yield from visit(entry)


def _bundle(files: Mapping[str, bytes], home: Mapping[str, str], entry: str) -> str:
    inside = [module for module, bundle in home.items() if bundle == entry]
    own = {name: f"${nth}" for nth, name in enumerate(inside)}
    foreign: dict[str, str] = {}
    bodies: list[str] = []
    exported: list[str] = []
    for name in inside:
        rewriting = _Rewriting(home, name, entry, own)
        body, exported = _without_exports(rewriting.text(files[name].decode()))
        foreign |= rewriting.foreign
        bodies.append(f"const {own[name]} = (() => {{ // {name}\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();")
    imports = [
        f'import {{ "{module}" as {alias} }} from "{_relative(entry, home[module])}";'
        for module, alias in foreign.items()
    ]
    shared = ", ".join(f'{alias} as "{module}"' for module, alias in own.items())
    names = ", ".join(each.partition(":")[0] for each in exported)  # those of the entry, which comes last
    visible = [f"export const {{ {names} }} = {own[entry]};"] if names else []
    return "\n".join([*imports, *bodies, *visible, f"export {{ {shared} }};", ""])


def _without_exports(source: str) -> tuple[str, list[str]]:
    """Return a module without its exports, and these as the fields of an object."""
    exported = [found[2] for found in _DECLARED.finditer(source)]
    source = _DECLARED.sub(r"\1", source)
    listed = _LISTED.search(source)
    if listed is not None:
        source = source[: listed.start()]
        pairs = (each.split(" as ") for each in listed[1].split(","))
        exported += [f"{pair[-1].strip()}: {pair[0].strip()}" for pair in pairs]
    left = _NOT_UNDERSTOOD.search(source)
    if left is not None:
        raise ValueError(f"This is not understood: {left[0][:200]}")
    return source, exported


class _Rewriting:
    """Rewrites the imports of one module for the file in which it is served."""

    def __init__(self, home: Mapping[str, str], name: str, served: str, own: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._name = name
        self._served = served
        self._own = own
        """What the modules of its bundle are called; None: it is served alone."""
        self.foreign: dict[str, str] = {}
        """Modules of other bundles that it imports, and what they are called in its own."""

    def text(self, source: str) -> str:
        """Return the module as it is served."""
        return _LOADED.sub(self._rewrite_load, _IMPORT.sub(self._rewrite_import, source))

    def _rewrite_import(self, found: "re.Match[str]") -> str:
        module = _path(self._name, found["target"])
        names = (found["names"] or "").replace(" as ", ": ")
        taken = found["whole"] or f"{{{names}}}"
        alias = "$" + re.sub(r"\W", "_", module)
        if self._own is not None:
            if module not in self._own:
                self.foreign[module] = alias
            return f"const {taken} = {self._own.get(module, alias)};"
        if module not in self._home:
            return found[0]
        bundle = _relative(self._served, self._home[module])
        return f'import {{ "{module}" as {alias} }} from "{bundle}"; const {taken} = {alias};'

    def _rewrite_load(self, found: "re.Match[str]") -> str:
        module = _path(self._name, found[1])
        if self._home.get(module, module) != module:
            raise ValueError(f"{self._name} loads {module} later, which {self._home[module]} holds")
        return f'import("{_relative(self._served, module)}")'


def _path(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def _relative(name: str, target: str) -> str:
    path = posixpath.relpath(target, posixpath.dirname(name) or ".")
    return path if path.startswith("../") else f"./{path}"


CLIENT: Final = "client"
TEMPLATE: Final = "index.html"
SHELL: Final = "shell.html"
"""What is shown until the program runs, with a message box that takes keys."""
LOADING: Final = '<p class="boot">Loading…</p>'
"""The same for a browser without a login."""
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
