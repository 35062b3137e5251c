"""Asks a small model who should do a task, when its words do not say."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from agent_fabric.application.models.model_turn import ModelTurn, egress_to, failure_event
from agent_fabric.application.ports.llm import ModelChooser, Notice
from agent_fabric.application.time_limit import TimeLimit
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ModelTimedOut
from agent_fabric.domain.events import ModelAnswered, ModelCalled, ModelFailed
from agent_fabric.domain.models.messages import Message, Role
from agent_fabric.domain.packs.recruitment import (
    MAX_SPECIALISTS,
    Evidence,
    Recruitment,
    by_model,
    preferred_for_project,
)
from agent_fabric.domain.runs.task import Task
from agent_fabric.domain.tools.specs import BadArguments, Effect, ToolSpec, arguments_from

CHOOSE = "choose_specialists"
PATIENCE_S = 5.0
"""For finding the model, loading it and asking it; after this, the fallback rule decides."""
_SHOWN_CHARS = 4_000
"""Of the task; more tells nothing more about who should do it."""
_PROJECT = (
    "The task comes with a project folder, and {} works on its files: choose another only if the task clearly is not "
    "about them.\n"
)


@dataclass(frozen=True, slots=True)
class RoutingQuestion:
    """The question, made ready: what must be recorded first, and how the answer is got."""

    called: ModelCalled
    effect: Callable[[], Coroutine[Any, Any, tuple[ModelAnswered | ModelFailed, Recruitment | None, str]]]
    """Gives the event that tells the answer, the choice if it holds one, and otherwise why not."""


@dataclass(frozen=True, slots=True)
class AskRoutingModel:
    """Use case: let the routing model choose."""

    model_turn: ModelTurn
    models: ModelChooser
    model_key: str
    patience_s: float = PATIENCE_S

    def __call__(self, task: Task, evidence: Evidence, notice: Notice) -> RoutingQuestion:
        """Make the question ready."""
        messages = _question(task, evidence)
        called = ModelCalled(
            step=0, message_count=len(messages), attempt=1, model=self.model_key, must_finish=False, purpose="routing"
        )

        async def effect() -> tuple[ModelAnswered | ModelFailed, Recruitment | None, str]:
            started, egress = self.model_turn.clock.monotonic(), ""
            try:
                with TimeLimit(self.patience_s):
                    settings = (await self.models.choose(self.model_key, notice)).settings
                    egress = egress_to(settings)
                    answer = await self.model_turn.attempt(
                        settings,
                        messages,
                        tools=(_tool(evidence),),
                        must_call=CHOOSE,
                        number=1,
                        time_left_s=self.patience_s - (self.model_turn.clock.monotonic() - started),
                        priority=task.priority,
                        notice=notice,
                    )
            except TimeoutError:
                late = ModelTimedOut(f"the routing model did not answer within {self.patience_s:g} seconds")
                return failure_event(late, 1, self.patience_s, egress), None, late.message
            except FabricError as problem:
                return failure_event(problem, attempt=1, duration_s=0.0), None, f"no routing model: {problem.message}"
            if isinstance(answer, ModelFailed):
                return answer, None, f"the routing model failed: {answer.error_message}"
            choice = by_model(evidence, _names_in(answer, evidence))
            return answer, choice, "the routing model named no known specialist"

        return RoutingQuestion(called, effect)


def _tool(evidence: Evidence) -> ToolSpec:
    ids = [each.specialist_id for each in evidence.specialists]
    return ToolSpec(
        name=CHOOSE,
        description="Say who should do the task.",
        parameters={
            "type": "object",
            "properties": {
                "specialist_ids": {
                    "type": "array",
                    "items": {"type": "string", "enum": ids},
                    "minItems": 1,
                    "maxItems": MAX_SPECIALISTS,
                    "description": "Usually one; several, in the order of their work, if the task really needs them.",
                }
            },
            "required": ["specialist_ids"],
        },
        effect=Effect.READS,
    )


def _question(task: Task, evidence: Evidence) -> tuple[Message, ...]:
    known = "\n".join(f"- {each.specialist_id}: {each.description}" for each in evidence.specialists)
    home = preferred_for_project(evidence)
    project = "" if home is None else _PROJECT.format(home)
    system = (
        f"You choose who does a task. The specialists are:\n{known}\n{project}"
        f"Call {CHOOSE}. Choose one, unless the task clearly needs more. Do not do the task."
    )
    return Message(Role.SYSTEM, system), Message(Role.USER, f"The task:\n{task.prompt[:_SHOWN_CHARS]}")


def _names_in(answer: ModelAnswered, evidence: Evidence) -> Iterable[str]:
    """Read the choice, also from a model that writes it down instead of calling the tool."""
    for call in answer.tool_calls:
        try:
            names = arguments_from(call.arguments).get("specialist_ids")
        except BadArguments:
            continue
        if isinstance(names, list | str):
            return [name for name in ([names] if isinstance(names, str) else names) if isinstance(name, str)]
    try:
        written = arguments_from(answer.content).get("specialist_ids")
    except BadArguments:
        return _named_in(answer.content, evidence)
    return [name for name in written if isinstance(name, str)] if isinstance(written, list) else []


def _named_in(text: str, evidence: Evidence) -> list[str]:
    """Return the one specialist that a text names. One that names several may mean "this one and not that one"."""
    named: list[str] = []
    for name in sorted((each.specialist_id for each in evidence.specialists), key=len, reverse=True):
        if name in text:  # the longest first, since one name may be part of another
            named.append(name)
            text = text.replace(name, " " * len(name))
    return named if len(named) == 1 else []
