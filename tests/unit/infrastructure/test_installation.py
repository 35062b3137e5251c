"""A hint to install something names the command for how agent-fabric was installed."""

from pathlib import Path

import pytest

from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.installation import Installation, fit_install_hints, this_installation
from agent_fabric.interfaces.cli.output import print_error

pytestmark = pytest.mark.proves("DU-6")


def installed(
    prefix: Path, *, checkout: Path | None = None, has_pip: bool = True, is_active: bool = False
) -> Installation:
    return Installation(prefix, prefix / "bin/python", checkout, has_pip, is_active)


def test_an_active_environment_uses_its_pip(tmp_path: Path) -> None:
    assert installed(tmp_path, is_active=True).command("mcp") == 'pip install "agent-fabric[mcp]"'


def test_an_environment_that_is_not_active_is_named(tmp_path: Path) -> None:
    python = tmp_path / "bin/python"
    assert installed(tmp_path).command("mcp") == f'{python} -m pip install "agent-fabric[mcp]"'
    assert installed(tmp_path, has_pip=False).command("mcp", upgrade=True) == (
        f'uv pip install --python {python} --upgrade "agent-fabric[mcp]"'
    )


def test_a_checkout_is_installed_from_its_folder(tmp_path: Path) -> None:
    found = installed(tmp_path, checkout=Path("/src/fabric"), is_active=True)
    assert found.command("search") == 'pip install -e "/src/fabric[search]"'


def test_pipx_installs_into_its_own_environment(tmp_path: Path) -> None:
    (tmp_path / "pipx_metadata.json").write_text("{}")
    assert installed(tmp_path).command("mcp") == 'pipx runpip agent-fabric install "agent-fabric[mcp]"'


def test_uv_tool_keeps_the_parts_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "agent-fabric", extras = ["search"] }, { name = "x" }]\n'
    )
    assert installed(tmp_path).command("mcp") == 'uv tool install "agent-fabric[mcp,search]"'
    (tmp_path / "uv-receipt.toml").write_text("tool = 3")
    assert installed(tmp_path).command("mcp") == 'uv tool install "agent-fabric[mcp]"'


def test_an_error_shows_the_command_for_this_installation(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(MissingExtra("mcp", needed_for="MCP"), as_json=False)
    assert f"Install it with: {this_installation().command('mcp')}\n" in capsys.readouterr().err
    assert fit_install_hints("Run: fabric models pull") == "Run: fabric models pull"
