"""Texts that look like a secret, whoever it belongs to: private keys, tokens, passwords in addresses.

They are hidden as configured secrets are: a model that never sees one cannot be talked into sending it.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

T = TypeVar("T")


class Shape(NamedTuple):
    """One kind of secret."""

    name: str
    signs: tuple[str, ...]
    """One of these stands in every text that has such a secret: looking for them costs next to nothing."""
    expression: re.Pattern[str]


PRIVATE_KEY: Final = Shape(
    "private key",
    ("PRIVATE KEY",),
    re.compile(
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    ),
)
TOKEN: Final = Shape(
    "token",
    ("sk-", "gh", "glpat-", "xox", "xapp-", "AKIA", "ASIA", "AIza", "hf_", "eyJ", "a33_", "local_", "npm_", "pypi-"),
    re.compile(
        r"(?<![A-Za-z0-9])(?:"
        r"sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and others like them
        r"|gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
        r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"  # Slack
        r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
        r"|AIza[\w-]{30,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|pypi-AgE[\w-]{30,}"
        r"|eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]{8,}"  # JSON Web Tokens
        r"|a33_[0-9a-f]{12}_[\w-]{8,}|local_[\w-]{43}"  # ours
        r")"
    ),
)
PASSWORD: Final = Shape(
    "password",
    ("://",),
    # What stands for a password, such as $NAME, {name}, <name> or ****, is none.
    re.compile(r"(?<=://)[^\s/@:\"'<>\\]{1,100}:[^\s/@:\"'<>\\$\[{*]{3,200}(?=@[\w.-])"),
)
SHAPES: Final = (PRIVATE_KEY, TOKEN, PASSWORD)
_SHORTEST: Final = 12
"""Shorter texts hold none of them."""
_PLACEHOLDERS: Final = tuple(f"[secret: {shape.name}]" for shape in SHAPES)


def hide_shapes(value: T) -> T:
    """Return a value in which nothing looks like a secret, at any depth; the very same one if nothing did."""
    return cast("T", _hidden(value))


def placeholder_in(text: str) -> str:
    """Return what stands for a hidden secret in a text; empty: nothing does."""
    return next((each for each in _PLACEHOLDERS if each in text), "")


def _hidden(value: Any) -> Any:
    match value:
        case str():
            if len(value) >= _SHORTEST:
                for shape in SHAPES:
                    for sign in shape.signs:  # not `any`: this is done for every text that a run reads
                        if sign in value:
                            value = shape.expression.sub(f"[secret: {shape.name}]", value)
                            break
            return value
        case Mapping():
            hidden = {_hidden(key): _hidden(item) for key, item in value.items()}
            return hidden if hidden != value else value
        case list() | tuple() if not hasattr(value, "_fields"):
            items = [_hidden(item) for item in value]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
        case _:
            return value
