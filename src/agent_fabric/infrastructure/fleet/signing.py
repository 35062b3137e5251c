"""Ed25519 keys: by `cryptography` where it is installed, else in plain Python."""

import hashlib
import secrets
from base64 import b64decode
from binascii import Error as NotBase64
from dataclasses import field
from typing import Any, Self

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.secrets import ed25519

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError:  # a node needs nothing but Python
    Ed25519PrivateKey = None  # type: ignore[assignment,misc]  # tells that it is missing


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key pair."""

    seed: bytes = field(repr=False)
    public: str
    """The public key, in hexadecimal."""

    @classmethod
    def new(cls) -> Self:
        return cls.of(secrets.token_bytes(ed25519.KEY_BYTES))

    @classmethod
    def of(cls, seed: bytes) -> Self:
        if Ed25519PrivateKey is None:
            return cls(seed, ed25519.public_key(seed).hex())
        return cls(seed, _private(seed).public_key().public_bytes_raw().hex())

    @property
    def fingerprint(self) -> str:
        """What people compare: the fingerprint of the public key."""
        return fingerprint(self.public)

    def sign(self, message: bytes) -> str:
        """Return a signature, in hexadecimal."""
        if Ed25519PrivateKey is None:
            return ed25519.sign(self.seed, message).hex()
        return bytes(_private(self.seed).sign(message)).hex()


def _private(seed: bytes) -> Any:
    return Ed25519PrivateKey.from_private_bytes(seed)


def is_signed(public: str, message: bytes, signature: str) -> bool:
    """Tell whether a signature is that of a public key, both in hexadecimal; never raises."""
    try:
        key, signed = bytes.fromhex(public), bytes.fromhex(signature)
    except (ValueError, TypeError):
        return False
    if len(key) != ed25519.KEY_BYTES or len(signed) != ed25519.SIGNATURE_BYTES:
        return False
    if Ed25519PrivateKey is None:
        return ed25519.verify(key, message, signed)
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signed, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_signed_either_way(public: str, message: bytes, signature: str, namespace: str) -> bool:
    """Tell the same of a signature in hexadecimal, or of one that `ssh-keygen -Y sign` has made for a namespace."""
    if signature.lstrip().startswith("-----BEGIN"):
        return is_signed_by_ssh(public, message, signature, namespace)
    return is_signed(public, message, signature)


def fingerprint(public: str) -> str:
    """Return the short name of a public key that people compare."""
    return f"SHA256:{hashlib.sha256(bytes.fromhex(public)).hexdigest()}"


_SSH_TYPE = b"ssh-ed25519"


def public_key_from(text: str) -> str:
    """Return a public key in hexadecimal: it is written so, or as a line of OpenSSH.

    Raises:
        ValueError: it is neither.
    """
    words = text.split()
    if len(words) == 1 and len(words[0]) == 2 * ed25519.KEY_BYTES:
        return _sound(bytes.fromhex(words[0]))
    if len(words) >= 2 and words[0] == _SSH_TYPE.decode():
        try:
            fields = _fields(b64decode(words[1], validate=True))
        except NotBase64:
            fields = []
        if len(fields) == 2 and fields[0] == _SSH_TYPE and len(fields[1]) == ed25519.KEY_BYTES:
            return _sound(fields[1])
    raise ValueError(f"{text[:80]!r} is no Ed25519 public key: write 64 hexadecimal digits, or `ssh-ed25519 AAAA…`")


def _sound(key: bytes) -> str:
    if ed25519.is_weak(key):
        raise ValueError(f"{key.hex()} is a key for which anyone can make signatures")
    return key.hex()


def is_signed_by_ssh(public: str, message: bytes, armored: str, namespace: str) -> bool:
    """Tell whether `ssh-keygen -Y sign` has signed a message with a key, for a namespace; never raises."""
    lines = [line.strip() for line in armored.strip().splitlines()]
    if len(lines) < 3 or lines[0] != "-----BEGIN SSH SIGNATURE-----" or lines[-1] != "-----END SSH SIGNATURE-----":
        return False
    try:
        blob = b64decode("".join(lines[1:-1]), validate=True)
        if blob[:10] != b"SSHSIG\x00\x00\x00\x01":
            return False
        key, space, reserved, algorithm, signature = _fields(blob[10:])
        key_type, raw_key = _fields(key)
        signature_type, raw_signature = _fields(signature)
    except (ValueError, NotBase64):
        return False
    if key_type != _SSH_TYPE or signature_type != _SSH_TYPE or raw_key.hex() != public or space != namespace.encode():
        return False
    if algorithm not in {b"sha256", b"sha512"}:
        return False
    digest = hashlib.new(algorithm.decode(), message).digest()
    signed = b"SSHSIG" + b"".join(map(_field, (space, reserved, algorithm, digest)))
    return is_signed(public, signed, raw_signature.hex())


def _field(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _fields(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        if len(data) < 4 + size:
            raise ValueError("a field is cut off")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found
