"""The key of the audit chain."""

import hashlib
from typing import NamedTuple, Self


class AuditKey(NamedTuple):
    """The HMAC key of the audit chain."""

    value: bytes

    name: str
    """Identifies the key without revealing it."""

    @classmethod
    def of(cls, value: bytes) -> Self:
        """Return a key with its name."""
        return cls(value, hashlib.sha256(b"agent-fabric audit key\0" + value).hexdigest()[:16])


UNKEYED = AuditKey.of(b"")
"""For users without a home: it detects mistakes, not malice."""
