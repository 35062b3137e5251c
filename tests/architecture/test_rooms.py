"""Every floor has the same rooms: a capability has one name, wherever it is looked for."""

import pytest

from architecture.test_layers import SOURCE


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


ROOMS = words("""
    agents approvals audit automation channels chat cluster evals evidence fleet identity memory models node
    observability packs policy runs sandbox secrets tools workflows
""")
"""The capabilities."""

FLOORS = {
    "domain": (words("definitions"), words("deserialize errors events ids plural")),
    "application": (words("ports"), words("")),
    "infrastructure": (
        words("backup definitions persistence web"),
        words("""
            atomic_files clock installation json_codec long_text machine own_path private_files threads tree_walk
        """),
    ),
    "infrastructure/persistence": (
        words("migrations postgres"),
        words("""
            database dialects group_commits open_postgres row_batches schema sql storage store
            text_search vector_search writer
        """),
    ),
    "interfaces": (words("cli http mcp views web"), words("")),
    "interfaces/http": (
        words("a2a openai page"),
        words("""
            access_log addresses answers app bodies connection errors gate idempotency inside limiting locks names
            openapi outcomes plain_route reading_page schemas server sse views
        """),
    ),
    "interfaces/cli": (
        words("server store"),
        words("""
            completion completion_values config doctor durations exports invocation light_parameters main notices
            options output pager place place_local place_remote schema stopping
        """),
    ),
}
"""What else each floor has: folders that are no capability, and files that belong to all rooms."""


@pytest.mark.proves("RM-1")
@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_has_nothing_but_rooms_and_a_handful_that_belongs_to_all(floor: str) -> None:
    folders, files = FLOORS[floor]
    there = [path for path in (SOURCE / floor).iterdir() if path.name not in {"__pycache__", "__init__.py"}]
    assert {path.name for path in there if path.is_dir()} - ROOMS == folders
    assert {path.stem for path in there if path.is_file()} == files
