"""A command line as bash takes it, and files in memory that hand it over."""

import os
from collections.abc import Mapping

BASH = (b"bash", b"--noprofile", b"--norc", b"-o", b"pipefail", b"-c")
"""What comes before the arguments of a command."""

_MAX_ARGUMENT_BYTES = 100_000
"""Linux takes 128 KiB per argument; a longer command is handed over in pieces."""
_JOIN_PIECES = b'printf -v FABRIC_COMMAND_TEXT %s "$@"; set --; eval "$FABRIC_COMMAND_TEXT"'


def bash_arguments(command: str) -> list[bytes]:
    """Return what follows `bash -c`: the command, or a line that joins its pieces and runs them.

    Raises:
        ValueError: the command is not valid text.
    """
    if "\0" in command:
        raise ValueError("the command contains a NUL byte")
    try:
        text = command.encode()
    except UnicodeEncodeError:
        raise ValueError("the command is not valid text") from None
    if len(text) <= _MAX_ARGUMENT_BYTES:
        return [text]
    pieces = [text[at : at + _MAX_ARGUMENT_BYTES] for at in range(0, len(text), _MAX_ARGUMENT_BYTES)]
    return [_JOIN_PIECES, b"bash", *pieces]


def assignments(environment: Mapping[str, str]) -> list[bytes]:
    """Return variables as `NAME=value`, to be handed over before a command.

    Raises:
        ValueError: a value is none that a variable can have.
    """
    if any("\0" in value for value in environment.values()):
        raise ValueError("a variable of the command contains a NUL byte")
    return [os.fsencode(f"{name}={value}") for name, value in environment.items()]


def memory_file(data: bytes) -> int:
    """Return an open file that exists in memory only, to be read from its start."""
    file = os.memfd_create("fabric", os.MFD_CLOEXEC)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file
