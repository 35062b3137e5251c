"""Files that a small model writes in two answers: which file, then its text and nothing else.

Measured: in the middle of a long conversation about tools, with the text as JSON, a model of 1.5 billion weights gets
half of the small files right that it gets right when it is shown the files and asked for one of them.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.dialects.call_text import FENCE, as_text
from agent_fabric.domain.models.dialects.observations import failure_told, result_object
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.domain.tools.program_files import can_be_run
from agent_fabric.domain.tools.specs import BadArguments, arguments_from

BEGIN_FILE = "write"
"""The tool that names a file; its text is the next answer."""
WRITE_FILE = "write_file"
"""The tool that the text is written with."""
BEGINS_FILE = "begins_file"
"""Key of the result of `write`: the path."""
FILES = "files"
"""Key of the result of `write`: the files that a model should see, by path."""
MAX_PRINTED = 600
"""Characters of what a command printed, as the model is reminded of it."""
MAX_TRIES = 3
"""Times that the text of a file is asked for without the model's own wish."""


def begun_file(messages: Sequence[Message]) -> str:
    """Return the path of the file whose text is to be asked for next; empty: none."""
    if not messages or BEGINS_FILE not in messages[-1].content:
        return ""  # as nearly always
    return _begun_path(messages, len(messages) - 1)


def tries_of(messages: Sequence[Message], path: str) -> int:
    """Count how often a file was begun."""
    return sum(_begun_path(messages, at) == path for at in range(len(messages)))


def request_for_text(messages: Sequence[Message], task: str) -> list[Message]:
    """Return the one message that asks for the text of the file begun last: the files, the task, the file wanted."""
    path = begun_file(messages)
    shown = result_object(messages[-1].content).get(FILES)
    files = shown if isinstance(shown, dict) else {}
    parts = [f"{name}:\n{FENCE}\n{str(text).rstrip()}\n{FENCE}" for name, text in files.items()]
    if seen := _last_seen(messages, task):
        parts.append(seen)
    parts.append(f"The task: {task}")
    parts.append(
        f"Write {path}, whole, as it must be when the task is done."
        f" Answer with nothing but its content in one {FENCE} block."
    )
    return [Message(Role.USER, "\n\n".join(parts))]


def file_from(dialect: ToolDialect, answer: LLMResponse, path: str) -> LLMResponse:
    """Return the answer as the call that writes the file."""
    answer = replace(answer, dialect=dialect)
    if answer.finish_reason == "length":
        return replace(answer, problem=f"The text of {path} was too long and was cut off, so nothing was written.")
    text = text_in(answer.content, path)
    if not text and not _means_empty(answer.content, path):
        return replace(answer, problem=f"The text of {path} was empty, so nothing was written.")
    arguments = as_text({"path": path, "content": text})
    return replace(answer, content="", tool_calls=(ToolCallRequest(CallId("call_0"), WRITE_FILE, arguments),))


def _means_empty(answer: str, path: str) -> bool:
    """Tell whether an answer is an empty file: a block with nothing in it, and no program, which is never empty."""
    return answer.strip().startswith(FENCE) and (not can_be_run(path) or path.endswith("__init__.py"))


def as_block(call: ToolCallRequest) -> str:
    """Return a call of `write_file` as the answer that it was; empty: it was something else."""
    if call.tool != WRITE_FILE:
        return ""
    try:
        content = arguments_from(call.arguments).get("content")
    except BadArguments:
        return ""
    return f"{FENCE}\n{content.rstrip()}\n{FENCE}" if isinstance(content, str) else ""


def text_in(answer: str, path: str = "") -> str:
    """Return what stands in the block of an answer, or all of it, as a file: with an end of its last line.

    Only a text with blocks of its own, such as Markdown, goes on to the last fence.
    """
    lines = answer.strip().split("\n")
    fences = [at for at, line in enumerate(lines) if line.startswith(FENCE)]
    if fences:
        ends = fences[-1] if path.endswith((".md", ".rst")) else next(iter(fences[1:]), len(lines))
        lines = lines[fences[0] + 1 : ends if ends > fences[0] else len(lines)]
    text = "\n".join(lines).rstrip()
    return f"{text}\n" if text else ""


def _begun_path(messages: Sequence[Message], at: int) -> str:
    """Return the path that a message begins, if it is the result of that tool itself."""
    if at < 1 or messages[at].role is not Role.TOOL:
        return ""
    call = _call_of(messages, at)
    if call is None or call.tool != BEGIN_FILE:
        return ""  # most results, which need not be read for this
    path = result_object(messages[at].content).get(BEGINS_FILE)
    return path if isinstance(path, str) else ""


def _call_of(messages: Sequence[Message], at: int) -> ToolCallRequest | None:
    """Return the call that a result answers."""
    call_id = messages[at].call_id
    for before in range(at - 1, -1, -1):  # usually the message before: a copy of all of them would grow with the run
        for call in messages[before].tool_calls:
            if call.call_id == call_id:
                return call
    return None


def _last_seen(messages: Sequence[Message], task: str) -> str:
    """Return what the last result before the file was begun says is wrong, or what its command printed."""
    at = next((at for at in range(len(messages) - 2, -1, -1) if messages[at].role is Role.TOOL), -1)
    if at < 0:
        return ""
    text = messages[at].content
    if failure := failure_told(task, text):
        return f"This is wrong now: {failure}"
    result, call = result_object(text), _call_of(messages, at)
    printed = str(result.get("stdout") or "").strip()
    if call is None or not printed:
        return ""
    hint = f" {result['hint']}" if result.get("hint") else ""
    return f"{_command(call)} printed: {printed[:MAX_PRINTED]}{hint}"


def _command(call: ToolCallRequest) -> str:
    try:
        return str(arguments_from(call.arguments).get("command", call.tool))
    except BadArguments:
        return call.tool
