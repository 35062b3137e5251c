"""Reads a person's own commands from Markdown files: those of the project, and those of the user."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agent_fabric.config.files import read_beginning, user_folder
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.domain.chat.slash_commands import COMMAND_NAME, SlashCommand
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.definitions.front_matter import split_front_matter
from agent_fabric.infrastructure.tools.trusted_content import TrustedContent, digest_of

MAX_BYTES: Final = 100_000
_FIELDS: Final = frozenset({"description", "arguments", "model", "pack"})


@dataclass(frozen=True, slots=True)
class CommandFiles:
    """The commands for a fabric folder."""

    root: Path
    environ: Mapping[str, str]
    trust: TrustedContent

    def names(self) -> dict[str, Path]:
        """Return the files of all commands by name; the project's count more than the user's."""
        found: dict[str, Path] = {}
        for folder in self._folders():
            for path in sorted(folder.glob("*.md")) if folder.is_dir() else ():
                if COMMAND_NAME.fullmatch(path.stem):
                    found.setdefault(path.stem, path)
        return found

    def find(self, name: str) -> SlashCommand | None:
        """Return a command; None: there is none of this name.

        Raises:
            ConfigError: its file cannot be read, or is no command.
        """
        path = self.names().get(name)
        return None if path is None else _parse(path, _read(path))

    def is_trusted(self, command: SlashCommand) -> bool:
        """Tell whether its text is a person's own: in their own folder, or agreed to exactly as it is."""
        return Path(command.file).parent != self._of_project or self.trust.has(command.digest)

    def agree(self, command: SlashCommand) -> None:
        """Remember that a person agreed to its text as it was read: what was shown, whatever the file has by now."""
        self.trust.add(command.digest, what=f"command {command.file}")

    @property
    def _of_project(self) -> Path:
        return self.root.absolute() / "commands"

    def _folders(self) -> Iterator[Path]:
        yield self._of_project
        own = user_folder(self.environ)
        if own is not None:
            yield own / "commands"


def _read(path: Path) -> bytes:
    try:
        data = read_beginning(path, MAX_BYTES)
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    if data is None or len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is no plain file of at most {MAX_BYTES:,} bytes")
    return data


def _parse(path: Path, data: bytes) -> SlashCommand:
    try:
        fields, text = split_front_matter(data.decode("utf-8-sig"), required=False)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    except SyntaxProblem as problem:
        raise ConfigError(f"{path}: {problem.message}") from None
    if unknown := sorted(str(each) for each in fields.keys() - _FIELDS):
        hint = f"There are: {', '.join(sorted(_FIELDS))}."
        raise ConfigError(f"{path}: unknown fields: {', '.join(unknown)}", hint=hint)
    if not text:
        raise ConfigError(f"{path} says nothing", hint="Write below the front matter what is to be done.")
    plain = {name: _plain(path, name, fields.get(name, "")) for name in ("description", "model", "pack")}
    return SlashCommand(
        name=path.stem,
        text=text,
        file=str(path),
        digest=digest_of(data),
        arguments=_names(path, fields.get("arguments", ())),
        **plain,
    )


def _plain(path: Path, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{path}: {name} must be text")
    return value.strip()


def _names(path: Path, value: Any) -> tuple[str, ...]:
    names = value.split() if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) and each.isidentifier() for each in names):
        raise ConfigError(f"{path}: arguments must be names", hint="Such as: arguments: [file, reason]")
    return tuple(each.lower() for each in names)
