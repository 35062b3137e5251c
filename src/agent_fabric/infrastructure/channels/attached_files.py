"""Puts files that people have sent into the workspaces of their turns."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunUndrivable, StoreFull, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.sandbox.beneath import Beneath

if TYPE_CHECKING:
    from agent_fabric.application.ports.channels import InboundFiles
    from agent_fabric.domain.channels.files import StoredFile

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.EROFS})


@dataclass(frozen=True, slots=True)
class AttachedFiles:
    """Files that came with messages, on their way from the store into a workspace.

    A file is written whole or not at all, and no link leads out: what the model has made of the folder meanwhile does
    not matter.
    """

    open_store: Callable[[], "InboundFiles"]
    """Opened with the first turn: channels take their time, and few conversations are led there."""

    async def place(self, run_id: RunId, workspace: str) -> None:
        files = await self.open_store().list(run_id)
        await asyncio.to_thread(_write, Path(workspace), files)

    async def forget(self, run_id: RunId) -> None:
        await self.open_store().discard(run_id)


def _write(workspace: Path, files: "Sequence[StoredFile]") -> None:
    beneath = Beneath(workspace)
    for each in files:
        try:
            beneath.write_file(each.path, each.content)
        except OSError as problem:
            if problem.errno in _FULL:
                raise StoreFull("The disk is full, so a file that was sent cannot be kept") from None
            if problem.errno in _PASSING:
                raise StoreUnavailable(f"A file that was sent cannot be written: {problem.strerror}") from None
            raise RunUndrivable(
                f"A file that was sent cannot be put into the workspace: {problem.strerror or problem}",
                hint="Begin a new conversation (/new), and send it there.",
            ) from None
