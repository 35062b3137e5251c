"""Joins what doors need to know of this machine before anything is opened: its folder, its token, who works for runs.

Light: every command imports it.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.identity.local_token import (
    LOCAL_PREFIX,
    local_token,
    read_local_token,
    rotate_local_token,
    token_file,
)
from agent_fabric.infrastructure.runs.log import folder_trust
from agent_fabric.infrastructure.runs.log.layout import Layout, find_root

if TYPE_CHECKING:
    from agent_fabric.application.ports.fleet import ApprovalSigner
    from agent_fabric.application.tools.manage_skills import ManageSkills
    from agent_fabric.infrastructure.chat.command_files import CommandFiles

__all__ = [
    "LOCAL_PREFIX",
    "acting_run",
    "approval_signer",
    "find_root",
    "is_called_by_run",
    "local_token",
    "node_program_hash",
    "offer_stored",
    "open_commands",
    "open_skills",
    "read_local_token",
    "require_made_here",
    "require_ours",
    "rotate_local_token",
    "run_own_command",
    "token_file",
    "trust_folder",
]


def require_ours(root: Path) -> None:
    """Refuse a folder that another user may have filled, or whose configuration another user may have changed.

    Raises:
        ConfigError: it is not trusted.
    """
    folder_trust.require_ours(root, audit_key(os.environ))


def require_made_here(root: Path) -> None:
    """Refuse a folder whose runs another user may have made up.

    Raises:
        ConfigError: it is not trusted.
    """
    folder_trust.require_made_locally(root, audit_key(os.environ))


def trust_folder(root: Path) -> None:
    """Write down that this user trusts a folder as it is now; it is made if it is not there.

    Raises:
        OSError: that cannot be written.
    """
    if not root.is_dir():
        Layout(root).make()
    folder_trust.mark(root, audit_key(os.environ))


def acting_run() -> str:
    """Return the run that this process works for; empty: none."""
    from agent_fabric.infrastructure.sandbox import run_processes  # noqa: PLC0415 - most commands do not need it

    return run_processes.acting_run()


def is_called_by_run(client: tuple[str, int] | None, server: tuple[str, int] | None) -> bool:
    """Tell whether a connection was opened by a process of a run on this machine."""
    from agent_fabric.infrastructure.sandbox import run_processes  # noqa: PLC0415 - as above

    return run_processes.run_at_other_end(client, server)


def approval_signer(path: Path, namespace: str = "") -> "ApprovalSigner":
    """Return what signs with a private key of this person: approvals, unless a namespace says otherwise.

    Raises:
        ConfigError: there is none, or others can read it.
    """
    from agent_fabric.domain.fleet.binding import APPROVAL_NAMESPACE  # noqa: PLC0415 - few sign
    from agent_fabric.infrastructure.fleet import key_files  # noqa: PLC0415 - few sign

    return key_files.approval_signer(path, namespace or APPROVAL_NAMESPACE)


def node_program_hash() -> str:
    """Return the hash of the node's program that belongs to this installation."""
    from agent_fabric.infrastructure.fleet.node_archive import node_archive  # noqa: PLC0415 - few sign

    return node_archive().sha256


def offer_stored(kind: str, database: str, prefix: str) -> "list[tuple[str, str]]":
    """Return what a shell offers of runs, approvals, evaluations, users or keys: names, with what each is about."""
    from agent_fabric.infrastructure.persistence.runs import completion_rows as rows  # noqa: PLC0415 - only shells ask

    reads = {"runs": rows.newest_runs, "approvals": rows.pending_approvals, "users": rows.users}
    reads["evals"] = rows.newest_evals
    return reads.get(kind, rows.live_keys)(database, prefix)


def open_commands(root: Path) -> "CommandFiles":
    """Return the slash commands for a fabric folder."""
    from agent_fabric.infrastructure.chat.command_files import CommandFiles  # noqa: PLC0415 - few commands need it
    from agent_fabric.infrastructure.tools.trusted_content import trusted_content  # noqa: PLC0415 - as above

    return CommandFiles(root, os.environ, trusted_content(os.environ))


def open_skills(root: Path) -> "ManageSkills":
    """Return the use case about skills for a fabric folder."""
    from agent_fabric.application.tools.manage_skills import ManageSkills  # noqa: PLC0415 - few commands need it
    from agent_fabric.infrastructure.tools.skills.skill_shelf import open_shelf  # noqa: PLC0415 - as above

    return ManageSkills(open_shelf(root, os.environ))


async def run_own_command(command: str) -> int:
    """Run a command line of the person at this terminal, as the person; return its exit code."""
    from agent_fabric.infrastructure.sandbox.own_command import run_own_command as run  # noqa: PLC0415 - few do

    return await run(command)
