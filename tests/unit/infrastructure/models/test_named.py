"""A name that a person types means one model, or there is an error that says what would have worked."""

from pathlib import Path

import pytest

from agent_fabric.application.ports.models import OllamaFound, Shelf, WeightsFile
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.infrastructure.models.named import Choice, choice_of, pulled_by
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE, CatalogueModel

SHELF = Shelf(folder="/m", runtime="1", catalogue=(), files=())
OLLAMA = OllamaFound(
    "http://localhost:11434/v1",
    running=True,
    models=(
        ModelCard(name="qwen2.5:7b"),
        ModelCard(name="gemma3:4b", calls_tools=False),
        ModelCard(name="nomic-embed-text:latest", chats=False, calls_tools=False),
        ModelCard(name="qwen2.5-coder:1.5b"),
    ),
)
ELSEWHERE = OLLAMA._replace(base_url="http://127.0.0.1:9999/v1")
NONE = OllamaFound("http://localhost:11434/v1", running=False)
QUALITY = CATALOGUE[0].name


@pytest.mark.parametrize(
    ("name", "ollama", "backend", "base_url", "model"),
    [
        ("quality", OLLAMA, "embedded", None, QUALITY),
        (QUALITY, NONE, "embedded", None, QUALITY),
        (f"{QUALITY}.gguf", NONE, "embedded", None, QUALITY),
        ("qwen2.5:7b", OLLAMA, "ollama", None, "qwen2.5:7b"),
        ("qwen2.5:7b", ELSEWHERE, "ollama", "http://127.0.0.1:9999/v1", "qwen2.5:7b"),
        ("gemma3:4b", OLLAMA, "ollama", None, "gemma3:4b"),
        ("qwen2.5-coder:1.5b", OLLAMA, "ollama", None, "qwen2.5-coder:1.5b"),
        ("qwen2.5-coder:1.5b", NONE, "embedded", None, QUALITY),
        ("auto", NONE, "auto", None, None),
        ("http://localhost:8000/v1", NONE, "auto", "http://localhost:8000/v1", None),
    ],
)
def test_a_name_means_what_is_there(
    name: str, ollama: OllamaFound, backend: str, base_url: str | None, model: str | None
) -> None:
    assert choice_of(name, None, SHELF, [ollama])[:3] == (backend, base_url, model)


def test_a_server_may_be_named_with_its_model() -> None:
    choice = choice_of("https://x.example/v1", "big", SHELF, [NONE])
    assert choice == Choice("auto", "https://x.example/v1", "big", "big at https://x.example/v1")


@pytest.mark.parametrize(
    ("name", "model", "ollama", "says"),
    [
        ("", None, OLLAMA, "No model is named"),
        (" ", None, OLLAMA, "No model is named"),
        ("quality", "x", OLLAMA, "--model goes with the address"),
        ("llama9:1b", None, NONE, "no Ollama answers"),
        ("llama9", None, OLLAMA, "Neither agent-fabric nor Ollama"),
        ("nomic-embed-text", None, OLLAMA, "cannot chat"),
        ("/no/such.gguf", None, OLLAMA, "no file"),
        ("x.gguf", None, OLLAMA, "no file"),
        ("x" * 5000, None, NONE, "There is no model"),
    ],
)
def test_a_name_of_nothing_is_an_error_with_a_way_out(
    name: str, model: str | None, ollama: OllamaFound, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        choice_of(name, model, SHELF, [ollama])
    assert caught.value.hint


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match="not a usable GGUF file"):
        choice_of(str(file), None, SHELF, [NONE])
    with pytest.raises(ConfigError, match="not a usable GGUF file"):
        choice_of(
            "x", None, Shelf(folder="", runtime="", catalogue=(), files=(WeightsFile("x", str(file), 4),)), [NONE]
        )


@pytest.mark.parametrize(
    ("name", "ollama", "by"),
    [
        ("fast", OLLAMA, CatalogueModel),
        ("llama3.1:8b", OLLAMA, OllamaFound),
        ("mistral", OLLAMA, OllamaFound),
        ("qwen2.5-coder:1.5b", OLLAMA, OllamaFound),
        ("qwen2.5-coder:1.5b", NONE, CatalogueModel),
    ],
)
def test_a_download_is_made_by_who_has_the_model(name: str, ollama: OllamaFound, by: type[object]) -> None:
    assert isinstance(pulled_by(name, [ollama]), by)


@pytest.mark.parametrize("name", ["llama3.1:8b", "mistral", "", "qwen2.5-coder"])
def test_what_nobody_can_download_is_an_error_with_a_way_out(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pulled_by(name, [NONE])
    assert caught.value.hint
