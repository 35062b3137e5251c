"""The kinds of values that settings take, each with a check that explains itself."""

import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import (
    AfterValidator,
    BeforeValidator,
    Field,
    Strict,
    StringConstraints,
)
from agent_fabric.config.secret_references import is_reference

SECTION: Any = Field(default_factory=dict, validate_default=True)
"""Default of a group of settings: each at its own default. Checked with the rest, so that it needs no class built."""


def matching(form: str, message: str, *, hint: str = "", flags: re.RegexFlag = re.UNICODE) -> AfterValidator:
    """Return the check that a whole text has a form."""
    pattern = re.compile(form, flags)

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ConfigProblem(message, hint=hint)
        return text

    return AfterValidator(check)


def without(characters: str, message: str) -> AfterValidator:
    """Return the check that a text has none of some characters."""

    def check(text: str) -> str:
        if any(character in text for character in characters):
            raise ConfigProblem(message)
        return text

    return AfterValidator(check)


def _web_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or not address.isascii() or not address.isprintable() or " " in address:
        raise ConfigProblem("must be an http:// or https:// address, such as 'http://localhost:11434/v1'")
    if "@" in parts.netloc:
        raise ConfigProblem(
            "must not contain a user name or password",
            hint="Keep secrets in environment variables and name them with 'env:NAME'.",
        )
    return address


def _base_address(address: str) -> str:
    address = _web_address(address)
    if "?" in address or "#" in address:
        raise ConfigProblem("must not contain '?' or '#': paths such as /chat/completions are added to it")
    return address.rstrip("/")


def _secret_reference(reference: str) -> str:
    if not is_reference(reference):
        raise ConfigProblem(
            "must be a reference such as 'env:OPENAI_API_KEY', never the key itself",
            hint="Put the key into an environment variable and write 'env:' and the variable's name here. Or keep it "
            "with `fabric secrets set NAME` and write 'file:NAME'; of a vault, 'vault:path#field'.",
        )
    return reference


def _absolute_path(path: Path) -> Path:
    try:
        expanded = path.expanduser()
    except RuntimeError:
        raise ConfigProblem("names a home folder that cannot be found") from None
    if not expanded.is_absolute() or "\0" in str(expanded):
        raise ConfigProblem("must be an absolute path, or start with ~/")
    return expanded


Text = Annotated[str, StringConstraints(min_length=1)]
"""Text that is not empty."""

Texts = Annotated[tuple[Text, ...], Strict(strict=False)]
"""A list of texts; a file's list becomes a tuple, hence the leniency."""

ScopeName = Annotated[
    str,
    matching(
        r"runs:read|runs:all|runs|approvals|workflows|nodes|admin|tools:[A-Za-z0-9_.*-]{1,128}",
        "is no scope",
        hint="Scopes: runs:read, runs:all, runs, approvals, workflows, nodes, admin, tools:* and tools:NAME.",
    ),
]
"""A scope: `runs:read`, `runs`, `approvals`, `workflows`, `nodes`, `admin`, `tools:*` or `tools:NAME`."""

Scopes = Annotated[tuple[ScopeName, ...], Strict(strict=False)]

EntryKey = Annotated[
    str,
    matching(
        r"[a-z0-9][a-z0-9_-]{0,63}",
        "is not a usable name: use at most 64 of a-z, 0-9, - and _, and start with a letter or digit",
    ),
]
"""The key of a model or specialist."""

ServerName = Annotated[
    str,
    matching(
        r"(?=.{1,64}$)[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_|$))*",
        "must be at most 64 letters, digits, - and _, without two _ in a row",
        hint="The name becomes part of tool names, as in mcp__NAME__search.",
    ),
]
"""The name of an MCP server."""

WebAddress = Annotated[str, AfterValidator(_web_address)]
"""An http or https address."""

BaseAddress = Annotated[str, AfterValidator(_base_address)]
"""An http or https address to which paths are added; kept without a slash at its end."""

SecretReference = Annotated[str, AfterValidator(_secret_reference)]
"""Where a secret is kept: `env:NAME`, `file:NAME` or `vault:path#field`."""

Builder = Annotated[
    str,
    matching(
        r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*",
        "must be 'module:function', such as 'my_packs.custom:build_pack'",
        flags=re.ASCII,
    ),
]
"""A function to import: `module:function`."""

AbsolutePath = Annotated[Path, Strict(strict=False), AfterValidator(_absolute_path)]
"""A path that means the same wherever the program is started; text becomes a path, hence the leniency."""

HeaderName = Annotated[str, matching(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", "is not a usable header name")]
HeaderValue = Annotated[str, without("\r\n\0", "must be a single line")]
VariableName = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_]*", "is not a usable name for an environment variable")]
VariableValue = Annotated[str, without("\0", "must not contain a null character")]


def _off(value: object) -> object:
    return "off" if value is False else value


YAML_OFF = BeforeValidator(_off)
"""Takes `false` for the word: YAML reads `off` so."""
