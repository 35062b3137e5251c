"""The line editor of `fabric chat`: history, completion, several lines, an external editor and a status line.

It is imported only where a person types at a terminal that can show it. Everywhere else lines are read as they come.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import is_searching
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout

MAX_OFFERED: Final = 200
MAX_LOOKED_AT: Final = 5_000
"""Files of a project that are looked at for a completion."""
_LEFT_OUT: Final = frozenset({".git", ".fabric", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"})
_AT: Final = re.compile(r"(?:^|(?<=\s))@(\S*)$")


class Words(Completer):
    """Completes commands after `/`, and files of the project after `@`."""

    def __init__(self, commands: Sequence[tuple[str, str]], folder: Path | None) -> None:
        self._commands = commands
        self._folder = folder

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002 - as every completer
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text and "\n" not in text:
            for name, about in self._commands:
                if f"/{name}".startswith(text):
                    yield Completion(f"/{name}", start_position=-len(text), display_meta=about)
        elif self._folder is not None and (found := _AT.search(text)):
            begun = found.group(1)
            for path in offered_files(self._folder, begun):
                yield Completion(path, start_position=-len(begun))


def offered_files(folder: Path, begun: str) -> list[str]:
    """Return files below a folder whose path begins so, or whose name does; those that no one edits are left out."""
    found: list[str] = []
    wanted = begun.casefold()
    for path in _files_below(folder):
        name = path.rpartition("/")[2]
        if path.casefold().startswith(wanted) or name.casefold().startswith(wanted):
            found.append(path)
            if len(found) >= MAX_OFFERED:
                break
    return found


def _files_below(folder: Path) -> Iterator[str]:
    looked_at = 0
    folders = [folder]
    while folders and looked_at < MAX_LOOKED_AT:
        here = folders.pop(0)
        try:
            entries = sorted(here.iterdir())
        except OSError:
            continue
        for entry in entries:
            looked_at += 1
            if entry.name in _LEFT_OUT or entry.is_symlink():
                continue
            if entry.is_dir():
                folders.append(entry)
            elif entry.name.isprintable() and " " not in entry.name:
                yield entry.relative_to(folder).as_posix()


class LineEditor:
    """Reads what a person types: Enter sends, Alt-Enter begins a new line, Ctrl-R searches what was said before."""

    def __init__(
        self,
        *,
        history: Sequence[str],
        commands: Iterable[tuple[str, str]],
        folder: Path | None,
        status: Callable[[], str],
        interrupted: Callable[[], None],
        vi: bool = False,
        terminal: tuple[Input, Output] | None = None,
    ) -> None:
        """Take what was said before, the oldest first, and what is called for Ctrl-C at an empty line."""
        self._interrupted = interrupted
        used, shown = terminal or (None, None)
        self._session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(history),
            completer=ThreadedCompleter(Words([*commands], folder)),
            complete_while_typing=False,
            multiline=True,
            key_bindings=_keys(),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            enable_open_in_editor=True,
            tempfile_suffix=".md",
            bottom_toolbar=status,
            prompt_continuation="  ",
            input=used,
            output=shown,
        )

    async def read(self, prompt: str, meanwhile: Callable[[], Awaitable[bool]], every_s: float) -> str | None:
        """Return what was typed; None at the end of input. `meanwhile` is called again and again, and may print."""
        with patch_stdout(raw=True):
            looking = asyncio.ensure_future(_look(meanwhile, every_s))
            try:
                while True:
                    try:
                        return await self._session.prompt_async(ANSI(prompt), handle_sigint=False)
                    except KeyboardInterrupt:
                        if not self._session.default_buffer.text:
                            self._interrupted()
                            await asyncio.sleep(0)  # which may be the end
                    except EOFError:
                        return None
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)


async def _look(meanwhile: Callable[[], Awaitable[bool]], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        await meanwhile()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~is_searching)
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the completion is taken; the next Enter sends
            return
        buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    return keys
