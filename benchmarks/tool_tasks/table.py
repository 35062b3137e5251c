"""What came of each task, as a table or as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tool_tasks.tasks import ToolTask


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
    said: str = ""
    """How the run ended, in its own words."""

    def count(self, usage: Mapping[str, Any]) -> None:
        """Add what one answer took, as an OpenAI-compatible server reports it."""
        self.steps += 1
        self.prompt_tokens += usage["prompt_tokens"]
        self.completion_tokens += usage["completion_tokens"]
        self.reused_tokens += (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def chosen(tasks: Sequence[ToolTask], names: str) -> Sequence[ToolTask]:
    """Return the named tasks, or all."""
    wanted = [name for name in names.split(",") if name]
    unknown = set(wanted) - {task.name for task in tasks}
    if unknown:
        raise SystemExit(
            f"there is no task {', '.join(sorted(unknown))}; tasks: {', '.join(task.name for task in tasks)}"
        )
    return [task for task in tasks if not wanted or task.name in wanted]


def show(outcomes: Sequence[Outcome], *, as_json: bool = False, whole: bool = False) -> None:
    """Print lines as tasks end, and the table with its sums when all have."""
    if as_json:
        print(json.dumps([asdict(each) for each in outcomes], indent=1))
        return
    if whole:
        print("\n| task | done | steps | seconds | prompt tokens | of them reused | written tokens |")
        print("|---|---|--:|--:|--:|--:|--:|")
    for each in outcomes:
        print(
            f"| {each.task} | {'yes' if each.ok else 'no'} | {each.steps} | {each.seconds:.0f} | {each.prompt_tokens} "
            f"| {each.reused_tokens} | {each.completion_tokens} |",
            flush=True,
        )
    if whole:
        asked, reused = sum(each.prompt_tokens for each in outcomes), sum(each.reused_tokens for each in outcomes)
        print(
            f"| **{sum(each.ok for each in outcomes)} of {len(outcomes)}** | | {sum(each.steps for each in outcomes)} "
            f"| {sum(each.seconds for each in outcomes):.0f} | {asked} | {reused} ({reused / max(asked, 1):.0%}) "
            f"| {sum(each.completion_tokens for each in outcomes)} |"
        )
