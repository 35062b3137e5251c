"""The pack: what the model is told, what it can use, and what a finished task looks like."""

from agent_fabric.extend import BaseSpecialistPack, Sandbox, file_tools, make_finish_tool_def

from csv_analyst.tools import profile_csv, total_by

PROMPT = """\
You answer questions about tables. You never calculate in your head.

1. Data that stands in the task: save it with write_file, as CSV, exactly as it was given.
2. Look at every file with profile_csv before you use it. Say so if values are missing.
3. Calculate with total_by.
4. Call finish_task. Every figure in your answer must stand in a tool's result.
"""

FINISH = make_finish_tool_def(
    {
        "summary": {"type": "string", "description": "The answer, in a few sentences."},
        "figures": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "value": {"type": "number"}},
                "required": ["name", "value"],
            },
            "description": "The figures that the answer rests on.",
        },
    }
)


def build(workspace_path: str, network_allowed: bool, *, sandbox: Sandbox) -> BaseSpecialistPack:
    """Build the pack for one run; its tools reach what the sandbox lets them, so the path is not needed."""
    return BaseSpecialistPack(
        system_prompt=PROMPT,
        tools=(*file_tools(sandbox), profile_csv.within(sandbox), total_by.within(sandbox)),
        finish=FINISH,
    )
