"""Who may use the server."""

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import AfterValidator, Field, Settings
from agent_fabric.config.schema.values import ScopeName, Scopes, SecretReference, Text


def _key_set(location: str) -> str:
    if location.startswith("/"):
        return location
    try:
        parts = urlsplit(location)
        host = parts.hostname or ""
    except ValueError:
        host, parts = "", urlsplit("")
    plain = parts.scheme == "http" and host in {"127.0.0.1", "::1", "localhost"}
    if not host or not (parts.scheme == "https" or plain) or "@" in parts.netloc or not location.isascii():
        raise ConfigProblem(
            "must be an https:// address, or the absolute path of a file",
            hint="Over plain http:// an attacker on the network could replace the keys; only this machine may use it.",
        )
    return location


class ProviderConfig(Settings):
    """Another identity provider, whose tokens (RS256 or ES256) count here as well."""

    issuer: Text
    """What its tokens say in `iss`, to the letter."""
    audience: Text
    """What its tokens say in `aud` when they are meant for this server."""
    jwks: Annotated[str, AfterValidator(_key_set)]
    """Where its public keys are: an https:// address, or the absolute path of a file."""
    scope_claim: Text = "scope"
    """The claim with the scopes of a user: words separated by blanks, or a list."""
    scopes: Mapping[Text, ScopeName] = {}
    """The scope that each word of that claim stands for, such as `fabric-operators: runs` or `interns: tools:read`.
    Other words grant nothing."""
    default_scopes: Scopes = ("runs:read",)
    """Scopes of every caller with a token of this provider."""
    timeout_s: float = Field(default=10.0, gt=0, le=120)
    """How long fetching its keys may take."""


class IdentityConfig(Settings):
    """Who may use the server, and how they show who they are."""

    jwt_secret: SecretReference | None = None
    """Where the secret is that tokens are signed with, at least 32 bytes: `env:NAME`, `file:NAME` or
    `vault:path#field`. Not set: the variable `JWT_SECRET`, and without it a file that is made in your data folder."""
    issuer: Text = "agent-fabric"
    """What our tokens say in `iss`."""
    audience: Text = "agent-fabric"
    """What our tokens say in `aud`. Servers that share a secret, but no users, need different ones."""
    token_lifetime_s: float = Field(default=3_600.0, ge=60, le=30 * 86_400)
    """How long a token counts. The command line renews that of a login by itself."""
    login_lifetime_s: float = Field(default=12 * 3_600.0, ge=0, le=30 * 86_400)
    """How long a login can be renewed before the password is asked for again; less than `token_lifetime_s`: it cannot,
    and lasts as long as its token."""
    provider: ProviderConfig | None = None
    """Another identity provider; not set: none."""
    visibility: Literal["private", "team"] = "team"
    """Who sees a run that does not say so itself: `private`, its owner and users with `runs:all`; `team`, everyone
    with `runs:read`. The default will be `private` in the next release."""
