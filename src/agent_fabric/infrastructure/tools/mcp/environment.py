"""What a server's program and requests are given: little of our environment, and what the configuration names."""

from collections.abc import Iterator, Mapping
from typing import Final

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.config.secret_references import SecretReference, reference_in
from agent_fabric.domain.errors import ConfigError

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

    A proxy whose address holds a password is left out: it is a secret that no one gave to this server.
    """
    names = _ALWAYS | (_NETWORK if network or trusted else frozenset()) | (_TRUSTED if trusted else frozenset())
    return {
        name: value
        for name, value in environ.items()
        if (name in names or name.startswith("LC_")) and not (name in _NETWORK and "@" in value)
    }


async def secrets_for(
    server: MCPServerConfig, environ: Mapping[str, str], resolve: Resolve | None = None
) -> dict[str, str]:
    """Return the values of all secrets that a server's configuration refers to, by reference.

    Raises:
        ConfigError: one of them is not there, or cannot be had.
    """
    found: dict[str, str] = {}
    for reference in _references(server):
        if reference.source == "env" or resolve is None:
            found[reference.text] = _variable(reference, server, environ)
        else:
            found[reference.text] = await resolve(reference.text)
    return found


def server_environment(server: MCPServerConfig, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the configuration gives to a server, with secrets in place; see `secrets_for`."""
    return {name: _fill(value, secrets) for name, value in server.env.items()}


def request_headers(server: MCPServerConfig, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of every request, with secrets in place; see `secrets_for`.

    Raises:
        ConfigError: one of them is no single line.
    """
    headers = {name: _fill(value, secrets) for name, value in server.headers.items()}
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            raise ConfigError(
                f"The header {name} of the tool server {server.name!r} has line breaks or odd characters in it",
                hint="Set the variable or secret that it refers to to one line of plain text.",
            )
    return headers


def hidden_values(secrets: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of secrets; longest first, to be hidden wherever found."""
    return tuple(sorted(set(secrets.values()), key=len)[::-1])


def _references(server: MCPServerConfig) -> Iterator[SecretReference]:
    given = server.env if server.transport == "stdio" else server.headers
    return (found for value in given.values() if (found := reference_in(value)))


def _fill(value: str, secrets: Mapping[str, str]) -> str:
    found = reference_in(value)
    if found is None:
        return value
    secret = secrets[found.text]
    return f"{found.scheme} {secret}" if found.scheme else secret


def _variable(reference: SecretReference, server: MCPServerConfig, environ: Mapping[str, str]) -> str:
    name = reference.name
    if reference.source != "env":
        raise ConfigError(f"{reference.text} cannot be used here", hint="Use an environment variable: env:NAME.")
    secret = environ.get(name, "").strip()
    if not secret:
        raise ConfigError(
            f"The variable {name}, which the tool server {server.name!r} needs, is not set", hint=f"export {name}=…"
        )
    return secret
