"""What the installed llama.cpp knows is asked before gigabytes are fetched."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.domain.errors import WeightsUnavailable
from agent_fabric.infrastructure.models.weights import runtime
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE, find


@pytest.mark.proves("SM-10")
def test_a_model_that_the_library_does_not_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "xllamacpp.abi3.so"
    library.write_bytes(b"ELF\0deepseek2\0qwen2\0granite\0")
    monkeypatch.setattr(runtime, "_library", lambda: library)
    runtime.require_architecture(find("quality"))
    with pytest.raises(WeightsUnavailable, match="does not know 'qwen3' yet") as caught:
        runtime.require_architecture(find("qwen3-4b"))
    assert "--upgrade" in caught.value.hint


def test_where_no_library_can_be_read_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (None, tmp_path / "missing.so"):
        monkeypatch.setattr(runtime, "_library", lambda found=found: found)
        runtime.require_architecture(find("qwen3-4b"))


def test_the_real_library_knows_the_whole_catalogue_and_not_just_anything() -> None:
    pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")
    for model in CATALOGUE:
        runtime.require_architecture(model)
    with pytest.raises(WeightsUnavailable):
        runtime.require_architecture(replace(CATALOGUE[0], architecture="nonesuch9"))
