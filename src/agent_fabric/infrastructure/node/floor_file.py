"""`node.toml`: what the machine's owner allows, whatever the hub says. Read at the start; no message writes it."""

import stat
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.node import FloorProblem
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.binding import APPROVAL_NAMESPACE, approval_message
from agent_fabric.domain.fleet.node_policy import PolicyProblem, rules_of
from agent_fabric.domain.fleet.plan_signatures import plan_message, root_from
from agent_fabric.infrastructure.fleet.signing import is_signed_either_way, public_key_from

FILE: Final = "node.toml"
MAX_SIGNATURES: Final = 16
_POLICY_KEYS: Final = ("profile", "hitl_enabled", "blocked_commands", "requires_approval_for", "rules")
_FLAGS: Final = ("allow_root", "pty_support", "file_transfer")
_KEYS: Final = frozenset(
    {*_POLICY_KEYS, *_FLAGS, "approvals", "approvers", "quorum", "roots", "run_as", "release_keys"}
)

DEFAULT_TEXT: Final = """\
# The floor: what may happen on this machine, whatever the hub says. The hub can be stricter, never laxer.
# No message of the hub changes this file. Restart the node after you have changed it.

profile = "node"        # only what surely reads runs without an approval; "open" asks for nothing
approvals = "hub"       # whom to believe: "hub", or "signed" by the keys below
# hitl_enabled = true   # every call needs an approval, reading too, whatever the profile
# quorum = 1
# allow_root = false    # as root, commands run as the user `run_as`, unless this is true
# run_as = "nobody"
# roots = ["/"]         # folders that file tools may use; commands that name others ask
# pty_support = false   # shells; what is typed there, no rule judges
# file_transfer = false
# blocked_commands = ["shutdown", "reboot"]
# requires_approval_for = ["read_file"]

# [approvers]
# ada = "ssh-ed25519 AAAA…"

# [[rules]]
# id = "restart-nginx"
# verdict = "allow"
# commands = ["systemctl restart nginx"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What the node's own file says."""

    document: Mapping[str, Any] = field(default_factory=dict)
    """The part that policies are made of."""
    signed: bool = False
    """Only signatures of approvers count as approvals."""
    approvers: Mapping[str, str] = field(default_factory=dict)
    """Public keys in hexadecimal, by name."""
    quorum: int = 1
    roots: tuple[str, ...] = ("/",)
    run_as: str = "nobody"
    allow_root: bool = False
    pty_support: bool = False
    file_transfer: bool = False
    release_keys: tuple[str, ...] = ()

    def check_approval(self, bound: str, approval: Mapping[str, Any]) -> str:
        """Return why an approval does not hold for a call; empty: it does."""
        if approval.get("hash") != bound:
            return "It has no approval for exactly this call."
        if not self.signed:
            approver = approval.get("approver")
            return "" if isinstance(approver, str) and approver.strip() else "The approval names no approver."
        given = approval.get("signatures")
        signatures = given[:MAX_SIGNATURES] if isinstance(given, list) else []
        message, agreed = approval_message(bound), set[str]()
        for each in signatures:
            name = each.get("approver") if isinstance(each, Mapping) else None
            key = self.approvers.get(name) if isinstance(name, str) else None
            signature = each.get("signature") if isinstance(each, Mapping) else None
            if key is None or not isinstance(signature, str):
                continue
            path = each.get("path")
            root = "" if path is None else root_from(bound, path)
            if path is not None and not root:
                continue  # it leads nowhere
            if is_signed_either_way(key, plan_message(root) if root else message, signature, APPROVAL_NAMESPACE):
                agreed.add(key)
        missing = self.quorum - len(agreed)
        return "" if missing <= 0 else f"This node wants {self.quorum} signed approval(s); {missing} missing."


def read_floor(path: Path) -> Floor:
    """Read the file; without one the defaults hold.

    Raises:
        FloorProblem: it cannot be used.
    """
    try:
        if path.stat().st_mode & stat.S_IWOTH:
            raise FloorProblem(f"{path} can be written by anyone: chmod o-w {path}")
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Floor()
    except (OSError, ValueError) as problem:
        raise FloorProblem(f"{path} cannot be read: {problem}") from None
    try:
        return _floor(table)
    except (PolicyProblem, ValueError) as problem:
        raise FloorProblem(f"{path}: {problem}") from None


def _blocks(document: Mapping[str, Any]) -> bool:
    return bool(document.get("blocked_commands")) or any(
        rule.get("verdict") == "block" for rule in document.get("rules", ())
    )


def _floor(table: Mapping[str, Any]) -> Floor:
    if unknown := sorted(set(table) - _KEYS):
        raise ValueError(f"unknown keys: {', '.join(unknown)}")
    document = {key: table[key] for key in _POLICY_KEYS if key in table}
    rules_of(document, "the node's floor")
    mode, quorum, approvers = table.get("approvals", "hub"), table.get("quorum", 1), table.get("approvers", {})
    if mode not in {"hub", "signed"}:
        raise ValueError('approvals is "hub" or "signed"')
    if not isinstance(approvers, dict) or not all(isinstance(each, str) for each in approvers.values()):
        raise ValueError("approvers is a table of public keys")
    keys = {name: public_key_from(text) for name, text in approvers.items()}
    if not isinstance(quorum, int) or isinstance(quorum, bool) or quorum < 1:
        raise ValueError("quorum is a number from 1 on")
    if mode == "signed" and len(set(keys.values())) < quorum:
        raise ValueError(f"{quorum} approver(s) must agree, and {len(set(keys.values()))} are named")
    flags = {name: table.get(name, False) for name in _FLAGS}
    if any(not isinstance(value, bool) for value in flags.values()):
        raise ValueError(f"{', '.join(_FLAGS)} are true or false")
    if flags["pty_support"] and mode != "signed" and _blocks(document):
        raise ValueError(
            "pty_support: rules that block commands do not hold in a shell, and a hub that is believed could open one: "
            'set approvals = "signed", or block nothing'
        )
    roots = table.get("roots", ["/"])
    if not isinstance(roots, list) or not all(isinstance(each, str) and each.startswith("/") for each in roots):
        raise ValueError("roots is a list of absolute paths")
    releases = table.get("release_keys", [])
    if not isinstance(releases, list) or not all(isinstance(each, str) for each in releases):
        raise ValueError("release_keys is a list of public keys")
    return Floor(
        document=document,
        signed=mode == "signed",
        approvers=keys,
        quorum=quorum,
        roots=tuple(roots),
        run_as=str(table.get("run_as", "nobody")),
        release_keys=tuple(map(public_key_from, releases)),
        **flags,
    )
