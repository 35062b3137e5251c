"""Asks what is known about the task of a run."""

from collections.abc import Callable

from agent_fabric.application.ports.memory import Briefing, BriefingRequest, ContextSource
from agent_fabric.domain.chat.conversation import newest_words
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.models.messages import ModelSettings, Role
from agent_fabric.domain.runs.knowledge import PINNED_PREFIX
from agent_fabric.domain.runs.state import RunState


async def ask_context(open_source: Callable[[], ContextSource], state: RunState, settings: ModelSettings) -> Briefing:
    """Return what is known about the task of a run; a source that fails is named, and the run goes on without it."""
    task = state.task
    assert task is not None
    earlier = [message.content for message in task.history if message.role is Role.USER]
    subjects = [task.agent.name] if task.agent is not None else []
    wish = BriefingRequest(
        run_id=state.run_id,
        owner=task.owner,
        question=newest_words(task.prompt if task.quotes is None else task.quotes.own_words),
        earlier=newest_words(earlier[-1]) if earlier else "",
        window=settings.context_window,
        compact=settings.compact,
        pinned=not any((message.call_id or "").startswith(PINNED_PREFIX) for message in task.history),
        subjects=(*subjects, *([state.workspace] if task.project else [])),
        encrypted=task.encrypted,
    )
    try:
        return await open_source()(wish)
    except FabricError as problem:
        return Briefing(notice=f"Memory could not be searched: {problem.message}")
