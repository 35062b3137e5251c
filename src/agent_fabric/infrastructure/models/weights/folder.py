"""The folder with the user's models: which are there, which were checked, and who is working on one."""

import asyncio
import contextlib
import fcntl
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from agent_fabric.config.folders import base_folder
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, WeightsUnavailable
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE, CatalogueModel, find
from agent_fabric.infrastructure.models.weights.mirrors import PartFile
from agent_fabric.infrastructure.tree_walk import remove_tree

OVERRIDE: Final = "FABRIC_MODELS_DIR"
_SUFFIX: Final = ".gguf"
_LOOK_AGAIN_S: Final = 0.25
_MAX_NOTE_BYTES: Final = 4096


def models_folder(environ: Mapping[str, str]) -> Path:
    """Return where models are kept: `FABRIC_MODELS_DIR`, else a folder of ours in the user's data folder.

    Raises:
        ConfigError: the environment names no usable place.
    """
    named = environ.get(OVERRIDE, "").strip()
    home = environ.get("HOME", "")
    if named:
        path = Path(home, named[2:]) if home and named.startswith("~/") else Path(named)
        if not path.is_absolute():
            raise ConfigError(
                f"{OVERRIDE} is {named!r}, which is not a whole path", hint=f"export {OVERRIDE}=/some/path"
            )
        return path
    folder = base_folder(environ, "XDG_DATA_HOME", ".local", "share")
    if folder is None:
        raise ConfigError("There is no home folder to keep models in", hint=f"export {OVERRIDE}=/some/path")
    return folder / "models"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledModel:
    """A file of weights that lies in the folder."""

    name: str
    path: Path
    size_bytes: int
    model: CatalogueModel | None
    """What the catalogue knows of it; None for a file that someone put there."""
    verified: bool
    """Its hash was checked, and it has not changed since."""


class ModelFolder:
    """Files of weights by name. Nothing here asks the network."""

    def __init__(self, path: Path, catalogue: Sequence[CatalogueModel] = CATALOGUE) -> None:
        self.path = path
        self._catalogue = catalogue

    def file_of(self, model: CatalogueModel) -> Path:
        """Return where a model's file belongs, whether it is there or not."""
        return self.path / (model.name + _SUFFIX)

    def part_of(self, model: CatalogueModel, key: str) -> PartFile:
        """Return the unfinished file that a kind of mirror fills."""
        return PartFile(self.path / f".{model.name}.{key}.part", model.size_bytes)

    def staging_of(self, model: CatalogueModel) -> Path:
        """Return a folder for what must be unpacked first."""
        return self.path / f".{model.name}.staging"

    def create(self) -> None:
        """Make the folder, for this user only."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def is_verified(self, model: CatalogueModel) -> bool:
        """Tell whether the file is there, was checked, and has not changed since. Does not read the file."""
        return _is_noted(self.file_of(model), model.sha256)

    def note_verified(self, model: CatalogueModel) -> None:
        """Remember that the file as it is now has the right hash."""
        file = self.file_of(model)
        found = file.stat()
        note = {"sha256": model.sha256, "size": found.st_size, "mtime_ns": found.st_mtime_ns}
        write_atomically(_note_of(file), json.dumps(note).encode(), mode=0o644, durable=False)

    def set_aside(self, model: CatalogueModel) -> Path:
        """Move a file with the wrong hash out of the way; a person may have put it there, so it is not deleted."""
        file = self.file_of(model)
        aside = file.with_name(file.name + ".refused")
        file.replace(aside)
        _note_of(file).unlink(missing_ok=True)
        return aside

    def adopt(self, part: PartFile, model: CatalogueModel) -> Path:
        """Give a complete and checked file its name, and delete everything that other attempts left."""
        file = self.file_of(model)
        part.path.replace(file)
        self.note_verified(model)
        self.clear_unfinished(model)
        return file

    def begun_bytes(self, model: CatalogueModel) -> int:
        """Return how much of a model an unfinished download has got."""
        sizes = [_size(path) for path in self._leftovers(model) if path.suffix == ".part"]
        return max(sizes, default=0)

    def clear_unfinished(self, model: CatalogueModel) -> None:
        """Delete what downloads of a model left behind."""
        for path in self._leftovers(model):
            path.unlink(missing_ok=True)
        remove_tree(self.staging_of(model))

    def list_installed(self) -> list[InstalledModel]:
        """Return the models that are there, by name."""
        known = {model.name: model for model in self._catalogue}
        found = []
        for path in self._weights():
            model = known.get(path.stem)
            verified = model is not None and _is_noted(path, model.sha256)
            found.append(
                InstalledModel(name=path.stem, path=path, size_bytes=_size(path), model=model, verified=verified)
            )
        return found

    def remove(self, name: str) -> int:
        """Delete a model, or what an unfinished download of it left; return how many bytes that gave back.

        Raises:
            ConfigError: there is no such model here.
            WeightsUnavailable: it is being downloaded, or may not be deleted.
        """
        stem = name.strip().removesuffix(_SUFFIX)
        if stem in {path.stem for path in self._weights()} - {model.name for model in self._catalogue}:
            return _delete(self.path / (stem + _SUFFIX))
        model = find(name, self._catalogue)
        with self._hold_lock(model) as mine:
            if not mine:
                raise WeightsUnavailable(
                    f"{model.name} is being downloaded by another process",
                    hint="Wait until it is done, or stop it first.",
                )
            freed = sum(map(_size, self._leftovers(model))) + _delete(self.file_of(model))
            aside = self.file_of(model).with_name(self.file_of(model).name + ".refused")
            freed += _delete(aside)
            self.clear_unfinished(model)
        if not freed:
            raise ConfigError(f"{model.name} is not in {self.path}", hint="`fabric models list` shows what is there.")
        return freed

    @contextlib.asynccontextmanager
    async def lock(self, model: CatalogueModel, waiting: Callable[[], None]) -> AsyncIterator[None]:
        """Be the only one, over all processes, that works on a model; `waiting` is called as long as another does."""
        while True:
            with self._hold_lock(model) as mine:
                if mine:
                    yield
                    return
            waiting()
            await asyncio.sleep(_LOOK_AGAIN_S)

    @contextlib.contextmanager
    def _hold_lock(self, model: CatalogueModel) -> Iterator[bool]:
        """Hold the lock if it is free. The kernel frees it when this process dies."""
        try:
            descriptor = os.open(self.path / f".{model.name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # no folder: nothing to delete, and no one works there
            yield True
            return
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def _weights(self) -> list[Path]:
        try:
            return sorted(p for p in self.path.iterdir() if p.suffix == _SUFFIX and p.name[0] != "." and p.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as problem:
            raise ConfigError(f"The models in {self.path} cannot be listed: {problem.strerror}") from None

    def _leftovers(self, model: CatalogueModel) -> list[Path]:
        try:
            names = [entry.name for entry in os.scandir(self.path)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [self.path / n for n in names if n.startswith(f".{model.name}.") and n.endswith((".part", ".part.tag"))]


def _note_of(file: Path) -> Path:
    return file.with_name(file.name + ".verified")


def _is_noted(file: Path, sha256: str) -> bool:
    try:
        with _note_of(file).open("rb") as stream:
            note = json.loads(stream.read(_MAX_NOTE_BYTES))
        found = file.stat()
    except (OSError, ValueError):
        return False
    return bool(note == {"sha256": sha256, "size": found.st_size, "mtime_ns": found.st_mtime_ns})


def _delete(file: Path) -> int:
    size = _size(file)
    try:
        file.unlink(missing_ok=True)
        _note_of(file).unlink(missing_ok=True)
    except OSError as problem:
        raise WeightsUnavailable(f"{file} cannot be deleted: {problem.strerror}") from None
    return size


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
