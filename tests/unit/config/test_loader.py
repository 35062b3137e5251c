import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.defaults import default_config
from agent_fabric.config.loader import Loaded, load_config, read_config
from agent_fabric.config.problems import ConfigProblem


def write(path: Path, settings: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))
    return path


def steps(count: int) -> dict[str, Any]:
    return {"budget": {"max_steps": count}}


@pytest.fixture
def _fresh() -> Iterator[None]:
    load_config.cache_clear()
    yield
    load_config.cache_clear()


@pytest.mark.proves("AF-150")
def test_without_any_settings_the_defaults_hold() -> None:
    loaded = read_config({})
    assert loaded.config == default_config()
    assert set(loaded.origins.values()) == {"default"}


@pytest.mark.proves("AF-150", "C05")
def test_the_later_layer_wins(tmp_path: Path) -> None:
    project = tmp_path / "project"
    environ: dict[str, str] = {"HOME": str(tmp_path / "home")}

    def max_steps(overrides: dict[str, Any] | None = None) -> tuple[int, str]:
        loaded = read_config(environ, fabric_folder=project / ".fabric", overrides=overrides)
        return loaded.config.budget.max_steps, loaded.origins["budget.max_steps"]

    assert max_steps() == (40, "default")
    user = write(tmp_path / "home/.config/agent-fabric/config.json", steps(41))
    assert max_steps() == (41, f"file {user}")
    own = write(project / ".fabric/config.json", steps(42))
    assert max_steps() == (42, f"file {own}")
    chosen = write(tmp_path / "chosen.json", steps(43))
    environ["FABRIC_CONFIG_PATH"] = str(chosen)
    assert max_steps() == (43, f"file {chosen}")
    environ["FABRIC_BUDGET__MAX_STEPS"] = "44"
    assert max_steps() == (44, "env FABRIC_BUDGET__MAX_STEPS")
    assert max_steps(steps(45)) == (45, "flag")


@pytest.mark.proves("AF-150", "C05")
def test_a_chosen_file_replaces_user_and_project_files(tmp_path: Path) -> None:
    write(tmp_path / "agent-fabric/config.json", {"task_force_mode": "parallel"})
    write(tmp_path / ".fabric/config.json", {"auto_pull_if_missing": False})
    chosen = write(tmp_path / "chosen.json", steps(7))
    config = read_config(
        {"XDG_CONFIG_HOME": str(tmp_path), "FABRIC_CONFIG_PATH": str(chosen)}, fabric_folder=tmp_path / ".fabric"
    ).config
    assert config.budget.max_steps == 7
    assert config.model_copy(update={"budget": default_config().budget}) == default_config()


@pytest.mark.proves("AF-150", "AF-084")
def test_one_model_given_in_a_file_leaves_the_others_as_built_in(chosen: Callable[..., Loaded]) -> None:
    quality = {"base_url": "http://gpu:8000/v1", "model": "mine", "backend": "generic"}
    loaded = chosen(json.dumps({"models": {"quality": quality}}))
    assert loaded.config.models["quality"].base_url == "http://gpu:8000/v1"
    assert loaded.config.models["fast"] == default_config().models["fast"]
    assert loaded.config.specialists == default_config().specialists
    assert loaded.origins["models.quality.base_url"].startswith("file ")
    assert loaded.origins["models.quality.temperature"] == "default"
    assert loaded.origins["models.fast.base_url"] == "default"


@pytest.mark.proves("C05")
def test_user_and_project_files_are_merged_entry_by_entry(tmp_path: Path) -> None:
    user = write(
        tmp_path / "agent-fabric/config.json",
        {"models": {"cloud": {"base_url": "https://a/v1", "model": "m"}}, "shell": {"extra_commands": ["rg"]}},
    )
    own = write(
        tmp_path / ".fabric/config.json", {"models": {"cloud": {"model": "n"}}, "shell": {"extra_commands": ["fd"]}}
    )
    loaded = read_config({"XDG_CONFIG_HOME": str(tmp_path)}, fabric_folder=tmp_path / ".fabric")
    assert loaded.config.models["cloud"].model == "n"
    assert loaded.config.shell.extra_commands == ("fd",)
    assert loaded.origins["models.cloud.base_url"] == f"file {user}"
    assert loaded.origins["models.cloud.model"] == f"file {own}"


def test_a_group_can_be_switched_off_and_on_again(tmp_path: Path) -> None:
    write(tmp_path / "agent-fabric/config.json", {"telemetry": {"enabled": True, "exporter": "console"}})
    own = write(tmp_path / ".fabric/config.json", {"telemetry": None})
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    off = read_config(environ, fabric_folder=tmp_path / ".fabric")
    assert off.config.telemetry is None
    assert off.origins["telemetry"] == f"file {own}"
    on = read_config(
        environ, fabric_folder=tmp_path / ".fabric", overrides={"telemetry": {"otlp_endpoint": "http://a"}}
    )
    assert on.origins["telemetry.otlp_endpoint"] == "flag"
    assert on.origins["telemetry.exporter"] == "default"


def test_every_leaf_has_an_origin_and_only_leaves_have_one() -> None:
    origins = read_config({}, overrides={"models": {"fast": {"headers": {"X-Team": "blue"}}}}).origins
    assert origins["models.fast.headers.X-Team"] == "flag"
    assert origins["models.quality.headers"] == "default"
    assert origins["telemetry"] == "default"
    assert "models.fast" not in origins
    assert "budget" not in origins


def test_a_broken_lower_layer_is_reported_even_if_a_higher_one_would_hide_it(
    refused: Callable[..., ConfigProblem],
) -> None:
    found = refused('{"budget": {"max_steps": "many"}}', FABRIC_BUDGET__MAX_STEPS="5")
    assert found.message.startswith("file ")
    assert found.message.endswith("fabric.json: budget.max_steps must be a whole number, got text")


def test_all_problems_of_a_file_are_reported_at_once(refused: Callable[..., ConfigProblem]) -> None:
    found = refused(json.dumps({"modles": {}, "budget": {"max_steps": 0}, "task_force_mode": "x"}))
    first, *rest = found.message.splitlines()
    assert first == "3 problems in the configuration:"
    assert len(rest) == 3
    assert all("fabric.json: " in line for line in rest)


def test_at_most_ten_problems_are_listed(refused: Callable[..., ConfigProblem]) -> None:
    lines = refused(json.dumps({f"zz{number}": 1 for number in range(14)})).message.splitlines()
    assert lines[0] == "14 problems in the configuration:"
    assert len(lines) == 12
    assert lines[-1] == "  … and 4 more"


def test_a_relative_xdg_folder_is_ignored_as_its_specification_says(tmp_path: Path) -> None:
    write(tmp_path / ".config/agent-fabric/config.json", steps(9))
    assert read_config({"XDG_CONFIG_HOME": "etc", "HOME": str(tmp_path)}).config.budget.max_steps == 9


def test_two_files_in_one_folder_are_refused(tmp_path: Path) -> None:
    write(tmp_path / ".fabric/config.json", {})
    write(tmp_path / ".fabric/config.toml", {})
    with pytest.raises(ConfigProblem, match=r"more than one configuration file: config\.json, config\.toml"):
        read_config({}, fabric_folder=tmp_path / ".fabric")


@pytest.mark.proves("AF-151")
@pytest.mark.usefixtures("_fresh")
def test_the_configuration_is_read_once_per_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = write(tmp_path / "chosen.json", steps(5))
    monkeypatch.setenv("FABRIC_CONFIG_PATH", str(chosen))
    first = load_config()
    write(chosen, steps(6))
    assert load_config() is first
    assert first.config.budget.max_steps == 5
    load_config.cache_clear()
    assert load_config().config.budget.max_steps == 6


@pytest.mark.proves("AF-151")
@pytest.mark.usefixtures("_fresh")
def test_overrides_hold_for_their_call_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRIC_CONFIG_PATH", str(write(tmp_path / "chosen.json", steps(5))))
    assert load_config(steps(8)).config.budget.max_steps == 8
    assert load_config().config.budget.max_steps == 5


@pytest.mark.usefixtures("_fresh")
def test_a_failed_reading_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tmp_path / "chosen.json"
    monkeypatch.setenv("FABRIC_CONFIG_PATH", str(chosen))
    with pytest.raises(ConfigProblem, match="does not exist"):
        load_config()
    write(chosen, steps(5))
    assert load_config().config.budget.max_steps == 5


def test_formats_that_are_not_needed_are_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from agent_fabric.config.loader import load_config; load_config();"
        "print([name for name in ('yaml', 'tomllib', 'pydantic_settings') if name in sys.modules])"
    )
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "FABRIC_CONFIG_PATH": str(write(tmp_path / "a.json", {}))}
    assert subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=True).stdout == b"[]\n"
