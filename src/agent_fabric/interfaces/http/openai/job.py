"""A request that has become a run, or several: an agent may be tried again."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from fastapi import Request

from agent_fabric.application.agents.run_agent import worth_another_attempt
from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.chat.conversation import NOTE, USER, Asked, Turn
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.labelling import addresses_handed_on
from agent_fabric.domain.runs.task import Quoted, RunResult, Task
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openai.answers import Told, describe_result
from agent_fabric.interfaces.http.runs.starting import start_for, wait_for_result
from agent_fabric.interfaces.http.views import RunView, state_of

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
    runs: ServedRuns,
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
    sources: dict[RunId | None, None] = {} if before is None else {before: None}
    for turn in quoted:
        if turn not in said:
            sources[answers.run_of(whose, turn.text) if answers is not None else None] = None
    own_words = (asked.text, *(turn.text for turn in asked.background if turn.role in (USER, NOTE)))
    return replace(task, quotes=await _labels_of(runs, list(sources), "\n".join(own_words)))


async def _labels_of(runs: ServedRuns, sources: Sequence[RunId | None], own_words: str) -> Quoted:
    untrusted: dict[str, None] = {}
    private: dict[str, None] = {}
    addresses: dict[str, None] = {}
    known = [run_id for run_id in sources if run_id is not None]
    complete = len(known) == len(sources) and len(known) <= MAX_RUNS
    for run_id in known[-MAX_RUNS:]:
        try:
            state = await state_of(runs, run_id)
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


SENT_AGAIN = "x-stainless-retry-count"
"""How often the official clients have sent a request before."""
REMEMBERED = 1_000
"""Requests whose runs are known."""


@dataclass(slots=True)
class Job:
    """What a client waits for. The run continues when the client leaves, but is then not tried again."""

    runs: ServedRuns
    request: Request
    model: str
    """As the client called it."""
    task: Task
    started: Drive | RunResult
    """The newest run; its result, if the same request began it earlier and it is not driven here."""
    attempt: int = 0
    is_followed: bool = False
    """Another request started it: it is not tried again."""
    on_begun: Callable[[RunId], None] = lambda _: None
    """Learns of each attempt."""
    on_told: Callable[[Told], None] = lambda _: None
    """Learns of the answer."""

    @property
    def run_id(self) -> RunId:
        """The newest run."""
        return self.started.run_id

    @property
    def drive(self) -> Drive | None:
        """The newest run, if it is driven here."""
        return self.started if isinstance(self.started, Drive) else None

    async def result(self) -> RunResult:
        """Wait for what comes of the last attempt.

        Raises:
            AboutRun: the server stops, or the run cannot be driven.
        """
        while await self.try_again():
            pass
        return await self._outcome()

    async def try_again(self) -> bool:
        """Wait for the run, and begin another one if this might help; return whether there is one.

        Raises:
            AboutRun: as above.
        """
        result = await self._outcome()
        retries = 0 if self.is_followed or self.task.agent is None else self.task.agent.retries
        if self.attempt >= retries or not worth_another_attempt(result):
            return False
        self.attempt += 1
        self.started = await start_for(self.runs.start, self.request, self.task, attempt=self.attempt)
        self.on_begun(self.run_id)
        return True

    async def _outcome(self) -> RunResult:
        return await wait_for_result(self.started) if isinstance(self.started, Drive) else self.started

    async def describe(self, result: RunResult) -> Told:
        """Return what came of it as an answer, and remember whose answer that is."""
        answer = await describe_result(self.runs, result)
        self.on_told(answer)
        return answer


def with_visibility(task: Task, wish: str | None, before: RunView | None = None) -> Task:
    """Let a run be seen by whom its request says; what continues a private run is private unless it says otherwise."""
    if wish is not None:
        return replace(task, visibility=Visibility(wish))
    is_private = before is not None and before.task.visibility is Visibility.PRIVATE
    return replace(task, visibility=Visibility.PRIVATE) if is_private else task


class Jobs:
    """Makes runs of requests.

    The official client sends a request again when it has waited for ten minutes, and says so; a long task would be
    begun three times. So a request that is sent again comes to the run that it began, as long as this server lives.
    With `Idempotency-Key`, it does so even after a restart.
    """

    def __init__(self, runs: ServedRuns) -> None:
        self._runs = runs
        self._newest: OrderedDict[bytes, RunId] = OrderedDict()
        self.answers = KnownAnswers()

    async def begin(self, request: Request, model: str, task: Task) -> Job:
        """Make a run of a task.

        Raises:
            TooManyRequests, ServerBusy, ServerStopping, StoreUnavailable: there is no run.
        """
        caller = who_asks(request).id

        def remember(answer: Told) -> None:
            self.answers.remember(caller, answer.text, answer.result.run_id)

        whose = f"{caller}\n{request.url.path}\n".encode()
        key = hashlib.sha256(whose + await request.body()).digest()
        if request.headers.get(SENT_AGAIN, "0") != "0" and key in self._newest:
            found = await self._runs.start.find(self._newest[key])
            if found is not None:
                return Job(self._runs, request, model, task, found, is_followed=True, on_told=remember)
        started = await start_for(self._runs.start, request, task)
        job = Job(self._runs, request, model, task, started, on_begun=partial(self._remember, key), on_told=remember)
        self._remember(key, job.run_id)
        return job

    def _remember(self, key: bytes, run_id: RunId) -> None:
        self._newest[key] = run_id
        self._newest.move_to_end(key)
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)
