"""Whether a level of the sandbox really holds here: found out by trying, since a program that is there proves nothing.

A box is made, and a command in it tries to read a file beside its workspace, to reach a port of this machine and to
look into this process. It must fail at all three, and be able to write in its workspace.
"""

import os
import secrets
import shlex
import socket
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.sandbox.levels import Box

PROBE_TIMEOUT_S = 20.0
_FINE = b"fine"

_SCRIPT = """
cat {canary} 2>/dev/null && echo "reads files outside"
(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo "reaches this machine's ports"
[ "$(readlink /proc/{pid}/ns/pid 2>/dev/null)" = {numbers} ] && echo "looks into other processes"
echo x > {token} && echo fine
"""


MakeBox = Callable[[Path, str, Path], Box]
"""Makes a box for a workspace, a run and the fabric folder around both."""


async def problem_with(make_box: MakeBox) -> str:
    """Return why the boxes do not hold here, in plain words; empty: they do."""
    token = secrets.token_hex(8)
    with (
        tempfile.TemporaryDirectory(prefix="fabric-probe-", ignore_cleanup_errors=True) as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        run_id = str(uuid.uuid4())
        workspace, canary = Path(folder) / "runs" / run_id / "workspace", Path(folder) / "canary"
        Path(folder).chmod(0o755)  # noqa: ASYNC240 - of our own making; open, as fabric's folder is
        workspace.mkdir(parents=True)
        canary.write_text(token)
        canary.chmod(0o644)
        script = _SCRIPT.format(
            canary=shlex.quote(str(canary)),
            port=listener.getsockname()[1],
            pid=os.getpid(),
            numbers=shlex.quote(_numbering()),
            token=token,
        )
        try:
            return await _try_once(make_box(workspace, run_id, Path(folder)), script, workspace / token)
        except FabricError as error:
            return error.message
        except OSError as error:
            return error.strerror or str(error)


def _numbering() -> str:
    """Return what numbers our processes: in a container ours is a low one, which a process of the box may have too."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not a path
    return "not known"


async def _try_once(box: Box, script: str, made: Path) -> str:
    try:
        outcome = await box.run_command(script, timeout_s=PROBE_TIMEOUT_S)
    finally:
        await box.aclose()
    *escapes, last = outcome.stdout.strip().split(b"\n")
    if escapes:
        return f"a command {escapes[-1].decode(errors='replace')}"
    if last != _FINE or not os.path.exists(made):  # noqa: ASYNC240, PTH110 - of our own making, and just now
        said = outcome.stderr.decode(errors="replace").strip().splitlines()
        return said[-1] if said else f"a command ended with {outcome.exit_code}"
    return ""
