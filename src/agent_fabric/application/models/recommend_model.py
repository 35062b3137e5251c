"""Says which embedded model fits this machine, and why."""

from collections.abc import Sequence
from typing import NamedTuple

from agent_fabric.application.ports.models import CatalogueEntry
from agent_fabric.domain.dataclass import dataclass

_SHARE = 0.7
"""Of the machine's memory that a model may take: the rest is for the system and what else runs."""
_SLOW_PARAMETERS_B = 2.0
"""From here on, a machine with few cores takes minutes for a task."""
_FEW_CORES = 4


class Fit(NamedTuple):
    """A model, and what speaks for or against it here."""

    model: CatalogueEntry
    fits: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to take on a machine."""

    name: str | None
    """What commands call the model; None: none fits."""
    why: str
    memory_bytes: int | None
    """All that the machine has; None: unknown."""
    cores: int
    """That a model may use at once."""
    models: tuple[Fit, ...]
    """All of them, the recommended one among them."""


def recommend(models: Sequence[CatalogueEntry], memory_bytes: int | None, cores: int) -> Recommendation:
    """Recommend the best model of those that were measured and fit; the others are told with their reasons."""
    room = None if memory_bytes is None else int(memory_bytes * _SHARE)
    fits = tuple(_fit(each, room, cores) for each in models)
    fitting = sorted((each.model for each in fits if each.fits), key=_size)
    measured = [each for each in fitting if each.measured]
    if measured:
        why = f"the best of those that were measured and fit: {measured[-1].measured}"
    elif fitting:
        why = "none that was measured fits"
    else:
        why = "no model of the catalogue fits into its memory"
    best = measured or fitting
    return Recommendation(
        name=best[-1].called if best else None, why=why, memory_bytes=memory_bytes, cores=cores, models=fits
    )


def _size(model: CatalogueEntry) -> float:
    return model.parameters_b


def _fit(model: CatalogueEntry, room: int | None, cores: int) -> Fit:
    needs = f"needs {model.memory_bytes / 1e9:.1f} GB of memory"
    if room is not None and model.memory_bytes > room:
        return Fit(model, fits=False, why=f"{needs}, more than {room / 1e9:.1f} GB")
    slow = ", slow with so few cores" if cores < _FEW_CORES and model.parameters_b >= _SLOW_PARAMETERS_B else ""
    return Fit(model, fits=True, why=f"{needs}{slow}; {model.measured or 'not measured'}")
