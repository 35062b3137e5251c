"""Writes what a command exports to a file that the user has named."""

from pathlib import Path

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.atomic_files import write_atomically


def write_export(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        write_atomically(path, text.encode())
    except OSError as problem:
        raise ConfigError(
            f"{path} cannot be written: {problem.strerror or problem}", hint="Choose another file."
        ) from None
