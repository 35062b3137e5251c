"""The secrets of a fabric folder, from all places. Nothing is opened before a secret is asked for."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agent_fabric.application.ports.secrets import SecretSource
from agent_fabric.config.schema.secrets import SecretsConfig
from agent_fabric.config.secret_references import reference_in
from agent_fabric.config.variable_names import OURS
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.secrets.chain import AllowedSecrets, EnvironmentSecrets, SecretChain
from agent_fabric.infrastructure.secrets.encrypted_file import EncryptedFile
from agent_fabric.infrastructure.secrets.keyring import Keyring, open_keyring
from agent_fabric.infrastructure.secrets.vault import VaultSecrets

FILE_NAME = "secrets.sealed"
"""In the fabric folder. Not `.json`: such files are configuration there, which a person has to trust anew after each
change."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """All secrets of a fabric folder."""

    chain: SecretChain
    """Finds them; what it has found is kept out of logs."""
    for_workflows: SecretSource
    """Those of them that workflows may use."""
    file: EncryptedFile
    """What `fabric secrets set` keeps."""
    keyring: Callable[[], Keyring]
    """What seals that file, and runs."""


def open_secrets(
    config: SecretsConfig,
    root: Path,
    environ: Mapping[str, str],
    *,
    learn: Callable[[Mapping[str, str]], None],
    never: Iterable[str] = (),
) -> Secrets:
    """Return the secrets of a fabric folder; `learn` hears of those that are used, `never` are for no workflow."""

    @cache
    def keyring() -> Keyring:
        return open_keyring(environ, root)

    file = stored_secrets(root, keyring)
    sources: dict[str, SecretSource] = {"env": EnvironmentSecrets(environ), "file": file}
    chain = SecretChain(sources, config.sources, learn)
    own = set(OURS).union(never)
    if config.vault is not None:
        sources["vault"] = VaultSecrets(config.vault, chain.resolve, SystemClock())
        token = reference_in(config.vault.token)
        own.update(() if token is None else (token.name,))
    return Secrets(chain, AllowedSecrets(chain, config.allow, frozenset(own)), file, keyring)


def stored_secrets(root: Path, keyring: Callable[[], Keyring]) -> EncryptedFile:
    """Return the secrets that a fabric folder keeps itself."""
    return EncryptedFile(root.absolute() / FILE_NAME, keyring, SystemClock())
