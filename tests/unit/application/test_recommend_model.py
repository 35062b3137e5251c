"""Which model fits a machine."""

import pytest

from agent_fabric.application.models.recommend_model import recommend
from agent_fabric.application.ports.models import CatalogueEntry, Stored
from agent_fabric.domain.models.messages import ToolDialect

GB = 10**9


def entry(name: str, memory_gb: float, parameters_b: float, measured: str = "") -> CatalogueEntry:
    return CatalogueEntry(
        sha256="0" * 64,
        name=name,
        profile="",
        called=name,
        size_bytes=int(memory_gb * GB / 2),
        licence="Apache-2.0",
        context_window=32_768,
        parameters_b=parameters_b,
        dialect=ToolDialect.SCHEMA,
        path=f"/m/{name}.gguf",
        stored=Stored.MISSING,
        memory_bytes=int(memory_gb * GB),
        measured=measured,
    )


MODELS = (
    entry("middle", 1.6, 1.5, "18 of 20 tasks"),
    entry("small", 0.9, 0.5, "9 of 20 tasks"),
    entry("large", 4.0, 4.0),
)


@pytest.mark.proves("SM-10")
@pytest.mark.parametrize(
    ("memory_gb", "name"), [(8, "middle"), (3, "middle"), (2, "small"), (1, None), (None, "middle")]
)
def test_the_best_that_was_measured_and_fits_is_recommended(memory_gb: float | None, name: str | None) -> None:
    memory = None if memory_gb is None else int(memory_gb * GB)
    found = recommend(MODELS, memory, cores=2)
    assert found.name == name
    assert found.why
    assert [each.model.name for each in found.models] == ["middle", "small", "large"]


def test_each_model_says_what_speaks_against_it() -> None:
    large = recommend(MODELS, 8 * GB, cores=2).models[2]
    assert large.fits
    assert large.why == "needs 4.0 GB of memory, slow with so few cores; not measured"
    too_large = recommend(MODELS, 4 * GB, cores=16).models[2]
    assert not too_large.fits
    assert too_large.why == "needs 4.0 GB of memory, more than 2.8 GB"


def test_where_none_that_was_measured_fits_the_largest_that_fits_is_named_as_such() -> None:
    found = recommend((entry("new", 0.5, 0.6),), 2 * GB, cores=8)
    assert (found.name, found.why) == ("new", "none that was measured fits")
