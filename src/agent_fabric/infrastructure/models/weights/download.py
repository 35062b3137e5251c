"""Gets the weights of a catalogue model: from the folder if they are there, else from the first good mirror."""

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, assert_never

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.domain.errors import WeightsUnavailable
from agent_fabric.infrastructure.models.weights.catalogue import CatalogueModel, HubFile, Source, WheelParts
from agent_fabric.infrastructure.models.weights.folder import OVERRIDE, ModelFolder
from agent_fabric.infrastructure.models.weights.mirrors import (
    Mirror,
    MirrorFailed,
    PartFile,
    Progress,
    amount,
    sha256_of,
    until_cancelled,
)
from agent_fabric.infrastructure.models.weights.runtime import require_architecture
from agent_fabric.infrastructure.models.weights.wheel_mirror import WheelMirror
from agent_fabric.infrastructure.threads import on_own_thread

MirrorFor = Callable[[Source, CatalogueModel], Mirror]
"""Turns a line of the catalogue into something that can be asked."""

_HUB: Final = "https://huggingface.co"
_SPARE_BYTES: Final = 64 * 2**20
"""Left free on the disk in any case."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL_WORDS: Final = ("[Errno 28]", "No space left")


class Weights:
    """The user's models; what is missing is downloaded. Safe to use from many tasks and processes at once."""

    def __init__(
        self, folder: ModelFolder, *, environ: Mapping[str, str] | None = None, mirror_for: MirrorFor | None = None
    ) -> None:
        self.folder = folder
        self._environ = os.environ if environ is None else environ
        self._mirror_for = mirror_for or self._default_mirror

    async def ensure(self, model: CatalogueModel, notice: Notice) -> Path:
        """Return the path of the model's file, whose hash is right; download it first if need be.

        `notice` gets a short text about every quarter of a second while there is something to wait for. When this is
        cancelled, or the process killed, the next call continues where it was.

        Raises:
            WeightsUnavailable: no mirror has it, it cannot be stored, or the installed llama.cpp cannot load it.
        """
        if self.folder.is_verified(model):
            return self.folder.file_of(model)
        try:
            self.folder.create()
            async with self.folder.lock(model, lambda: notice(self._downloaded_elsewhere(model))):
                if self.folder.is_verified(model):
                    return self.folder.file_of(model)
                if await self._accepts_present(model, notice):
                    return self.folder.file_of(model)
                await on_own_thread(lambda: require_architecture(model))
                return await self._download(model, notice)
        except OSError as problem:
            # A folder that others fill, for example in a container's image: then it is checked every time.
            if problem.errno in _FORBIDDEN and await self._is_right(model, notice):
                return self.folder.file_of(model)
            raise _cannot_store(self.folder.path, problem) from problem

    async def _accepts_present(self, model: CatalogueModel, notice: Notice) -> bool:
        """Check a file that is there, but was not checked before or has changed since."""
        file = self.folder.file_of(model)
        if not file.exists():
            return False
        if not file.is_file():
            raise WeightsUnavailable(f"{file} is in the way: it is not a file", hint="Move it elsewhere.")
        if await self._is_right(model, notice):
            self.folder.note_verified(model)
            return True
        notice(f"{file.name} is not the file it should be; moved to {self.folder.set_aside(model).name}")
        return False

    async def _is_right(self, model: CatalogueModel, notice: Notice) -> bool:
        file = self.folder.file_of(model)
        try:
            return file.stat().st_size == model.size_bytes and await self._hash(file, model, notice) == model.sha256
        except (PermissionError, FileNotFoundError):
            return False

    async def _download(self, model: CatalogueModel, notice: Notice) -> Path:
        failures: list[str] = []
        for source in model.mirrors:
            mirror = self._mirror_for(source, model)
            part = self.folder.part_of(model, mirror.key)
            try:
                self._check_space(mirror, part, model, failures)
                await self._fetch_and_check(mirror, part, model, notice)
            except MirrorFailed as problem:
                if any(words in str(problem) for words in _FULL_WORDS):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from problem
                failures.append(f"{mirror.label}: {problem}")
                notice(f"{model.name}: {failures[-1]}")
            else:
                return self.folder.adopt(part, model)
        raise self._nowhere(model, failures)

    async def _fetch_and_check(self, mirror: Mirror, part: PartFile, model: CatalogueModel, notice: Notice) -> None:
        progress = Progress(notice, about=f"{model.name} from {mirror.label}", total=model.size_bytes)
        resumed = part.size > 0
        while True:
            await mirror.fetch(part, progress)
            if await self._hash(part.path, model, notice) == model.sha256:
                await until_cancelled(lambda _: part.sync())
                return
            part.discard()
            if not resumed:
                raise MirrorFailed("its file does not have the right SHA-256; it was deleted")
            # What an earlier process left may have been damaged, for example by a power cut.
            progress.say("what was left of an earlier download is damaged; starting again")
            resumed = False

    async def _hash(self, file: Path, model: CatalogueModel, notice: Notice) -> str:
        progress = Progress(notice, about=f"{model.name}, checking its SHA-256", total=model.size_bytes)
        loop = asyncio.get_running_loop()

        def report(done: int) -> None:
            loop.call_soon_threadsafe(progress.report, done)

        def work(stop: threading.Event) -> str:
            return sha256_of(file, stop, report)

        return await until_cancelled(work)

    def _default_mirror(self, source: Source, model: CatalogueModel) -> Mirror:
        match source:
            case HubFile():
                from agent_fabric.infrastructure.models.weights.hub_mirror import HubMirror  # noqa: PLC0415 - aiohttp takes its time

                return HubMirror(source=_at_own_hub(source, self._environ))
            case WheelParts():
                return WheelMirror(source=source, staging=self.folder.staging_of(model), environ=self._environ)
            case unknown:
                assert_never(unknown)

    def _check_space(self, mirror: Mirror, part: PartFile, model: CatalogueModel, failures: list[str]) -> None:
        needed = max(0, model.size_bytes - part.size) + mirror.working_bytes
        free = shutil.disk_usage(self.folder.path).free
        if free < needed + _SPARE_BYTES:
            raise WeightsUnavailable(
                f"{model.name} needs {_megabytes(needed)} more in {self.folder.path}, "
                f"but only {_megabytes(free)} are free there" + "".join(f". {failure}" for failure in failures),
                hint=f"Free some space, or keep models on another disk: export {OVERRIDE}=/some/path",
            )

    def _downloaded_elsewhere(self, model: CatalogueModel) -> ProgressText:
        begun = amount(self.folder.begun_bytes(model), model.size_bytes)
        return ProgressText(f"{model.name}: waiting for another process that downloads it ({begun})")

    def _nowhere(self, model: CatalogueModel, failures: list[str]) -> WeightsUnavailable:
        return WeightsUnavailable(
            f"The model {model.name} cannot be downloaded. "
            + " ".join(f"{failure.rstrip('.')}." for failure in failures),
            hint=(
                "Check the network and the variables HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE (pip has its own index "
                f"settings), then run `fabric models pull {model.name}`. Or put the file there yourself: "
                f"{self.folder.file_of(model)} with SHA-256 {model.sha256}. Or name any GGUF file by its path."
            ),
        )


def _at_own_hub(source: HubFile, environ: Mapping[str, str]) -> HubFile:
    """Honour the variable by which the hub's own programs are told of a copy of it, as some companies have one."""
    own = environ.get("HF_ENDPOINT", "").rstrip("/")
    return HubFile(url=own + source.url.removeprefix(_HUB)) if own and source.url.startswith(_HUB + "/") else source


def _cannot_store(folder: Path, problem: OSError) -> WeightsUnavailable:
    elsewhere = f"keep models elsewhere: export {OVERRIDE}=/some/path"
    if problem.errno in _FULL:
        return WeightsUnavailable(
            f"The disk is full: the model cannot be stored in {folder}",
            hint=f"Free some space and try again, which continues where it was; or {elsewhere}",
        )
    return WeightsUnavailable(
        f"Models cannot be kept in {folder}: {problem.strerror or problem}",
        hint=f"Make the folder writable for you, or {elsewhere}",
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB"
