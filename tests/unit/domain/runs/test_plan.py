"""How a plan reads."""

from agent_fabric.domain.runs.answer import answer_in
from agent_fabric.domain.runs.plan import plan_text


def test_a_plan_is_numbered_steps_with_files_commands_and_questions() -> None:
    plan = [{"step": "Rename it", "files": ["a.py"], "commands": ["pytest -q"]}, {"step": "Say so"}]
    assert answer_in({"summary": "A new name.", "plan": plan, "questions": ["Which one?"]}) == (
        "A new name.\n\n1. Rename it\n   - file: a.py\n   - command: `pytest -q`\n2. Say so\n"
        "\nTo be decided:\n- Which one?"
    )


def test_what_is_no_plan_is_left_alone() -> None:
    wrong: tuple[object, ...] = (None, "x", [1], [{}], [])
    for plan in wrong:
        assert plan_text({"plan": plan}) == ""
