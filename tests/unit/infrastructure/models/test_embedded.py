"""The models inside agent-fabric, without running one."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError, ModelRefused, ModelUnreachable, WeightsUnavailable
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.infrastructure.models.embedded import EmbeddedBackend, embedded_card
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.testing.fakes import quiet
from agent_fabric.testing.workbench import SETTINGS

QUALITY = replace(SETTINGS, backend="embedded", base_url="embedded:", model="qwen2.5-coder-1.5b-instruct-q4_k_m")


def backend(folder: Path, *, ensure: bool = True, download: bool = True) -> EmbeddedBackend:
    environ = {"FABRIC_MODELS_DIR": str(folder / "models"), "XDG_STATE_HOME": str(folder / "state")}
    return EmbeddedBackend(
        environ=environ, session=HttpSession(), ensure=ensure, download=download, idle_s=1.0, threads=None
    )


@pytest.mark.parametrize(
    ("name", "key", "size"),
    [(None, "quality", 1.5), (None, "fast", 0.5), (None, "other", 1.5), ("0.5b", "quality", 0.5)],
)
async def test_a_key_or_a_name_means_a_model_of_the_catalogue(name: str | None, key: str, size: float) -> None:
    card = await embedded_card(name, key)
    assert card.parameters_b == size
    assert (card.dialect, card.compact, card.context_window) == (ToolDialect.SCHEMA, True, 32_768)
    assert len(card.digest) == 64


async def test_a_file_that_is_no_model_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF but not really")
    for name in (str(tmp_path / "a.gguf"), str(tmp_path / "missing.gguf")):
        with pytest.raises(ConfigError) as caught:
            await embedded_card(name, "quality")
        assert caught.value.hint


async def test_nothing_is_started_when_a_person_forbids_it(tmp_path: Path) -> None:
    with pytest.raises(ModelUnreachable, match="nothing is to be started"):
        await backend(tmp_path, ensure=False).ready(QUALITY, quiet)
    assert list(tmp_path.iterdir()) == []


async def test_nothing_is_downloaded_when_a_person_forbids_it(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailable) as caught:
        await backend(tmp_path, download=False).ready(QUALITY, quiet)
    assert "fabric models pull quality" in caught.value.hint


async def test_a_file_that_has_gone_is_named(tmp_path: Path) -> None:
    settings = replace(QUALITY, model=str(tmp_path / "gone.gguf"))
    with pytest.raises(ModelRefused, match=r"gone\.gguf"):
        await backend(tmp_path).ready(settings, quiet)
