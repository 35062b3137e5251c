"""Finds the folders that a server's program needs to run: toolchains in the home folder, its own installation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_IN_HOME: Final = (
    *(".local/bin", ".local/lib", ".local/pipx", ".local/share/uv", ".local/share/pipx", ".local/share/pnpm"),
    *(".pyenv", ".nvm", ".volta", ".asdf", ".bun/bin", ".deno/bin", ".cargo/bin", ".rustup/toolchains"),
)
"""Toolchains; none of these folders is a place for keys."""
_MOUNTED: Final = ("/usr", "/bin", "/sbin", "/lib", "/opt")


def tool_folders(program: str, args: tuple[str, ...], home: Path) -> list[Path]:
    """Return what must be readable for a program with these arguments; never the home folder itself."""
    found = [home / name for name in _IN_HOME]
    found += _around(Path(program))
    for word in args:
        if word.startswith("/") and Path(word).is_file():
            found += _around(Path(word))
            break  # the script of an interpreter; further files are named by `folders`
    kept: list[Path] = []
    for path in found:
        if path.exists() and not _too_much(path, home) and not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _around(file: Path) -> Iterator[Path]:
    """Yield the installation that a file belongs to, or just the file."""
    for path in dict.fromkeys((file, file.resolve())):
        if path.is_relative_to("/usr"):
            continue
        yield from _installation(path)


def _installation(path: Path) -> Iterator[Path]:
    for parent in path.parents:
        if parent.name == "node_modules":
            yield parent
            return
        settings = parent / "pyvenv.cfg"
        if settings.is_file():
            yield parent
            yield from _base_python(settings)
            return
    yield path


def _base_python(settings: Path) -> Iterator[Path]:
    """Yield where the interpreter of a virtual environment is installed."""
    try:
        lines = settings.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home" and Path(value.strip()).is_absolute():
            binaries = Path(value.strip())
            yield from (binaries.parent, binaries.resolve().parent)


def _too_much(path: Path, home: Path) -> bool:
    return home.is_relative_to(path) or any(str(path) == folder or path.is_relative_to(folder) for folder in _MOUNTED)
