"""The labels of what a conversation quotes: an earlier answer carries what its run had read."""

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.chat.conversation import NOTE, USER, Asked, Turn
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.labelling import addresses_handed_on
from agent_fabric.domain.runs.task import Quoted, Task
from agent_fabric.interfaces.http.views import state_of

UNKNOWN_ANSWERS: Final = "earlier answers of the conversation"
"""Names them as a source when it is not known which runs gave them."""
MAX_ANSWERS: Final = 10_000
"""Whose runs are remembered."""
MAX_RUNS: Final = 16
"""Whose logs are read for one conversation."""


class KnownAnswers:
    """Remembers which run gave an answer: clients of the chat API send back texts only."""

    def __init__(self) -> None:
        self._runs: OrderedDict[bytes, RunId] = OrderedDict()

    def remember(self, whose: str, text: str, run_id: RunId) -> None:
        """Note that a run gave this answer to a caller."""
        key = _key(whose, text)
        self._runs[key] = run_id
        self._runs.move_to_end(key)
        if len(self._runs) > MAX_ANSWERS:
            self._runs.popitem(last=False)

    def run_of(self, whose: str, text: str) -> RunId | None:
        """Return the run that gave an answer to a caller; None: not known."""
        return self._runs.get(_key(whose, text))


async def with_quotes(
    task: Task,
    asked: Asked,
    fabric: ServerFabric,
    *,
    before: RunId | None = None,
    said: Collection[Turn] = (),
    answers: KnownAnswers | None = None,
    whose: str = "",
) -> Task:
    """Return a task with the labels of what it quotes; `said` are the turns up to the run `before`."""
    quoted = [turn for turn in asked.background if turn.role not in (USER, NOTE)]
    if task.workflow is not None or not (quoted or before):  # a workflow gets the newest text only
        return task
    runs: dict[RunId | None, None] = {} if before is None else {before: None}
    for turn in quoted:
        if turn not in said:
            runs[answers.run_of(whose, turn.text) if answers is not None else None] = None
    own_words = (asked.text, *(turn.text for turn in asked.background if turn.role in (USER, NOTE)))
    return replace(task, quotes=await _labels_of(fabric, list(runs), "\n".join(own_words)))


async def _labels_of(fabric: ServerFabric, runs: Sequence[RunId | None], own_words: str) -> Quoted:
    untrusted: dict[str, None] = {}
    private: dict[str, None] = {}
    addresses: dict[str, None] = {}
    known = [run_id for run_id in runs if run_id is not None]
    complete = len(known) == len(runs) and len(known) <= MAX_RUNS
    for run_id in known[-MAX_RUNS:]:
        try:
            state = await state_of(fabric, run_id)
        except RunNotFound:  # it has been deleted
            complete = False
            continue
        untrusted.update(dict.fromkeys(state.untrusted))
        private.update(dict.fromkeys(state.private))
        prompt = state.task.prompt if state.task is not None else ""
        addresses.update(dict.fromkeys(addresses_handed_on(state, (prompt, state.payload))))
    if not complete:
        untrusted[UNKNOWN_ANSWERS] = private[UNKNOWN_ANSWERS] = None
    return Quoted(own_words=own_words, untrusted=tuple(untrusted), private=tuple(private), addresses=tuple(addresses))


def _key(whose: str, text: str) -> bytes:
    return hashlib.sha256(f"{whose}\n{text.strip()}".encode(errors="surrogatepass")).digest()
