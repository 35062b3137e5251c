"""Replaces the node's own program by a signed release, and keeps the old one if the new one does not work.

The call of `upgrade` fetches the release from the hub and lets the other calls end. Then the node leaves, starts the
new program once beside itself, and only if that could show the hub who it is within two minutes, takes its place. In
either case it starts again; the program that runs then tells what came of the call.
"""

import asyncio
import hashlib
import os
import shutil
import sys
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final, NoReturn

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.binding import timeout_of
from agent_fabric.domain.fleet.protocol import ARCHIVE_PATH
from agent_fabric.domain.fleet.releases import MAX_PROGRAM_BYTES, RELEASE_NAMESPACE, Release, is_older
from agent_fabric.infrastructure.atomic_files import sync_folder, write_atomically
from agent_fabric.infrastructure.fleet.signing import is_signed_either_way
from agent_fabric.infrastructure.node.processes import MARK
from agent_fabric.infrastructure.node.spool import Spool

TRIAL_S: Final = 120.0
FETCH_TIMEOUT_S: Final = 60.0
NEXT: Final = "next.pyz"
PREVIOUS: Final = "previous.pyz"
UPGRADE: Final = "upgrade"
"""Under this name the spool keeps the upgrade that is under way."""
RELEASED: Final = "released_at"
"""Under this name, the newest release that this node has run."""
FIRST_RUN: Final = "first_run"
"""Under this name, since when the program runs here, with its hash."""
ONCE: Final = "--once"
"""The new program is started with it: connect, show who it is, leave."""


class UpgradeProblem(Exception):
    """The program stays as it is; the message says why."""


def running_archive() -> Path | None:
    """Return the archive that this process runs from; None: it runs from none, and nothing can replace it."""
    program = Path(sys.argv[0]).absolute() if sys.argv and sys.argv[0] else None
    return program if program is not None and program.is_file() and zipfile.is_zipfile(program) else None


def first_run(spool: Spool, program: Path, now: float) -> int:
    """Return when this very program first ran here; a build has no other date that a node could trust."""
    own = hashlib.sha256(program.read_bytes()).hexdigest()
    known = spool.read(FIRST_RUN)
    if not isinstance(known, dict) or known.get("sha256") != own:
        known = {"sha256": own, "at": int(now)}
        spool.keep(FIRST_RUN, known)
    return int(known["at"])


@dataclass(slots=True)
class Upgrades:
    """What a node needs to replace itself."""

    folder: Path
    spool: Spool
    url: str
    keys: Sequence[str]
    """Public keys of those who may release programs for this node."""
    program: Path
    version: str
    """Of the program that runs now."""
    since: int
    """When this program first ran here, in seconds since 1970."""
    instance: str
    drain: Callable[[float], Awaitable[bool]]
    """Takes no further calls and waits until those under way have ended; tells whether they have."""
    resume: Callable[[], None]
    """Takes calls again."""
    trial_s: float = TRIAL_S
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the program is to be replaced."""

    async def run(self, execution_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Prepare an upgrade; returns only if there is none. Otherwise the process is replaced meanwhile."""
        try:
            release = self._check(arguments)
            if release.sha256 == self.sha256:
                return {"status": "success", "output": {"version": release.version, "sha256": release.sha256}}
            await asyncio.to_thread(self._fetch, release)
        except UpgradeProblem as problem:
            return {"status": "error", "error": str(problem)}
        if not await self.drain(timeout_of(arguments)):
            self.resume()
            return {"status": "error", "error": "other calls were under way for too long"}
        self.spool.keep(UPGRADE, {"execution_id": execution_id, **release.plain()})
        self.requested.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets it")

    @property
    def sha256(self) -> str:
        """The hash of the program that this process was started from."""
        return hashlib.sha256(self.program.read_bytes()).hexdigest()

    async def replace_program(self, floor: str | None) -> NoReturn:
        """Try the new program, put it in place if it works, and start again; call it without a connection.

        The spool must not be used any more: the new program uses it.
        """
        problem = await self._try(floor)
        if not problem:
            try:
                self._swap()
            except OSError as failed:
                problem = f"the program could not be replaced: {failed}"
        if problem:
            self._remember(problem)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - our own program

    def _check(self, arguments: Mapping[str, Any]) -> Release:
        release = Release.of(arguments)
        message, signature = release.message, release.signature
        if not any(is_signed_either_way(key, message, signature, RELEASE_NAMESPACE) for key in self.keys):
            raise UpgradeProblem("no release key of this node has signed the program")
        newest = self.spool.read(RELEASED)
        if newest is not None and release.released_at < newest:
            raise UpgradeProblem("the release is older than one that this node has run")
        if is_older(release.version, self.version):  # also if this node has never been upgraded
            raise UpgradeProblem(f"the release is version {release.version[:40]}, and this node runs {self.version}")
        is_newer = is_older(self.version, release.version)
        if newest is None and not is_newer and release.sha256 != self.sha256 and release.released_at < self.since:
            raise UpgradeProblem(
                f"another build of {self.version} runs here since a later time than this release: release it again"
            )
        return release

    def _fetch(self, release: Release) -> None:
        data = _download(f"{self.url}{ARCHIVE_PATH}")
        found = hashlib.sha256(data).hexdigest()
        if found != release.sha256:
            raise UpgradeProblem(f"the hub has another program than the one that was released: {found}")
        write_atomically(self.folder / NEXT, data)
        (self.folder / NEXT).chmod(0o700)
        sync_folder(self.folder)

    async def _try(self, floor: str | None) -> str:
        """Start the new program once; return why it is of no use, or nothing."""
        words = ["run", ONCE, "--dir", str(self.folder), *(() if floor is None else ("--floor", floor))]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(self.folder / NEXT),
            *words,
            env={**os.environ, MARK: f"{self.instance}/{UPGRADE}"},  # ended with this node, should it be killed
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self.trial_s):
                _, said = await process.communicate()
        except TimeoutError:
            return f"the new program could not show who it is within {self.trial_s:g} s"
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            return f"the new program does not work: {lines[-1][:500] if lines else process.returncode}"
        return ""

    def _swap(self) -> None:
        """Put the new program in the place of the old one, of which a copy is kept."""
        shutil.copyfile(self.program, self.folder / PREVIOUS)
        fresh = self.program.with_name(f".{self.program.name}.new")
        shutil.copyfile(self.folder / NEXT, fresh)
        fresh.chmod(0o700)
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(self.program)
        sync_folder(self.program.parent)

    def _remember(self, problem: str) -> None:
        spool = Spool(self.spool.path)
        try:
            pending = spool.read(UPGRADE)
            spool.keep(UPGRADE, {**pending, "error": problem})
        finally:
            spool.close()


def settle_upgrade(spool: Spool, program: Path | None, end: Callable[[str, dict[str, Any]], None]) -> None:
    """Tell what came of an upgrade that was under way when the node was last stopped: the program that runs knows."""
    pending = spool.read(UPGRADE)
    if not isinstance(pending, dict):
        return
    own = "" if program is None else hashlib.sha256(program.read_bytes()).hexdigest()
    if own == pending["sha256"]:
        spool.keep(RELEASED, pending["released_at"])
        result: dict[str, Any] = {"status": "success", "output": {"version": pending["version"], "sha256": own}}
    else:
        result = {"status": "error", "error": pending.get("error") or "the node was stopped during the upgrade"}
    spool.note("upgrade", pending["execution_id"], {"sha256": own, "status": result["status"]})
    end(pending["execution_id"], result)
    spool.drop(UPGRADE)


def _download(url: str) -> bytes:
    from agent_fabric.infrastructure.node.join_hub import open_url  # noqa: PLC0415 - what stays in memory is small

    try:
        with open_url(url, FETCH_TIMEOUT_S) as answer:
            data: bytes = answer.read(MAX_PROGRAM_BYTES + 1)
    except (OSError, ValueError) as problem:
        raise UpgradeProblem(f"the program could not be fetched: {problem}") from None
    if len(data) > MAX_PROGRAM_BYTES:
        raise UpgradeProblem(f"the program has more than {MAX_PROGRAM_BYTES:,} bytes")
    return data
