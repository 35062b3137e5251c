"""A group of commands without a subcommand reads: `fabric models` lists models."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import typer

from agent_fabric.config.loader import load_config
from agent_fabric.interfaces.cli.invocation import DEFAULT_SUBCOMMANDS, invoke, with_subcommand
from agent_fabric.interfaces.cli.main import COMMANDS, module_of


def subcommands(name: str) -> tuple[str, ...]:
    """Return the commands of a group; none for a command that is no group."""
    command: Any = typer.main.get_command(importlib.import_module(module_of(name)).app)
    return tuple(getattr(command, "commands", ()))


GROUPS = [name for name in COMMANDS if subcommands(name)]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FABRIC_URL", raising=False)
    load_config.cache_clear()


def test_twenty_seven_commands_are_groups() -> None:
    assert len(GROUPS) == 27
    assert {"models", "approvals", "eval", "logs", "config", "policy", "db"} <= set(GROUPS)


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_alone_does_what_its_reading_subcommand_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    default = next(each for each in DEFAULT_SUBCOMMANDS if each in subcommands(name))
    invoke("users", ["list"])  # makes the store
    capsys.readouterr()

    assert invoke(name, [default, "--json"]) == 0
    spelled_out = capsys.readouterr().out
    assert invoke(name, ["--json"]) == 0
    alone = capsys.readouterr().out
    if name != "db":  # which tells the free space of a disk that others write to
        assert json.loads(alone) == json.loads(spelled_out)
    assert invoke(name, []) == 0
    said = capsys.readouterr()
    assert said.out or said.err


@pytest.mark.parametrize("name", ["approvals", "audit", "logs"])
def test_a_folder_without_runs_has_nothing_to_list(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(name, ["--json"]) == 0
    assert json.loads(capsys.readouterr().out) in ([], {"runs": []})


@pytest.mark.parametrize("name", GROUPS)
def test_help_of_a_group_still_lists_all_subcommands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(name, ["--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: fabric {name} [OPTIONS] COMMAND" in shown
    assert all(f"  {each}" in shown for each in subcommands(name))


def test_an_unknown_subcommand_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke("models", ["lst"]) == 2
    assert "lst" in capsys.readouterr().err


def test_a_server_named_before_the_group_reaches_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke("token", [], "http://127.0.0.1:1") == 2
    assert "`fabric token show` works on this machine only" in capsys.readouterr().err


def test_arguments_that_name_a_subcommand_stay() -> None:
    assert with_subcommand({"list"}, ["pull", "fast"]) == ["pull", "fast"]
    assert with_subcommand({"list", "show"}, ["--json"]) == ["list", "--json"]
    assert with_subcommand({}, ["--json"]) == ["--json"]
