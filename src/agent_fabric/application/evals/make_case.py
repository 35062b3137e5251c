"""Makes a case of a real run: what was asked, and the files as they were before it."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from agent_fabric.application.ports.changes import ChangeHistory
from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.evals.definition import (
    MAX_CASE_BYTES,
    MAX_FILES,
    CaseFile,
    EvalCase,
    is_inside,
)
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import Entry, EntryKind, below_any

_MAX_ID_WORDS: Final = 5
_EXECUTABLE: Final = 0o100
_SECRETS: Final = (".env", ".netrc", ".pypirc", ".npmrc", ".pem", ".key", "id_rsa", "id_ed25519")
"""Beginnings and ends of names of files that hold secrets: an eval file is made to be shared."""


class MadeCase(NamedTuple):
    """A case, and what of its files could not be taken along."""

    case: EvalCase
    left_out: Sequence[str]
    """Files that are no plain files, hold secrets, or whose content is not known any more."""


@dataclass(frozen=True, slots=True)
class MakeCase:
    """Use case: turn a run that went well, or badly, into a case that can be tried again."""

    runs: RunRepository
    history: ChangeHistory

    async def __call__(self, run_id: RunId, *, check: str, case_id: str = "", only: Sequence[str] = ()) -> MadeCase:
        """Return the case; of a run in a project folder with the files as they stood before it, or those of `only`.

        Raises:
            RunNotFound: there is no such run.
            ConfigError: it is no task, its files are not known, too many, or not those of `only`.
        """
        created = require_task(run_id, await self.runs.read(run_id))
        files, left_out = await asyncio.to_thread(self._files_before, run_id, created, only)
        case = EvalCase(case_id=case_id or id_from(created.prompt), prompt=created.prompt, check=check, files=files)
        return MadeCase(case, left_out)

    def _files_before(
        self, run_id: RunId, created: RunCreated, only: Sequence[str]
    ) -> tuple[Mapping[str, CaseFile], Sequence[str]]:
        drives = self.history.drives(run_id)
        if not drives:
            if created.continues is not None:
                raise ConfigError(
                    f"Run {run_id} began with the files of run {created.continues}, and how they stood is not recorded",
                    hint=f"Make a case of the first one instead: fabric eval add {created.continues} --check …",
                )
            require_known(only, ())
            return {}, ()  # its workspace was empty
        entries = drives[0].before.entries
        require_known(only, entries)
        wanted = {path: entry for path, entry in entries.items() if not only or below_any(path, only)}
        _require_few(wanted)
        files, left_out = dict[str, CaseFile](), list[str]()
        for path, entry in sorted(wanted.items()):
            if entry.kind in (EntryKind.FOLDER, EntryKind.UNWATCHED):
                continue
            takes = entry.kind is EntryKind.FILE and is_inside(path) and not _may_be_secret(path)
            data = self.history.content(created.workspace, path, entry) if takes else None
            if data is None:
                left_out.append(path)
            else:
                files[path] = CaseFile(data=data, executable=bool(entry.mode & _EXECUTABLE))
        return files, left_out


def require_task(run_id: RunId, events: Sequence[Event]) -> RunCreated:
    """Return the beginning of a run of which a case can be made.

    Raises:
        ConfigError: it is no task, or a trial.
    """
    created = events[0].body
    if not isinstance(created, RunCreated) or created.workflow is not None:
        raise ConfigError(f"Run {run_id} is not a task", hint="A case is made of what `fabric run` did.")
    if created.trial_of:
        raise ConfigError(
            f"Run {run_id} is a trial of evaluation {created.trial_of}: it is a case already",
            hint="Copy the case in its eval file.",
        )
    return created


def require_known(only: Sequence[str], paths: Collection[str]) -> None:
    """Refuse what is asked for if a run did not begin with it.

    Raises:
        ConfigError: there is no such path.
    """
    for wanted in only:
        if not any(below_any(path, [wanted]) for path in paths):
            raise ConfigError(
                f"The run did not begin with {wanted!r}", hint="Write --only as seen from the folder of the project."
            )


def _require_few(entries: Mapping[str, Entry]) -> None:
    files = [entry for entry in entries.values() if entry.kind is EntryKind.FILE]
    size = sum(entry.size for entry in files)
    if len(files) > MAX_FILES or size > MAX_CASE_BYTES:
        raise ConfigError(
            f"The project has {len(files):,} files with {size:,} bytes, more than a case takes",
            hint=f"Name those that matter with --only PATH: at most {MAX_FILES:,} files, {MAX_CASE_BYTES:,} bytes.",
        )


def _may_be_secret(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.startswith(_SECRETS) or name.endswith(_SECRETS)


def id_from(prompt: str) -> str:
    """Return an id made of the first words of a prompt."""
    words = "".join(char if char.isascii() and char.isalnum() else " " for char in prompt.lower()).split()
    return "-".join(words[:_MAX_ID_WORDS])[:64].strip("-") or "case"
