"""The reference pages say what the code does."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import apsw
import pytest

from agent_fabric.bootstrap.server import build_server
from agent_fabric.config.loader import read_config
from agent_fabric.config.variable_names import RESERVED
from agent_fabric.domain import events
from agent_fabric.interfaces.cli.main import (
    COMPLETED,
    FAILED,
    INTERRUPTED,
    NOT_PROVEN,
    REFUSED,
    SERIOUS,
    USAGE,
    WAITING,
)
from agent_fabric.interfaces.http.connection import HEAD_BYTES, Connection
from agent_fabric.interfaces.http.errors import CODES
from agent_fabric.interfaces.http.gate import ANONYMOUS_BODY_TIMEOUT_S
from reference_pages import PAGES, TABLES, cli_commands, served_routes, with_table


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def first_column(text: str) -> list[str]:
    """Return what stands in backquotes in the first cell of each row of a table."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.proves("FC-072")
@pytest.mark.parametrize(("name", "table"), list(TABLES))
def test_a_generated_table_is_as_the_code_has_it(name: str, table: str) -> None:
    written = page(name)
    assert written == with_table(written, table, TABLES[name, table]()), "run: python tests/reference_pages.py"


def test_every_route_in_the_hand_written_parts_exists() -> None:
    known = {(method, route.path) for route in served_routes() for method in route.methods.split(", ")}
    named = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`?]*)[^`]*`", page("http.md"))
    assert len(named) > 30
    assert {(method, path.replace("/ID", "/APPROVAL_ID")) for method, path in named} <= known | {
        ("DELETE", "/api/v1/keys/APPROVAL_ID")
    }


def test_every_status_that_the_server_answers_with_of_itself_is_listed_with_its_code() -> None:
    listed = dict(re.findall(r"^\| (\d{3}) \| (.*) \|$", page("http.md"), re.MULTILINE))
    for status, code in CODES.items():
        assert f"`{code}`" in listed[str(status)]
    assert f"{HEAD_BYTES:,} bytes" in listed["431"]
    assert f"{Connection.head_s:g} seconds" in listed["408"]
    assert f"{ANONYMOUS_BODY_TIMEOUT_S:g} seconds" in listed["408"]


def test_every_command_and_option_in_the_hand_written_parts_exists() -> None:
    commands = {each.words: each.parameters for each in cli_commands()}
    groups = {words.rpartition(" ")[0] for words in commands}
    options = {option for each in commands.values() for parameter in each for option in parameter.split("/")}
    text = page("cli.md")
    for heading in re.findall(r"^##+ `(fabric [^`]+)`", text, re.MULTILINE):
        words = " ".join(re.findall(r"\b[a-z]+\b", heading.partition(" [")[0].partition(" NAME")[0]))
        assert any(known == words or words.startswith(f"{known} ") for known in {*commands, *groups}), heading
    top = {"--version", "--help", "--install-completion", "--show-completion", "--server"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= options | top | {"--noindex"}


EVENT_KINDS = {body.kind: body for body in get_args(events.Body) if body is not events.UnknownEvent}


def test_every_kind_of_event_has_its_section() -> None:
    assert re.findall(r"^### `(\w+)`", page("events.md"), re.MULTILINE) != []
    assert set(re.findall(r"^### `(\w+)`", page("events.md"), re.MULTILINE)) == set(EVENT_KINDS)


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS))
def test_the_section_of_a_kind_lists_exactly_its_fields(kind: str) -> None:
    section = page("events.md").partition(f"### `{kind}`\n")[2]
    section = re.split(r"^##", section, maxsplit=1, flags=re.MULTILINE)[0]
    table = section.partition("| field | holds |")[2].partition("\n\n")[0]
    assert set(first_column(table)) == {each.name for each in fields(EVENT_KINDS[kind])}


def test_exit_codes_are_listed() -> None:
    codes = {str(code) for code in (COMPLETED, FAILED, USAGE, WAITING, REFUSED, SERIOUS, NOT_PROVEN, INTERRUPTED)}
    for name in ("cli.md", "outcomes.md"):
        table = re.split(r"\| (?:code|Exit code) \| ", page(name))[1 if name == "outcomes.md" else -1]
        rows = re.findall(r"^\| `?(\d+)`? \|", table.partition("\n\n")[0], re.MULTILINE)
        assert set(rows) == codes, name


def test_variables_that_are_no_settings_are_listed() -> None:
    inside_runs = {"FABRIC_RUN_ID", "FABRIC_COMMAND_ID", "FABRIC_DOMAIN", "FABRIC_SKIP_REAL_LLM"}
    environment = page("cli.md").partition("## Environment")[2]
    assert set(re.findall(r"FABRIC_[A-Z_]+", environment)) >= RESERVED - inside_runs


async def test_every_file_and_table_of_a_fabric_folder_is_listed(tmp_path: Path) -> None:
    root = tmp_path / ".fabric"
    fabric = build_server(root, read_config({}))
    fabric.record_address("http://127.0.0.1:1")
    written = page("layout.md")
    tree = written.partition("```\n.fabric/")[2].partition("```")[0]
    listed = set(re.findall(r"^    ([\w.-]+)", tree, re.MULTILINE))
    try:
        assert {path.name for path in root.iterdir()} <= listed
    finally:
        await fabric.aclose()
    names = {
        name
        for (name,) in apsw.Connection(str(root / "fabric.db")).execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        )
    }
    names = {name for name in names if not re.search(r"_(data|idx|content|docsize|config)$", name)}
    tables = written.partition("## The store")[2].partition("\n## ")[0]
    assert set(first_column(tables)) == names
