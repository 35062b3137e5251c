"""What becomes of a message: a new run, or the answer to what a run has asked."""

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from fastapi import Request

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.approvals.answers import Decision, short_hash
from agent_fabric.domain.chat.conversation import Asked, Turn, turns_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RunNotFound
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.a2a.calls import Reply, Sending, checked_text, reply_in, says_go_on
from agent_fabric.interfaces.http.a2a.error_shape import Code, RpcError
from agent_fabric.interfaces.http.a2a.objects import context_of
from agent_fabric.interfaces.http.a2a.tasks import Tasks
from agent_fabric.interfaces.http.locks import must_be_allowed, who_answers, who_asks
from agent_fabric.interfaces.http.openai.answers import describe_result, is_told_whole
from agent_fabric.interfaces.http.openai.job import Job, with_quotes, with_visibility
from agent_fabric.interfaces.http.openai.models import CHOOSES, Models, model_of, right_for
from agent_fabric.interfaces.http.runs.starting import resume_for, start_for
from agent_fabric.interfaces.http.views import RunView, look_at
from agent_fabric.interfaces.views.approvals import filled_in

REMEMBERED = 10_000
"""Conversations."""
LOOKED_AT = 2_000
"""Runs of servers before us; conversations that have none among them begin anew."""


class Contexts:
    """Knows the conversations that callers lead. Each run says which one it belongs to; this is only where to look."""

    def __init__(self, runs: ServedRuns) -> None:
        self._runs = runs
        self._newest: OrderedDict[str, RunId] = OrderedDict()
        self._lock = asyncio.Lock()
        self._has_looked = False

    def remember(self, context_id: str, run_id: RunId) -> None:
        """Note that a conversation continues in a run."""
        self._newest[context_id] = run_id
        self._newest.move_to_end(context_id)
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)

    async def newest(self, context_id: str, *, by: Principal) -> RunId | None:
        """Return the run that a conversation continues from, if there is any.

        A run that belongs to none is one by itself, of the same id.
        """
        if context_id not in self._newest:
            await self._look()
        found = self._newest.get(context_id)
        if found is not None:
            return found
        try:
            run_id = await self._runs.find(context_id, by=by)
        except RunNotFound:
            return None
        return run_id if run_id == context_id else None

    async def _look(self) -> None:
        """Learn from the runs themselves, once."""
        async with self._lock:
            if self._has_looked:
                return
            for record in await self._runs.catalogue.recent(limit=LOOKED_AT):  # the newest first
                if record.conversation:
                    self._newest.setdefault(record.conversation, record.run_id)
            self._has_looked = True


def no_push() -> RpcError:
    """Return why there are no push notifications."""
    hint = "Follow them with SubscribeToTask, or ask with GetTask."
    return RpcError(Code.PUSH_NOTIFICATION_NOT_SUPPORTED, "Tasks are not announced to other addresses here", hint=hint)


@dataclass(frozen=True, slots=True)
class Messages:
    """Takes messages."""

    runs: ServedRuns
    models: Models
    contexts: Contexts
    tasks: Tasks

    async def begin(self, request: Request, sending: Sending) -> Job:
        """Make a run of a message, or tell it to the run that it is for.

        Raises:
            RpcError: the message cannot be taken.
            FabricError: there is no such task or skill, or the caller may not.
        """
        if sending.options.push is not None:
            raise no_push()
        if sending.message.role == "ROLE_AGENT":
            raise RpcError(Code.INVALID_PARAMS, "message.role: a message to an agent is of the role ROLE_USER")
        text = checked_text(sending.message)
        if sending.message.task_id:
            return await self._go_on(request, sending, text)
        principal, context = who_asks(request), sending.message.context_id
        before = await self._before(context, principal) if context else None
        skill = sending.skill or (CHOOSES if before is None else model_of(before.task))
        asked = Asked(text, () if before is None else await self._turns_before(before))
        task = await self.models.task(skill, asked, principal)
        if before is not None:
            task = await with_quotes(task, asked, self.runs, before=before.result.run_id, said=asked.background)
        secret = task.encrypted or (before is not None and before.task.encrypted)  # it quotes what was said there
        task = replace(task, conversation=context or str(uuid.uuid4()), encrypted=secret)
        task = with_visibility(task, sending.visibility, before)
        started = await start_for(self.runs.start, request, task)
        if not request.scope["state"].get("is_attached"):
            self.contexts.remember(task.conversation, started.run_id)
        # An agent is not tried again here: another attempt would be another task.
        return Job(self.runs, request, skill, task, started, is_followed=True)

    async def _before(self, context: str, principal: Principal) -> RunView | None:
        """Return the run that a conversation continues from.

        Raises:
            RpcError: the conversation belongs to another user.
        """
        newest = await self.contexts.newest(context, by=principal)
        if newest is None:
            return None
        try:
            view = await look_at(self.runs, newest)
        except RunNotFound:  # it has been cleared away
            return None
        if context_of(newest, view.task) != context:
            return None
        if view.task.requested_by not in ("", principal.name):
            raise RpcError(
                Code.INVALID_PARAMS,
                "contextId: this conversation belongs to another user",
                hint="Leave it out to begin one of your own, or choose another.",
            )
        return view

    async def _turns_before(self, before: RunView) -> tuple[Turn, ...]:
        """Return a conversation up to a run, and what came of that."""
        turns, result = turns_of(before.task.prompt), before.result
        if result.status.settled:
            said = (await describe_result(self.runs, result)).text or (result.error.message if result.error else "")
            turns.append(Turn("assistant", said))
        return tuple(turn for turn in turns if turn.text.strip())

    async def _go_on(self, request: Request, sending: Sending, text: str) -> Job:
        message = sending.message
        view = await self.tasks.find(message.task_id, by=who_asks(request))
        run_id, model = view.result.run_id, model_of(view.task)
        if message.context_id not in ("", context_of(run_id, view.task)):
            raise RpcError(
                Code.INVALID_PARAMS, "contextId: the task belongs to another conversation", hint="Leave it out."
            )
        match view.result.status:
            case RunStatus.WAITING:
                must_be_allowed(who_asks(request), Scope.APPROVALS)
                return await self._answer(request, view, reply_in(text, message.data))
            case RunStatus.INTERRUPTED if says_go_on(text):
                must_be_allowed(who_asks(request), right_for(model))
                started = await resume_for(self.runs.start, request, run_id)
                return Job(self.runs, request, model, view.task, started, is_followed=True)
            case RunStatus.INTERRUPTED:
                raise RpcError(Code.UNSUPPORTED_OPERATION, "This task was interrupted", hint="Say: resume")
            case RunStatus.RUNNING:
                hint = "Wait until it has ended, or end it with CancelTask."
                raise RpcError(Code.UNSUPPORTED_OPERATION, "This task is at work, and takes no messages", hint=hint)
            case _:
                hint = "To continue the conversation, send the message with its contextId, and without a taskId."
                raise RpcError(Code.UNSUPPORTED_OPERATION, "This task has ended", hint=hint)

    async def _answer(self, request: Request, view: RunView, reply: Reply) -> Job:
        """Answer what a run asks, and continue it."""
        run_id = view.result.run_id
        card = await self._question(reply, (await describe_result(self.runs, view.result)).approvals)
        args = filled_in(card, reply.args) if reply.decision is Decision.APPROVE else reply.args
        by = await who_answers(request)
        if reply.decision is Decision.APPROVE and args is None and not reply.binding and not is_told_whole(card):
            raise RpcError(
                Code.INVALID_PARAMS,
                "The message did not show all of this call, so words cannot approve it",
                hint=f'All of it is in the data of the question. Give data: {{"approval": "{card.approval_id}", '
                f'"decision": "approve", "binding": "{short_hash(card.binding)}"}}',
            )
        answer = Answer(
            decision=reply.decision, by=by.name, via="a2a", reason=reply.reason, args=args, binding=reply.binding
        )
        await self.runs.decide_approval(card.approval_id, answer, by=by)
        started = None
        if card.run_id == run_id:
            try:
                started = await resume_for(self.runs.start, request, run_id)
            except FabricError:  # the answer is given: it continues as soon as there is room
                started = None
        going_on = started or replace(view.result, status=RunStatus.RUNNING, waiting_for=())
        return Job(self.runs, request, model_of(view.task), view.task, going_on, is_followed=True)

    async def _question(self, reply: Reply, approvals: Sequence[str]) -> ApprovalCard:
        """Return the question that is answered.

        Raises:
            RpcError: there is none, or it is not clear which one is meant.
        """
        if not approvals:
            raise RpcError(Code.UNSUPPORTED_OPERATION, "This task waits, but not for a person", hint="See its status.")
        chosen = [each for each in approvals if each == reply.approval] if reply.approval else list(approvals)
        if len(chosen) != 1:
            raise RpcError(
                Code.INVALID_PARAMS,
                "It is not clear which question is answered",
                hint=f'Give data: {{"approval": ID, "decision": "approve"}}, with one of: {", ".join(approvals)}',
            )
        return await self.runs.approvals.find(chosen[0])
