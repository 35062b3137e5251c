import re
from pathlib import Path

import pytest
from pydantic import ValidationError

import agent_fabric
from agent_fabric.config import constants
from agent_fabric.config.defaults import default_config

SOURCE = Path(agent_fabric.__file__).parent


@pytest.mark.proves("AF-128")
def test_limits_are_named_constants() -> None:
    assert constants.MAX_TOOL_OUTPUT_CHARS == 16_000
    assert constants.MAX_LLM_CONTENT_IN_RUNLOG_CHARS == 2_000
    assert constants.LLM_DISCOVERY_TIMEOUT_S == 5.0
    assert constants.SHELL_DEFAULT_TIMEOUT_S == 120.0


@pytest.mark.proves("AF-128")
@pytest.mark.parametrize(
    "name",
    [
        *("MAX_TOOL_OUTPUT_CHARS", "MAX_LLM_CONTENT_IN_RUNLOG_CHARS"),
        *("LLM_DISCOVERY_TIMEOUT_S", "SHELL_DEFAULT_TIMEOUT_S"),
    ],
)
def test_each_limit_is_defined_once_and_used(name: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path.name != "constants.py"]
    assert any(re.search(rf"\b{name}\b", text) for text in texts), "nothing uses it"
    assert not any(re.search(rf"^{name}\b[^=\n]*=", text, re.MULTILINE) for text in texts), "it is defined again"


@pytest.mark.proves("AF-152")
def test_default_is_a_fast_and_a_quality_model_that_are_found_on_this_machine() -> None:
    models = default_config().models
    assert {key: (model.base_url, model.model, model.backend) for key, model in models.items()} == {
        "fast": (None, None, "auto"),
        "quality": (None, None, "auto"),
    }


@pytest.mark.proves("AF-152")
def test_default_has_the_engineering_pack_with_keywords_and_workflow() -> None:
    engineering = default_config().specialists["engineering"]
    assert {"build", "code", "implement", "api", "test", "bug", "fix", "refactor", "script"} <= set(
        engineering.keywords
    )
    assert engineering.workflow == ("plan", "implement", "test", "review", "iterate")


@pytest.mark.proves("AF-152", "AF-101", "AF-102")
def test_default_has_the_research_packs_after_engineering_with_words_that_coding_tasks_lack() -> None:
    specialists = default_config().specialists
    assert list(specialists) == ["engineering", "research", "enterprise_research", "sysadmin", "review", "assistant"]
    assert {"research", "systematic review", "literature", "evidence", "citation"} <= set(
        specialists["research"].keywords
    )
    assert specialists["research"].workflow == ("scope", "search", "screen", "extract", "synthesize")
    assert {"previous run", "what did we"} <= set(specialists["enterprise_research"].keywords)
    words = [set(each.keywords) for each in specialists.values()]
    assert not words[0] & words[1]
    assert not words[1] & words[2]


@pytest.mark.proves("AF-153", "AF-081", "AF-082")
def test_other_defaults_are_those_of_the_specification() -> None:
    config = default_config()
    assert config.routing_model_key == "fast"
    assert config.default_model_key == "quality"
    assert config.task_force_mode == "sequential"
    assert config.local_llm_ensure_available is True
    assert config.local_llm_start_cmd == ("ollama", "serve")
    assert config.auto_pull_if_missing is True
    assert config.run_index.embedding_model is None
    assert config.run_index.embedding_base_url is None
    assert config.cloud_fallback is None
    assert config.telemetry is None
    assert config.budget.max_steps == 40
    assert config.shell.allowed_commands is None


def test_a_configuration_cannot_be_changed_after_it_was_read() -> None:
    with pytest.raises(ValidationError):
        setattr(default_config().budget, "max_steps", 3)  # noqa: B010 - mypy would refuse the assignment
