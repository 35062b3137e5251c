"""Finds out what a project is made of, and whether the commands that its files suggest work."""

from collections.abc import Callable

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.agents.project_survey import (
    TELLING_FILES,
    ProjectCommand,
    ProjectSurvey,
    TriedCommand,
    commands_of,
    folders_of,
    languages_of,
)
from agent_fabric.domain.dataclass import dataclass

_MAX_FILES = 5_000
_MAX_BYTES = 256 * 1024
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class SurveyProject:
    """Use case: look at a project in its box, and try its commands there."""

    sandbox: Sandbox
    command_timeout_s: float = 300.0

    async def __call__(
        self, *, run: bool, on_command: Callable[[ProjectCommand], None] = lambda _: None
    ) -> ProjectSurvey:
        """Return what was found; with `run`, each command is tried, and `on_command` is told before."""
        paths, _ = await self.sandbox.list_files(".", max_entries=_MAX_FILES)
        files = {name: text for name in TELLING_FILES if (text := await self._text(name)) is not None}
        folders, tried = folders_of(paths), []
        for command in commands_of(files, folders):
            if run:
                on_command(command)
                tried.append(await self._try(command))
            else:
                tried.append(TriedCommand(command.purpose, command.line, works=None))
        return ProjectSurvey(languages_of(paths), folders, tried)

    async def _text(self, name: str) -> str | None:
        try:
            data, _ = await self.sandbox.read_file(name, max_bytes=_MAX_BYTES)
        except (OSError, ValueError):
            return None  # it is not there, or no file of the project
        return data.decode("utf-8", "replace")

    async def _try(self, command: ProjectCommand) -> TriedCommand:
        try:
            outcome = await self.sandbox.run_command(command.line, timeout_s=self.command_timeout_s)
        except OSError as problem:
            return TriedCommand(
                command.purpose, command.line, works=False, note=problem.strerror or "it does not start"
            )
        if outcome.timed_out:
            note = f"longer than {self.command_timeout_s:g} s"
        elif outcome.exit_code == _NOT_FOUND:
            note = "a program is not installed"
        else:
            note = f"exit code {outcome.exit_code}"
        works = outcome.exit_code == 0 and not outcome.timed_out
        return TriedCommand(command.purpose, command.line, works=works, note="" if works else note)
