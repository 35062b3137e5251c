"""The floor for the evaluation: the same tasks in the plainest loop that works, with nothing of agent-fabric in it.

Constrained decoding, a short system prompt with three examples, tools in the server's own format; an exact repeat of
the last call forces the finish.

    cd benchmarks; python -m tool_tasks.plain_loop --base-url http://127.0.0.1:8080/v1
"""

import argparse
import json
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tool_tasks.sets import SETS
from tool_tasks.table import Outcome, chosen, show
from tool_tasks.tasks import ToolTask

MAX_STEPS = 10
SYSTEM = """\
You do tasks in a folder with tools. Make one tool call at a time, look at its result, then go on.
When everything is done, call finish_task.

Task: Create a.txt with the lines one and two.
{"name": "write_file", "arguments": {"path": "a.txt", "content": "one\\ntwo\\n"}}

Task: Delete b.txt.
{"name": "shell", "arguments": {"command": "rm b.txt"}}

The task is done:
{"name": "finish_task", "arguments": {"summary": "Deleted b.txt."}}
"""


def _tool(name: str, description: str, **properties: int) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "maxLength": longest} for key, longest in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    _tool("shell", "Run a bash command in the folder.", command=1000),
    _tool("read_file", "Read a text file.", path=200),
    _tool("write_file", "Create a file or replace its content.", path=200, content=4000),
    _tool("list_files", "List the files in the folder."),
    _tool("finish_task", "Call this when the whole task is done.", summary=400),
]


def schema_of(only: str | None) -> dict[str, Any]:
    """Return the schema of one call."""
    functions = [tool["function"] for tool in TOOLS]
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {"name": {"const": each["name"]}, "arguments": each["parameters"]},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for each in functions
            if only in {None, each["name"]}
        ]
    }


def ask(base_url: str, messages: list[dict[str, Any]], only: str | None) -> dict[str, Any]:
    """Return the server's answer."""
    body = {
        "messages": messages,
        "tools": TOOLS,
        "temperature": 0,
        "max_tokens": 600,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "call", "schema": schema_of(only), "strict": True},
        },
    }
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def run_tool(name: str, arguments: dict[str, str], folder: Path) -> str:
    """Do what was asked and return what the model reads."""
    try:
        if name == "shell":
            ran = subprocess.run(
                ["bash", "-c", arguments["command"]],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            return json.dumps({"exit_code": ran.returncode, "stdout": ran.stdout[:2000], "stderr": ran.stderr[-1000:]})
        if name == "list_files":
            return json.dumps(sorted(str(path.relative_to(folder)) for path in folder.rglob("*")))
        path = folder / arguments["path"]
        if name == "read_file":
            return path.read_text()[:4000]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(arguments["content"])
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        return f"error: {problem}"
    return "written"


def do(task: ToolTask, base_url: str, *, verbose: bool) -> Outcome:
    """Do one task."""
    outcome = Outcome(task.name)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task.lay_out(folder)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": task.prompt},
        ]
        last, only = None, None
        while outcome.steps < MAX_STEPS:
            answer = ask(base_url, messages, only)
            outcome.count(answer["usage"])
            text = answer["choices"][0]["message"]["content"]
            try:
                call = json.loads(text)
            except ValueError:
                break  # cut off by max_tokens
            if verbose:
                print("   ", text)
            if call["name"] == "finish_task":
                break
            result = run_tool(call["name"], call["arguments"], folder)
            if verbose:
                print("      ", result[:300])
            only = "finish_task" if call == last else None
            last = call
            call_id = f"call{outcome.steps}"
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            messages += [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": call_id, "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": call_id, "content": result},
            ]
        outcome.ok = task.done_in(folder)
    outcome.seconds = time.monotonic() - started
    return outcome


def main() -> None:
    """Run the tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--set", choices=list(SETS), default="everyday", help="which tasks")
    parser.add_argument("--only", default="", help="names of tasks, with commas")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    outcomes = []
    for task in chosen(SETS[arguments.set], arguments.only):
        outcomes.append(do(task, arguments.base_url, verbose=arguments.verbose))
        if not arguments.json:
            show(outcomes[-1:])
    show(outcomes, as_json=arguments.json, whole=True)


if __name__ == "__main__":
    main()
