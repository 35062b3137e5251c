"""Inputs as they are typed: `-i key=value`, `-i key=@file`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.workflows.inputs import parse_values

MAX_BYTES = 10 * 1024 * 1024
"""Of a file that is an input."""

Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="KEY=VALUE", help="An input; may be given more than once. @FILE reads one."),
]


def typed_inputs(pairs: Sequence[str] | None, declared: Mapping[str, Parameter], *, of: str) -> dict[str, Any]:
    """Return inputs with the types that they are declared with; `of` names what they are for.

    Raises:
        InvalidInputs: one is no `key=value`, is not declared, is given twice, is not of its type, or names a file that
            cannot be read.
    """
    return parse_values([_with_content(pair) for pair in pairs or ()], declared, of=of)


def _with_content(pair: str) -> str:
    """Put the content of a file in the place of its name."""
    name, equals, text = pair.partition("=")
    try:
        pair.encode()
    except UnicodeEncodeError:  # what is no UTF-8 reaches us as halves of characters
        shown = name.encode("utf-8", "replace").decode()
        raise InvalidInputs(f"The value of {shown!r} is not UTF-8 text", hint="Put it into a file as UTF-8.") from None
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        text = file_content(name, Path(text[1:]).expanduser())
    return f"{name}{equals}{text}"


def file_content(name: str, path: Path) -> str:
    """Return the text of a file that stands for a value; `name` says which one.

    Raises:
        InvalidInputs: it cannot be read, is larger than 10 MiB, or is not UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidInputs(f"The file for {name!r} is not UTF-8 text: {path}") from None
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        hint = "To start a value with @, write @@."
        raise InvalidInputs(f"The file for {name!r} cannot be read: {why}: {path}", hint=hint) from None
    if len(data) > MAX_BYTES:
        raise InvalidInputs(f"The file for {name!r} is larger than 10 MiB: {path}", hint="Give the agent its path.")
    return text
