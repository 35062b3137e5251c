"""What a server's program and requests are given: little of our environment, and what the configuration names."""

import re
from collections.abc import Mapping
from typing import Final

from agent_fabric.config.schema.mcp import MCPServerConfig
from agent_fabric.domain.errors import ConfigError

_REFERENCE: Final = re.compile(r"(?:(?P<scheme>[A-Za-z]+) )?env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_NETWORK: Final = frozenset(
    (
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *_PROXIES,
        *(name.upper() for name in _PROXIES),
    )
)
_ALWAYS: Final = frozenset(("PATH", "LANG", "LANGUAGE", "TZ"))
_TRUSTED: Final = frozenset(("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"))


def passed_on(environ: Mapping[str, str], *, network: bool, trusted: bool) -> dict[str, str]:
    """Return what of our own environment a server may see.

    A proxy whose address holds a password is left out: it is a secret that nobody gave to this server.
    """
    names = _ALWAYS | (_NETWORK if network or trusted else frozenset()) | (_TRUSTED if trusted else frozenset())
    return {
        name: value
        for name, value in environ.items()
        if (name in names or name.startswith("LC_")) and not (name in _NETWORK and "@" in value)
    }


def server_environment(server: MCPServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the configuration gives to a server, with secrets in place.

    Raises:
        ConfigError: a variable that it refers to is not set.
    """
    return {name: _resolved(value, server, environ) for name, value in server.env.items()}


def request_headers(server: MCPServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of every request, with secrets in place.

    Raises:
        ConfigError: a variable that they refer to is not set, or is no single line.
    """
    headers = {name: _resolved(value, server, environ) for name, value in server.headers.items()}
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            raise ConfigError(
                f"The header {name} of the tool server {server.name!r} has line breaks or odd characters in it",
                hint="Set the variable that it refers to to one line of plain text.",
            )
    return headers


def secrets_of(server: MCPServerConfig, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values that the configuration takes from our variables; longest first, to be hidden wherever found."""
    names = [found["name"] for value in server.env.values() if (found := _REFERENCE.fullmatch(value))]
    return tuple(sorted({environ[name].strip() for name in names if environ.get(name, "").strip()}, key=len)[::-1])


def _resolved(value: str, server: MCPServerConfig, environ: Mapping[str, str]) -> str:
    found = _REFERENCE.fullmatch(value)
    if found is None:
        return value
    name, scheme = found["name"], found["scheme"]
    secret = environ.get(name, "").strip()
    if not secret:
        raise ConfigError(
            f"The variable {name}, which the tool server {server.name!r} needs, is not set", hint=f"export {name}=…"
        )
    return f"{scheme} {secret}" if scheme else secret
