"""The llama.cpp that is installed here: its version, and which models it knows."""

import importlib.util
import mmap
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

from agent_fabric.domain.errors import WeightsUnavailable
from agent_fabric.infrastructure.models.weights.catalogue import CatalogueModel

RUNTIME: Final = "xllamacpp"


def runtime_version() -> str | None:
    """Return the version of the package that carries llama.cpp; None: it is not installed."""
    try:
        return metadata.version(RUNTIME)
    except metadata.PackageNotFoundError:
        return None


def require_architecture(model: CatalogueModel) -> None:
    """Make sure, before anything is downloaded, that the installed llama.cpp knows a model's architecture.

    It has the names of all that it knows in its library; without one that can be read, nothing is refused.

    Raises:
        WeightsUnavailable: it does not.
    """
    library = _library()
    if library is None:
        return
    with suppress(OSError), library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find(model.architecture.encode() + b"\0") < 0:
            raise WeightsUnavailable(
                f"The installed {RUNTIME} {runtime_version()} cannot load {model.name}: it does not know "
                f"{model.architecture!r} yet",
                hint='Get a newer one: pip install --upgrade "agent-fabric[embedded]"',
            )


def _library() -> Path | None:
    with suppress(ImportError, ValueError):
        found = importlib.util.find_spec(RUNTIME)
        for folder in (found.submodule_search_locations if found is not None else None) or ():
            return next(iter(sorted(Path(folder).glob(f"{RUNTIME}*.so"))), None)
    return None
