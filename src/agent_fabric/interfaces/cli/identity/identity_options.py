"""What the commands about people, keys and tokens have in common."""

import getpass
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from agent_fabric.bootstrap.records import Records, open_records, open_secrets
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.accounts import MAX_PASSWORD_CHARS, password_for
from agent_fabric.domain.identity.principals import AnyScope, Scope, scope_from
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import plain, print_warning
from agent_fabric.interfaces.cli.place import Place

if TYPE_CHECKING:
    from agent_fabric.bootstrap.identity import Identity

T = TypeVar("T")

Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help=f"Repeatable: {', '.join(Scope)}; tools:NAME, tools:read, tools:write, tools:none limit tools.",
    ),
]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input instead of asking for it.")
]


def read_scopes(names: list[str] | None) -> list[AnyScope] | None:
    """Return the scopes of `--scope`; None if there are none."""
    try:
        return [scope_from(name) for name in names] if names else None
    except ValueError as problem:
        raise ConfigError(f"--scope: {problem}", hint="See: docs/guides/people-and-keys.md") from None


class LocalIdentity:
    """The users and keys of a folder. What only lists needs neither its use cases nor the configuration."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._opened = ExitStack()

    @cached_property
    def joined(self) -> "Identity":
        """The use cases."""
        from agent_fabric.bootstrap.identity import open_identity  # noqa: PLC0415 - see above

        root, storage = self.records.layout.root, self.records.storage
        config = configuration(root).config
        resolve = open_secrets(config.secrets, root, os.environ).chain.resolve
        shared = bool(config.store.url)
        identity = open_identity(root, config.identity, storage, resolve, at_once=False, shared=shared)
        return self._opened.enter_context(closing(identity))

    def close(self) -> None:
        self._opened.close()


def opens(kind: Callable[[LocalIdentity], T]) -> Callable[[Place], AbstractAsyncContextManager[T]]:
    """Return what opens users and keys of a folder as something that commands work on; its server sees changes."""

    @asynccontextmanager
    async def open_here(at: Place) -> AsyncIterator[T]:
        root = at.root()
        if not root.exists():
            sys.stderr.write(f"Making a fabric folder: {plain(str(root))}\n")
        with open_records(root) as records, closing(LocalIdentity(records)) as identity:
            yield kind(identity)

    return open_here


def warn_of_shared_runs(at: Place) -> None:
    """Say once, when the first user or key has been made here, that all of them see all runs."""
    if at.url() is not None:
        return
    from agent_fabric.bootstrap.identity import HINT, PROBLEM, is_to_be_said  # noqa: PLC0415 - lists need it not

    root = at.root()
    if is_to_be_said(root, configuration(root).config.identity):
        print_warning(f"{PROBLEM}. {HINT}")


def read_password(name: str, *, from_stdin: bool, twice: bool = True) -> str:
    """Return a password: typed at the terminal, a new one twice, or read from standard input.

    Never one of the command line, which every process of the machine can read.
    """
    if from_stdin:
        return sys.stdin.readline(MAX_PASSWORD_CHARS + 2).rstrip("\r\n")
    if not sys.stdin.isatty():
        raise ConfigError(
            "There is no terminal to ask for a password", hint="Send it on standard input, with --password-stdin."
        )
    password = getpass.getpass(f"Password for {name}: ")
    if twice:
        password_for(name, password)  # a bad one is not asked for a second time
    if twice and getpass.getpass("Once more: ") != password:
        raise ConfigError("The two passwords differ", hint="Try again; nothing was changed.")
    return password
