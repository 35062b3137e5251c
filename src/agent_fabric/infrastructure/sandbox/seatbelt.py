"""Boxes of level B on macOS: a Seatbelt profile for `sandbox-exec`.

The profile is tested as text only. It has not run on a Mac yet, which is why a probe decides whether it is used.
"""

import os
import shlex
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.domain.policy.protected import HIDDEN, PROTECTED_AT_TOP, is_protected
from agent_fabric.infrastructure.sandbox.beneath import Beneath
from agent_fabric.infrastructure.sandbox.command_line import BASH
from agent_fabric.infrastructure.sandbox.git_identity import git_identity
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.sandbox.workspaces import WorkspaceFiles

PROGRAM = "/usr/bin/sandbox-exec"

_READABLE = (
    *("/usr", "/bin", "/sbin", "/System", "/Library", "/opt/homebrew", "/opt/local", "/Applications/Xcode.app"),
    *("/private/etc", "/private/var/db/timezone", "/private/var/select", "/dev"),
)
_CLOSED = ("/private/etc/master.passwd", "/private/etc/ssh", "/Library/Keychains")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper")


def seatbelt_profile(
    workspace: Path,
    temporary: Path,
    *,
    hidden: Path | None = None,
) -> str:
    """Return the rules for commands: closed by default, no network, writing only in the workspace and its own /tmp.

    Of several rules that fit, the last one counts; so what is taken away comes after what is given.
    """
    lines = [
        "(version 1)",
        "(deny default)",
        "(deny network*)",
        "(allow process-fork)",
        "(allow process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow ipc-posix-sem)",
        '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
        "(allow file-read-metadata)",
        '(allow file-read* (literal "/"))',
        *(f"(allow file-read* {_subpath(path)})" for path in _READABLE),
        *(f"(allow file-read* file-write-data (literal {_quote(path)}))" for path in _DEVICES),
        *(f"(deny file-read* {_subpath(path)})" for path in _CLOSED),
        *(f"(allow file-read* file-write* {_subpath(path)})" for path in (workspace, temporary)),
        *(f"(deny file-write* {_subpath(workspace / name)})" for name in PROTECTED_AT_TOP),
        f"(deny file-write* (literal {_quote(workspace / '.git')}))",
        *([f"(deny file-read* file-write* {_subpath(hidden)})"] if hidden is not None else []),
    ]
    return "\n".join(lines) + "\n"


class SeatbeltSandbox(WorkspaceFiles):
    """Sandbox of level B on macOS: commands run under a Seatbelt profile. Files are handled as at level C."""

    level = "B"

    def __init__(self, workspace: Path, run_id: str, *, hidden: Path | None = None) -> None:
        self._workspace = workspace
        self._hidden = hidden
        self._run_id = run_id

    @cached_property
    def _files(self) -> Beneath:
        return Beneath(self._workspace, hidden=HIDDEN, protected=is_protected)

    @cached_property
    def _temporary(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix=f"fabric-box-{self._run_id}-", ignore_cleanup_errors=True)

    @cached_property
    def _inner(self) -> UnconfinedSandbox:
        own = {"TMPDIR": self._temporary.name, "HOME": self._temporary.name}
        Path(own["HOME"], ".gitconfig").write_text(git_identity(os.environ), encoding="utf-8")
        return UnconfinedSandbox(self._workspace, self._run_id, environment={**os.environ, **own})

    @cached_property
    def _profile(self) -> str:
        hidden = self._hidden.resolve() if self._hidden else None
        return seatbelt_profile(self._workspace.resolve(), Path(self._temporary.name).resolve(), hidden=hidden)

    async def run_command(
        self, command: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandOutcome:
        words = [PROGRAM, "-p", self._profile, *(word.decode() for word in BASH), command]
        return await self._inner.run_command(f"exec {shlex.join(words)}", timeout_s=timeout_s, environment=environment)

    async def end_leftovers(self) -> int:
        return await self._inner.end_leftovers()

    async def aclose(self) -> None:
        """Remove the private temporary folder."""
        self._temporary.cleanup()


def _subpath(path: Path | str) -> str:
    return f"(subpath {_quote(path)})"


def _quote(path: Path | str) -> str:
    """Return a path as a string of the profile's language; whatever it holds, it stays one string."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    if any(ord(character) < 32 for character in escaped):
        raise ValueError("a path with control characters cannot be written in a sandbox profile")
    return f'"{escaped}"'
