"""Where secrets are kept, and what is encrypted."""

from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import AfterValidator, Field, Settings, Strict, model_validator
from agent_fabric.config.schema.values import (
    YAML_OFF,
    AbsolutePath,
    BaseAddress,
    HeaderValue,
    SecretReference,
    Texts,
)

Encryption = Annotated[Literal["sessions", "all", "off"], YAML_OFF]
"""Which runs are encrypted without being asked to."""

DEFAULT: Final[Encryption] = "sessions"


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _each_once(sources: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(sources)) != len(sources):
        raise ConfigProblem("names a source twice")
    return sources


def _own_token(reference: str) -> str:
    if reference.startswith("vault:"):
        raise ConfigProblem("cannot be in the vault that it opens", hint="Use 'env:NAME' or 'file:NAME'.")
    return reference


def _path(path: str) -> str:
    parts = path.strip("/").split("/")
    if any(part in {"", ".", ".."} or not part.isprintable() or set(part) & set("?#%") for part in parts):
        raise ConfigProblem("must be a path such as 'secret' or 'teams/blue'")
    return "/".join(parts)


VaultPath = Annotated[str, AfterValidator(_path)]
"""Names separated by slashes; kept without one at either end."""


class VaultConfig(Settings):
    """A HashiCorp Vault, or what speaks like one: secrets of the engine KV, version 2."""

    url: BaseAddress
    """Its address, such as `https://vault.corp:8200`; `/v1/…` is added to it."""
    mount: VaultPath = "secret"
    """Where the engine is mounted."""
    path: VaultPath = "agent-fabric"
    """The secret whose fields are meant when only a name is given, as in a workflow's `{{ secrets.NAME }}`."""
    token: Annotated[SecretReference, AfterValidator(_own_token)] = "env:VAULT_TOKEN"  # noqa: S105 - where it is
    """Where the token is kept that opens it: `env:NAME` or `file:NAME`. The token itself is refused."""
    namespace: HeaderValue | None = None
    """Namespace, where the server has them."""
    ca_file: AbsolutePath | None = None
    """Certificates of the authority that signed the server's; not set: those of the system."""
    allow_http: bool = False
    """Whether a server on another machine may be asked without TLS, which shows token and secrets to the network."""
    timeout_s: float = Field(default=5.0, gt=0, le=300)
    """How long one request may take."""
    cache_s: float = Field(default=60.0, ge=0, le=86_400)
    """How long an answer is kept in memory, so that not every call of a model asks the vault; 0: not at all."""

    @model_validator(mode="after")
    def _is_private(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme != "https" and not self.allow_http and parts.hostname not in _LOOPBACK:
            raise ConfigProblem(
                "has a 'url' without TLS on another machine",
                hint="Use https:// (and 'ca_file' for an authority of your own), or say 'allow_http: true'.",
            )
        return self


class SecretsConfig(Settings):
    """Where secrets are looked for, and which of them workflows may use."""

    sources: Annotated[
        tuple[Literal["env", "file", "vault"], ...], Strict(strict=False), AfterValidator(_each_once)
    ] = ("env", "file", "vault")
    """Where a secret that is only named is looked for, in this order: environment variables, what `fabric secrets set`
    has kept, and the vault, if there is one. A reference such as `file:NAME` says itself where to look."""
    allow: Texts = ("*",)
    """Which secrets workflows and agents may use, as patterns of names such as `GITHUB_*`; by default all. What opens
    agent-fabric itself (`ENCRYPTION_KEY`, `JWT_SECRET`, the vault's token) is never among them."""
    vault: VaultConfig | None = None
    """A vault; not set: none."""
