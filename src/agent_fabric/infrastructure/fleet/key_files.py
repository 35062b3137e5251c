"""Keys in files: of people who approve commands, and the one by which nodes know their hub.

An approver has a file with a seed, or a key of OpenSSH, which `ssh-keygen` signs with. The hub's key is made once, kept
beside the store and readable by its owner only. Servers that share a database share it as well. It is never in the
database: a thief of that is no hub yet. They derive it from the pepper of API keys, which all of them have, unless a
file with a key is there.
"""

import asyncio
import hmac
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from agent_fabric.application.ports.fleet import ApprovalSigner
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.fleet.binding import APPROVAL_NAMESPACE
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.private_files import NotPrivate, read_private, write_private

SIGN_TIMEOUT_S: Final = 120.0
"""A passphrase has to be typed, or a hardware key touched."""
_SEED_DIGITS: Final = 64


def approval_signer(path: Path, namespace: str = APPROVAL_NAMESPACE) -> ApprovalSigner:
    """Return what signs with a private key: 64 hexadecimal digits in a file, or a key of OpenSSH.

    Raises:
        ConfigError: there is none, or others can read it.
    """
    path = path.expanduser()
    try:
        found = read_private(path)
    except NotPrivate as problem:
        raise ConfigError(f"The key cannot be used: {problem}", hint=f"chmod 600 {path}") from None
    if found is None:
        raise ConfigError(f"There is no key {path}", hint="Name a private key: --sign ~/.ssh/id_ed25519")
    text = found.decode(errors="replace").strip()
    if len(text) == _SEED_DIGITS and all(digit in "0123456789abcdefABCDEF" for digit in text):
        return SeedSigner(SigningKey.of(bytes.fromhex(text)))
    return SshSigner(path, namespace)


@dataclass(frozen=True, slots=True)
class SeedSigner:
    """ApprovalSigner with a key at hand."""

    key: SigningKey

    async def sign(self, message: bytes) -> str:
        return self.key.sign(message)


@dataclass(frozen=True, slots=True)
class SshSigner:
    """ApprovalSigner by `ssh-keygen -Y sign`: agents, passphrases and hardware keys work as they always do."""

    path: Path
    namespace: str = APPROVAL_NAMESPACE
    timeout_s: float = SIGN_TIMEOUT_S

    async def sign(self, message: bytes) -> str:
        program = shutil.which("ssh-keygen")
        if program is None:
            raise ConfigError(
                "ssh-keygen is not installed", hint="Install OpenSSH, or use a key of 64 hexadecimal digits."
            )
        process = await asyncio.create_subprocess_exec(
            *(program, "-Y", "sign", "-q", "-n", self.namespace, "-f", str(self.path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self.timeout_s):
                made, said = await process.communicate(message)
        except TimeoutError:
            raise ConfigError(f"ssh-keygen did not sign within {self.timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            why = said.decode(errors="replace").strip()[-500:]
            raise ConfigError(f"ssh-keygen cannot sign with {self.path}: {why}", hint="Use an Ed25519 key.")
        return made.decode()


FILE: Final = "hub.key"


def hub_key(root: Path, *, pepper: bytes | None = None) -> SigningKey:
    """Return the hub's key of the folder's file; without one it is made, or derived from what servers share.

    Raises:
        ConfigError: it cannot be read or written, or others can read it.
    """
    path = root / FILE
    try:
        found = read_private(path)
        if found is None and pepper is not None:
            return SigningKey.of(hmac.digest(pepper, b"agent-fabric hub key", "sha256"))
        if found is None:
            root.mkdir(parents=True, exist_ok=True)
            write_private(path, SigningKey.new().seed.hex().encode(), replace=False)
            found = read_private(path)
        return SigningKey.of(bytes.fromhex((found or b"").decode().strip()))
    except (NotPrivate, ValueError) as problem:
        raise ConfigError(
            f"The hub's key cannot be used: {problem}",
            hint=f"Restore {path} from a backup, readable by you only; with a new key, all nodes have to join again.",
        ) from None
