"""Lets machines join: invitations, and the one request that uses one."""

import hashlib
import secrets
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.fleet import InviteRepository
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs, Unauthenticated
from agent_fabric.domain.fleet.commands import Invite
from agent_fabric.domain.fleet.nodes import TRUSTED, Node, NodeId, labels_from, node_name, plain_name
from agent_fabric.domain.fleet.protocol import INVITE_PREFIX
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.domain.secrets import ed25519

MAX_LIFETIME_S = 30 * 86_400.0
MAX_USES = 10_000
_MAX_TEXT = 200
_MAX_FACTS = 100


class Invited(NamedTuple):
    """An invitation, and its token, which is told once."""

    invite: Invite
    token: str


@dataclass(frozen=True, slots=True)
class InviteNode:
    """Use case: allow machines to join."""

    invites: InviteRepository
    clock: Clock

    async def __call__(
        self,
        *,
        by: Principal,
        name: str = "",
        labels: Mapping[str, str] | None = None,
        uses: int = 1,
        lifetime_s: float = 3600.0,
        confirm: bool = False,
    ) -> Invited:
        """Make an invitation.

        Raises:
            InvalidInputs: the name, a label, the number of uses or the time cannot be used.
        """
        try:
            name = node_name(name) if name else ""
            kept = labels_from(labels or {})
        except ValueError as problem:
            raise InvalidInputs(f"{problem}") from None
        if TRUSTED in kept:
            raise InvalidInputs(
                "An invitation trusts no machine", hint=f"When it has joined: fabric nodes label NAME {TRUSTED}=true"
            )
        if not 1 <= uses <= MAX_USES or not 0 < lifetime_s <= MAX_LIFETIME_S:
            raise InvalidInputs(f"An invitation has 1 to {MAX_USES:,} uses, and lasts up to 30 days")
        now, token = self.clock.now(), f"{INVITE_PREFIX}{secrets.token_urlsafe(32)}"
        invite = Invite(
            id=str(uuid.uuid4()),
            hash=token_hash(token),
            name=name,
            labels=kept,
            uses_left=uses,
            confirm=confirm,
            created_by=by.name,
            created_at=now,
            expires_at=now + lifetime_s,
        )
        detail = f"{uses} use(s)" + (f", {', '.join(f'{k}={v}' for k, v in kept.items())}" if kept else "")
        act = Act.of(by, Deed.NODE_INVITED, at=now, about=name or "any name", detail=detail)
        await self.invites.add(invite, act=act)
        return Invited(invite, token)


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Use case: a machine uses an invitation."""

    invites: InviteRepository
    clock: Clock

    async def __call__(self, token: str, public_key: str, name: str, os_info: Mapping[str, Any]) -> Node:
        """Make a node of a machine; one that must be confirmed is pending.

        Raises:
            Unauthenticated: the token is unknown, used up or expired, which of these is not told; or the key is weak.
            InvalidInputs: the key is none.
        """
        key = public_key.lower()
        if len(key) != 64 or any(digit not in "0123456789abcdef" for digit in key):
            raise InvalidInputs("public_key is no Ed25519 key: 64 hexadecimal digits")
        if ed25519.is_weak(bytes.fromhex(key)):
            raise Unauthenticated("public_key is one for which anyone can make signatures")
        now = self.clock.now()
        node = Node(
            id=NodeId(str(uuid.uuid4())),
            name=plain_name(name),
            public_key=key,
            created_at=now,
            note=confirmation_code(key),
            **machine_of(os_info),
        )
        act = Act(at=now, by="", credential=Kind.LOCAL.value, deed=Deed.NODE_JOINED.value, detail=node.hostname)
        found = await self.invites.join(token_hash(token), node, at=now, act=act)
        if found is None:
            raise Unauthenticated("The token is not valid", hint="Ask for a new one: fabric nodes invite")
        return found


def machine_of(os_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a machine says about itself as columns of its node."""
    plain = [(key, value) for key, value in os_info.items() if isinstance(value, str | int | float)]
    told = {str(key)[:_MAX_TEXT]: value for key, value in plain[:_MAX_FACTS]}
    total = told.get("memory_total")
    return {
        "hostname": str(told.get("hostname", ""))[:_MAX_TEXT],
        "platform": str(told.get("platform", ""))[:_MAX_TEXT],
        "arch": str(told.get("arch", ""))[:_MAX_TEXT],
        "memory_total": total if isinstance(total, int) and 0 <= total < 1 << 62 else None,
        "os_info": {key: value[:_MAX_TEXT] if isinstance(value, str) else value for key, value in told.items()},
    }


def token_hash(token: str) -> bytes:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def confirmation_code(public_key: str) -> str:
    """Return the code that two people compare: both ends compute it from the machine's key."""
    digest = hashlib.sha256(f"fabric-confirm {public_key}".encode()).hexdigest()
    return f"{digest[:4]}-{digest[4:8]}"
