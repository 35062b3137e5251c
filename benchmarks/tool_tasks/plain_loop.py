"""The floor for the evaluation: the same tasks in the plainest loop that works, with nothing of agent-fabric in it.

Constrained decoding, a short system prompt with three examples, tools in the server's own format; an exact repeat of
the last call forces the finish. Only the cases are read with agent-fabric's own reader, so that they are the same.

    python benchmarks/tool_tasks/plain_loop.py everyday --base-url http://127.0.0.1:8080/v1
"""

import argparse
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_fabric.domain.evals.definition import CaseFile, EvalCase
from agent_fabric.domain.evals.intervals import Tally, share_right
from agent_fabric.infrastructure.evals.eval_files import read_eval

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


@dataclass(slots=True)
class Outcome:
    """What came of one task."""

    task: str
    ok: bool = False
    steps: int = 0
    """Answers of the model."""
    seconds: float = 0.0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Of the prompt tokens, those that the server had kept from before."""
    completion_tokens: int = 0

    def count(self, usage: Mapping[str, Any]) -> None:
        """Add what one answer took, as an OpenAI-compatible server reports it."""
        self.steps += 1
        self.prompt_tokens += usage["prompt_tokens"]
        self.completion_tokens += usage["completion_tokens"]
        self.reused_tokens += (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


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


def ask(base_url: str, messages: list[dict[str, Any]], only: str | None, api_key: str = "") -> dict[str, Any]:
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
        f"{base_url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {api_key}"},
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


def do(case: EvalCase, base_url: str, *, check_timeout_s: float, verbose: bool) -> Outcome:
    """Do one task."""
    outcome = Outcome(case.case_id)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _lay(case.files, folder)
        _loop(case.prompt, folder, base_url, outcome, verbose=verbose)
        outcome.seconds = time.monotonic() - started
        _lay(case.check_files, folder)
        outcome.ok = _is_right(case.check, folder, check_timeout_s)
    return outcome


def _lay(files: Mapping[str, CaseFile], folder: Path) -> None:
    for path, file in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(file.data)


def _loop(prompt: str, folder: Path, base_url: str, outcome: Outcome, *, verbose: bool) -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
    last, only = None, None
    while outcome.steps < MAX_STEPS:
        answer = ask(base_url, messages, only)
        outcome.count(answer["usage"])
        text = answer["choices"][0]["message"]["content"]
        try:
            call = json.loads(text)
        except ValueError:
            return  # cut off by max_tokens
        if verbose:
            print("   ", text)
        if call["name"] == "finish_task":
            return
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


def _is_right(check: str, folder: Path, timeout_s: float) -> bool:
    try:
        ran = subprocess.run(["bash", "-c", check], cwd=folder, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return False
    return ran.returncode == 0


def show(outcomes: Sequence[Outcome]) -> None:
    """Print the sums."""
    right = sum(each.ok for each in outcomes)
    share = share_right([Tally(int(each.ok), 1) for each in outcomes])
    assert share is not None
    print(
        f"{right} of {len(outcomes)} right ({100 * share.low:.0f} to {100 * share.high:.0f} %), "
        f"{sum(each.steps for each in outcomes)} answers, {sum(each.seconds for each in outcomes):.0f} s, "
        f"tokens in {sum(each.prompt_tokens for each in outcomes)}, "
        f"reused {sum(each.reused_tokens for each in outcomes)}, "
        f"out {sum(each.completion_tokens for each in outcomes)}"
    )


def main() -> None:
    """Run the tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", help="everyday, hard, heldout, or the path of an eval file")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--case", action="append", default=[], help="only this one; can be repeated")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    named = Path(__file__).parent / f"{arguments.set}.yaml"
    definition = read_eval(named if named.exists() else Path(arguments.set))
    outcomes = []
    for case in definition.cases:
        if arguments.case and case.case_id not in arguments.case:
            continue
        outcomes.append(
            do(case, arguments.base_url, check_timeout_s=definition.check_timeout_s, verbose=arguments.verbose)
        )
        if not arguments.json:
            each = outcomes[-1]
            print(
                f"{'right' if each.ok else 'wrong'}  {each.task}, {each.seconds:.1f} s, {each.steps} answers",
                flush=True,
            )
    if arguments.json:
        print(json.dumps([asdict(each) for each in outcomes], indent=1))
    else:
        show(outcomes)


if __name__ == "__main__":
    main()
