"""Plans: what a run that only makes one is told, how it ends, and how a plan reads."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import FINISH_TASK, LOOKS_UP, Effect, ToolSpec, object_schema

_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
PLAN_FINISH: Final = FinishSpec(
    description="Call this when the plan is complete. Its arguments are the plan.",
    parameters=object_schema(
        {
            "summary": {"type": "string", "description": "What the plan achieves, in one or two sentences"},
            "plan": {
                "type": "array",
                "minItems": 1,
                "items": object_schema(
                    {
                        "step": {"type": "string", "description": "What to do"},
                        "files": {**_TEXTS, "description": "Files that the step changes"},
                        "commands": {**_TEXTS, "description": "Commands that it runs"},
                    },
                    ["step"],
                ),
            },
            "questions": {**_TEXTS, "description": "What the person has to decide first"},
        },
        ["summary", "plan"],
    ),
)
"""How a run ends that only makes a plan."""

HOW_TO_PLAN: Final = (
    "You make a plan and carry out none of it. Read what you need; whatever changes something is refused. End with "
    f"{FINISH_TASK}: steps in their order, the files that each changes, the commands that it runs, and what is still "
    "to be decided."
)
"""Follows the prompt of a pack."""
HOW_TO_PLAN_ALOUD: Final = (
    "You make a plan and carry out none of it. Read what you need; whatever changes something is refused. "
    "Answer with the plan: numbered steps, the files that each changes, the commands that it runs, and what is still "
    "to be decided."
)
"""The same in a turn of a session."""


def offered_for_plan(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools that are of use for a plan: those that read, and commands, some of which only read."""
    return tuple(
        each for each in tools if each.effect is Effect.READS or each.command_argument or each.name in LOOKS_UP
    )


def plan_text(payload: Mapping[str, Any]) -> str:
    """Return the plan in a result as numbered steps; empty, if there is none."""
    steps = payload.get("plan")
    if not isinstance(steps, list) or not all(isinstance(each, dict) and "step" in each for each in steps):
        return ""
    lines: list[str] = []
    for number, each in enumerate(steps, start=1):
        lines.append(f"{number}. {each['step']}")
        lines += [f"   - file: {name}" for name in _texts(each.get("files"))]
        lines += [f"   - command: `{line}`" for line in _texts(each.get("commands"))]
    questions = [f"- {each}" for each in _texts(payload.get("questions"))]
    return "\n".join([*lines, *(["", "To be decided:", *questions] if questions else [])])


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
