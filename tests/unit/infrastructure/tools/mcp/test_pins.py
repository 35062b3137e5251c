"""What is remembered about servers."""

import threading
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.mcp import PinState
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.errors import ToolServerUnavailable
from agent_fabric.infrastructure.tools.mcp.pins import Pins, ProjectServers, content_hash
from agent_fabric.infrastructure.tools.mcp.tool_conversion import ListedTool


def server(**settings: Any) -> MCPServerConfig:
    return MCPServerConfig.model_validate({"name": "docs", "command": ["docs"], **settings})


def tool(name: str, description: str = "Does it.") -> ListedTool:
    return ListedTool(name=name, description=description, schema={"type": "object"})


def pins_file(folder: Path) -> Path:
    return next((folder / "pins").glob("docs-*.json"))


def test_the_first_use_pins_and_a_later_change_is_noticed(tmp_path: Path) -> None:
    first = Pins(tmp_path).check(server(), [tool("a"), tool("b")])
    assert first.first_use
    later = Pins(tmp_path).check(server(), [tool("a"), tool("b", "Does more."), tool("c")])
    assert later.states == {"a": PinState.PINNED, "b": PinState.CHANGED, "c": PinState.NEW}
    again = Pins(tmp_path).check(server(), [tool("b")])
    assert again.gone == ("a",)
    assert again.states["b"] is PinState.PINNED, "what was not trusted has pinned nothing"


def test_another_program_under_the_same_name_is_another_server(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    pins.check(server(), [tool("a")])
    assert pins.check(server(command=["other"]), [tool("a", "Evil.")]).first_use
    assert not pins.check(server(idle_s=1.0), [tool("a")]).first_use


def test_only_its_owner_can_read_what_is_remembered(tmp_path: Path) -> None:
    Pins(tmp_path / "mcp").check(server(), [tool("a")])
    assert pins_file(tmp_path / "mcp").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": ' * 2000, "\x00"])
def test_pins_that_cannot_be_read_trust_nothing(tmp_path: Path, text: str) -> None:
    Pins(tmp_path).check(server(), [tool("a")])
    pins_file(tmp_path).write_text(text)
    with pytest.raises(ToolServerUnavailable, match=r"pins/docs-.*\.json"):
        Pins(tmp_path).check(server(), [tool("a")])
    assert Pins(tmp_path).check(server(command=["other"]), [tool("a")]).first_use, "other servers do not suffer"


@pytest.mark.parametrize("text", ['{"tools": []}', '{"tools": {"a": 1}}', '{"x": 1}'])
def test_pins_that_are_not_what_we_wrote_trust_nothing(tmp_path: Path, text: str) -> None:
    Pins(tmp_path).check(server(), [tool("a")])
    pins_file(tmp_path).write_text(text)
    assert Pins(tmp_path).check(server(), [tool("a")]).states == {"a": PinState.NEW}


def test_a_change_beyond_what_is_shown_is_told_all_the_same(tmp_path: Path) -> None:
    pins, long = Pins(tmp_path), "x" * 100_000
    pins.check(server(), [tool("a", long)])
    assert pins_file(tmp_path).stat().st_size < 50_000
    assert pins.differences(server(), [tool("a", long)]) == []
    assert "too long" in pins.differences(server(), [tool("a", long + "y")])[0]


def test_many_at_once_pin_each_server_once(tmp_path: Path) -> None:
    seen: list[bool] = []

    def check(number: int) -> None:
        seen.append(Pins(tmp_path).check(server(command=[f"docs{number % 4}"]), [tool("a")]).first_use)

    threads = [threading.Thread(target=check, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(seen) == 4


def test_a_server_of_a_project_needs_a_person_once_for_each_content(tmp_path: Path) -> None:
    ours, theirs = server(), server(command=["theirs"])
    changed = server(command=["theirs", "--more"])
    asked = {content_hash(each): "/project/.fabric/config.yaml" for each in (theirs, changed)}
    projects = ProjectServers(tmp_path, asked)
    projects.require_agreed(ours)
    with pytest.raises(ToolServerUnavailable, match=r"/project/\.fabric/config\.yaml") as caught:
        projects.require_agreed(theirs)
    assert "fabric mcp trust docs" in caught.value.hint
    projects.agree(theirs)
    ProjectServers(tmp_path, asked).require_agreed(theirs)
    with pytest.raises(ToolServerUnavailable):
        projects.require_agreed(changed)
    elsewhere = ProjectServers(tmp_path, {content_hash(theirs): "/another/.fabric/config.yaml"})
    assert not elsewhere.agreed(theirs), "another project must ask again"
