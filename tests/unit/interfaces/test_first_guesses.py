"""What people type at their first guess works, or says what to type."""

from pathlib import Path

import pytest

from agent_fabric import __version__
from agent_fabric.config.loader import load_config
from agent_fabric.interfaces.cli.main import main


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FABRIC_URL", raising=False)
    load_config.cache_clear()


def typed(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.proves("DB-10")
@pytest.mark.parametrize("words", [("Write hello.py",), ("Write", "hello.py")])
def test_a_task_without_a_command_offers_run(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(*words) == 2
    assert 'fabric run "Write hello.py"' in capsys.readouterr().err


def test_a_task_that_a_shell_would_change_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("Print $HOME") == 2
    assert "fabric run 'Print $HOME'" in capsys.readouterr().err


def test_a_typing_mistake_still_offers_the_command_that_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("modles", "list") == 2
    assert "Did you mean `fabric models`?" in capsys.readouterr().err


@pytest.mark.proves("DB-10")
@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (("help", "run"), "Usage: fabric run "),
        (("help", "logs", "show"), "Usage: fabric logs show "),
        (("run", "-h"), "Usage: fabric run "),
        (("nodes", "-h"), "Usage: fabric nodes [OPTIONS] COMMAND"),
        (("nodes", "list", "-h"), "Usage: fabric nodes list "),
        (("--server", "http://127.0.0.1:1", "logs", "--help"), "Usage: fabric logs [OPTIONS] COMMAND"),
        (("-h",), "Usage: fabric [--server URL] COMMAND"),
        (("help",), "Usage: fabric [--server URL] COMMAND"),
    ],
)
def test_help_is_shown(arguments: tuple[str, ...], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(*arguments) == 0
    assert capsys.readouterr().out.startswith(usage)


def test_help_of_a_command_that_is_none_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("help", "nodse") == 2
    assert "Did you mean `fabric node" in capsys.readouterr().err


def test_an_option_of_a_machines_command_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("--server", "http://127.0.0.1:1", "nodes", "exec", "db1", "df", "-h") == 1
    assert "Usage" not in capsys.readouterr().out, "it was sent, and no server answers"


@pytest.mark.proves("DB-10")
@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_version_is_shown(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(word) == 0
    assert capsys.readouterr().out == f"agent-fabric {__version__}\n"


@pytest.mark.proves("DB-10")
def test_the_configuration_alone_is_a_page_of_what_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("config") == 0
    untouched = capsys.readouterr().out
    assert untouched.startswith("Every setting has its default.")
    file = tmp_path / "config/agent-fabric/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[budget]\nmax_steps = 7\n")
    monkeypatch.setenv("FABRIC_OFFLINE", "true")
    load_config.cache_clear()
    assert typed("config") == 0
    shown = capsys.readouterr().out
    assert f"budget.max_steps = 7  [file {file}]" in shown
    assert "offline = true  [env FABRIC_OFFLINE]" in shown
    assert f"your own file: {file}" in shown
    assert len(shown.splitlines()) < 10
    assert typed("config", "status", "--json") == 0
    assert '"budget.max_steps"' in capsys.readouterr().out
