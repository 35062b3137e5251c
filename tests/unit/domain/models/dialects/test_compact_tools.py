from agent_fabric.domain.models.dialects.compact_tools import compact
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import Effect, ToolSpec

TEXTS = {"type": "array", "items": {"type": "string"}}
CITATION = {"type": "object", "properties": {"url": {"type": "string", "description": "A page"}}, "required": ["url"]}


def test_only_the_first_sentence_of_a_description_stays() -> None:
    tool = ToolSpec(
        name="fetch",
        description="Read e.g. a page. It may take\nlong.",
        parameters={"type": "object"},
        effect=Effect.READS,
    )
    assert compact((tool,))[0].description in {"Read e.g. a page.", "Read e.g."}


def test_what_a_name_says_is_not_said_again() -> None:
    tool = ToolSpec(
        name="fetch",
        description="Read a page.",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path in the workspace", "title": "Path"},
                "offset": {"type": "integer", "description": "Where to go on. Given by the last call.", "default": 0},
            },
            "required": ["path"],
        },
        effect=Effect.READS,
    )
    assert compact((tool,))[0].parameters == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "offset": {"type": "integer", "description": "Where to go on."}},
        "required": ["path"],
    }


def test_a_finish_asks_for_what_it_must_have_and_for_evidence() -> None:
    finish = FinishSpec(
        parameters={
            "type": "object",
            "properties": {
                "summary": {"type": "string"},
                "artifacts": TEXTS,
                "notes": {"type": "string"},
                "citations": {"type": "array", "items": CITATION},
            },
            "required": ["summary"],
        }
    ).as_tool()
    assert list(compact((finish,))[0].parameters["properties"]) == ["summary", "citations"]


def test_names_and_effects_stay() -> None:
    tool = ToolSpec(name="a", description="", parameters={"type": "object"}, effect=Effect.LEAVES_SANDBOX, timeout_s=7)
    assert compact((tool,)) == (tool,)
