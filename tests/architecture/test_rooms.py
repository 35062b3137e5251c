"""Every floor has the same rooms: a capability has one name, wherever it is looked for."""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import grimp
import pytest

from architecture.test_layers import ROOT, SOURCE


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def table(heading: str) -> list[list[str]]:
    """Return the cells of a table in CONTRIBUTING.md, without the words around what is quoted."""
    rows = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition(f"| {heading} |")[2].splitlines()[2:]
    return [row.strip("| ").split(" | ") for row in takewhile(lambda row: row.startswith("|"), rows)]


ORDER = [row[0].strip("`") for row in table("room")]
"""The capabilities; each may use those after it."""
ROOMS = frozenset(ORDER)

FLOORS = {
    "domain": (words("definitions"), words("dataclass deserialize errors events ids plural")),
    "application": (words("ports"), words("attempts time_limit")),
    "infrastructure": (
        words("backup definitions persistence web"),
        words("""
            atomic_files clock installation machine own_path private_files threads tree_walk
        """),
    ),
    "infrastructure/persistence": (
        words("migrations postgres"),
        words("""
            database dialects group_commits schema sql storage store
            table text_search vector_search
        """),
    ),
    "bootstrap": (
        words(""),
        words("""
            agents automation channels chat fleet identity local memory models node observability records runs server
            this_machine worker workflows
        """),
    ),
    "interfaces": (words("acp cli http mcp views web"), words("")),
    "interfaces/http": (
        words("a2a openai page"),
        words("""
            access_log addresses answers app bodies connection errors gate idempotency inside limiting locks names
            openapi routing reading_page schemas server sse views
        """),
    ),
    "interfaces/cli": (
        words("server store"),
        words("""
            completion completion_table completion_values config doctor durations invocation main notices
            options output pager place place_local place_remote schema stopping
        """),
    ),
}
"""What else each floor has: folders that are no capability, and files that belong to all rooms."""


COLUMNS = {
    "domain": "domain",
    "application": "application",
    "ports": "application/ports",
    "infrastructure": "infrastructure",
    "SQL": "infrastructure/persistence",
    "routes": "interfaces/http",
    "commands": "interfaces/cli",
    "settings": "config/schema",
}


def rooms_table() -> str:
    """Return the floors and which rooms each of them has, for `docs/reference/layout.md`."""
    rows = [
        f"| `{room}` | {' | '.join(_mark(SOURCE / floor / room) for floor in COLUMNS.values())} |"
        for room in sorted(ROOMS)
    ]
    places = " | ".join(f"`{floor}/`" for floor in COLUMNS.values())
    head = f"| | {' | '.join(COLUMNS)} |", "|---|" + ":-:|" * len(COLUMNS), f"| | {places} |"
    return "\n".join([*head, *rows])


def _mark(place: Path) -> str:
    return "●" if place.is_dir() else "○" if place.with_suffix(".py").is_file() else ""


@pytest.mark.proves("RM-2")
def test_the_layout_page_shows_the_floors_and_their_rooms() -> None:
    page = (ROOT / "docs/reference/layout.md").read_text(encoding="utf-8")
    assert f"<!-- generated: rooms -->\n{rooms_table()}\n<!-- end -->" in page, "run: python tests/reference_pages.py"


@pytest.mark.proves("RM-1")
@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_has_nothing_but_rooms_and_a_handful_that_belongs_to_all(floor: str) -> None:
    folders, files = FLOORS[floor]
    there = [path for path in (SOURCE / floor).iterdir() if path.name not in {"__pycache__", "__init__.py"}]
    assert {path.name for path in there if path.is_dir()} - ROOMS == folders
    assert {path.stem for path in there if path.is_file()} == files


class Import(NamedTuple):
    """A module of a room uses a module of another room of its floor."""

    importer: str
    imported: str
    upwards: bool


def imports_between_rooms() -> Iterator[Import]:
    """Yield the imports that cross from a room to another one of the same floor."""
    graph = grimp.build_graph("agent_fabric", cache_dir=None, exclude_type_checking_imports=True)
    for importer in graph.modules:
        floor, room = place(importer)
        for imported in graph.find_modules_directly_imported_by(importer) if room else ():
            other_floor, other = place(imported)
            if other and floor == other_floor and room != other:
                yield Import(path_of(importer), path_of(imported), ORDER.index(other) < ORDER.index(room))


def path_of(module: str) -> str:
    """Return a module as the table writes it."""
    return module.removeprefix("agent_fabric.").replace(".", "/")


def place(module: str) -> tuple[str, str]:
    """Return the floor and the room of a module; the events of the domain are the log of a run."""
    path = path_of(module)
    if path == "domain/events":
        return "domain", "runs"
    floor = max((floor for floor in FLOORS if path.startswith(f"{floor}/")), key=len, default="")
    room = path.removeprefix(f"{floor}/").partition("/")[0]
    return floor, room if room in ROOMS else ""


def is_within(path: str, places: str) -> bool:
    """Return whether a module is one of those that a cell of the table quotes, or lies below one."""
    return any(path == each or path.startswith(f"{each}/") for each in re.findall(r"`([^`]+)`", places))


@pytest.mark.proves("RM-2")
def test_a_room_uses_only_rooms_below_it() -> None:
    exceptions = table("exception")
    upwards = [each for each in imports_between_rooms() if each.upwards]
    needed = {
        each: [row for row in exceptions if is_within(each.importer, row[0]) and is_within(each.imported, row[1])]
        for each in upwards
    }
    assert [f"{each.importer} uses {each.imported}" for each in upwards if not needed[each]] == []
    used = [row for rows in needed.values() for row in rows]
    assert [row for row in exceptions if row not in used] == [], "no longer needed: take them out of CONTRIBUTING.md"
