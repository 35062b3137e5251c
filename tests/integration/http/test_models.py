"""`GET /models` on the real server."""

import asyncio
from pathlib import Path

import pytest

from integration.http.served import served
from standins.ollama_standin import OllamaStandIn, StandInModel


@pytest.mark.proves("C01")
async def test_the_models_at_hand_are_told_as_the_command_line_tells_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "FABRIC_MODELS_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    async with OllamaStandIn(
        models=[StandInModel(), StandInModel(name="tiny:1b", capabilities=("completion",))]
    ) as ollama:
        models = {"quality": {"base_url": ollama.base_url, "backend": "ollama", "model": "tiny:1b"}}
        async with served(tmp_path, also={"models": models}) as server:
            answers = await asyncio.gather(*(server.client.get("/models") for _ in range(20)))
            assert {answer.status_code for answer in answers} == {200}
            found = answers[0].json()
            assert len(ollama.asked("/api/tags")) == 1, "twenty who ask at once make one look"
            (quality,) = [line for line in found["models"] if line["key"] == "quality"]
            assert (quality["standing"], quality["model"], quality["dialect"]) == ("ready", "tiny:1b", "schema")
            assert [each["calls_tools"] for each in found["ollama"][-1]["models"]] == [True, False]
            assert (await server.client.post("/models")).status_code == 405
            server.command.environment = {
                name: str(tmp_path / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "FABRIC_MODELS_DIR")
            }
            shown = await server.command("models", "list", "--json")
            assert set(shown.json) == set(answers[0].json())
