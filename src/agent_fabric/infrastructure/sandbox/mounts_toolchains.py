"""Programs that a person has installed outside the system's folders: found, so that a box can show them read-only.

A box has no home folder. What is shown of it are folders that hold programs and nothing else; what lies beside them,
keys and settings, stays out.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
"""Folders of programs that every box shows, where they exist."""

_IN_HOME = (
    *(".pyenv", ".local/share/uv/python", ".local/share/uv/tools", ".local/share/pipx/venvs", ".local/bin"),
    *(".nvm/versions", ".volta", ".local/share/fnm", ".bun/bin", ".deno/bin", ".local/share/pnpm"),
    *(".rustup", ".cargo/bin", ".cargo/registry", "go/bin", ".sdkman/candidates", ".ghcup/bin", ".juliaup"),
    *(".rbenv", ".asdf", ".local/share/mise", "miniconda3", "miniforge3", "anaconda3"),
)
_NEVER_SHOWN = ("/etc", "/tmp", "/var", "/proc", "/dev", "/sys", "/run", "/home", "/opt")  # noqa: S108 - names
"""Folders that are no one's programs; what lies in them may be."""
_MAX_MARKER_BYTES = 64 * 1024
_NAMED_BY = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "JAVA_HOME", "GOROOT", "RUSTUP_HOME")


def toolchains(environment: Mapping[str, str], workspace: Path) -> tuple[Path, ...]:
    """Return the folders of programs outside the system's, none inside another, none around or in the workspace."""
    home = Path(environment.get("HOME") or "/nonexistent")
    wanted = [
        *(home / name for name in _IN_HOME),
        *(Path(environment[name]) for name in _NAMED_BY if environment.get(name)),
        *(root for entry in environment.get("PATH", "").split(os.pathsep) for root in _roots(Path(entry))),
        *interpreter_folders(),
    ]
    found: list[Path] = []
    for path in sorted(set(wanted), key=lambda one: len(one.parts)):
        if _may_be_shown(path, home, workspace) and not within(path, found):
            found.append(path)
    return tuple(found)


def interpreter_folders() -> tuple[Path, ...]:
    """Return what the interpreter of this process needs, in which boxes start their worker."""
    return Path(sys.prefix), Path(sys.base_prefix), interpreter().parent.parent


def interpreter() -> Path:
    """Return the program file of the interpreter itself, not of a virtual environment that points to it."""
    return Path(sys.executable).resolve()


def within(path: Path | str, folders: Iterable[Path | str]) -> bool:
    """Whether the path is one of the folders or lies in one."""
    text = f"{path}/"
    return any(text.startswith(f"{folder}/") for folder in folders)


def _roots(entry: Path) -> tuple[Path, ...]:
    """Return what must be seen for the programs in one folder of PATH to work."""
    if not entry.is_absolute():
        return ()
    if (marker := entry.parent / "pyvenv.cfg").is_file():
        return entry.parent, *_base_of(marker)
    if entry.name == "shims":  # pyenv, rbenv, asdf: what the small scripts in there start lies beside them
        return (entry.parent,)
    return (entry,)


def _base_of(marker: Path) -> tuple[Path, ...]:
    """Return the installation on which a virtual environment stands.

    The environment may lie in the workspace, where a command can write whatever it wants to see: so only what really is
    a Python is believed.
    """
    text = ""
    with suppress(OSError), marker.open("rb") as file:
        text = file.read(_MAX_MARKER_BYTES).decode(errors="replace")
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            programs = Path(value.strip())
            return (programs.parent,) if _is_python(programs) else ()
    return ()


def _is_python(programs: Path) -> bool:
    """Whether a folder of programs belongs to an installation of Python."""
    if not programs.is_absolute() or ".." in programs.parts or "\0" in str(programs):
        return False
    return next(programs.parent.glob("lib*/python3*/os.py"), None) is not None and (programs / "python3").exists()


def _may_be_shown(path: Path, home: Path, workspace: Path) -> bool:
    return (
        path.is_dir()
        and path.is_absolute()
        and not within(path, (*SYSTEM, workspace, "/proc", "/dev", "/sys"))
        and not any(within(one, [path]) for one in (home, workspace, *_NEVER_SHOWN))
    )
