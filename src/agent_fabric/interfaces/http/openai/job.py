"""A request that has become a run, or several: an agent may be tried again."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from fastapi import Request

from agent_fabric.application.agents.run_agent import worth_another_attempt
from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, Task
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openai.answers import Told, describe_result
from agent_fabric.interfaces.http.openai.quotes import KnownAnswers
from agent_fabric.interfaces.http.outcomes import awaited
from agent_fabric.interfaces.http.runs.starting import start_for
from agent_fabric.interfaces.http.views import RunView

SENT_AGAIN = "x-stainless-retry-count"
"""How often the official clients have sent a request before."""
REMEMBERED = 1_000
"""Requests whose runs are known."""


@dataclass(slots=True)
class Job:
    """What a client waits for. The run continues when the client leaves, but is then not tried again."""

    fabric: ServerFabric
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
        self.started = await start_for(self.fabric, self.request, self.task, attempt=self.attempt)
        self.on_begun(self.run_id)
        return True

    async def _outcome(self) -> RunResult:
        return await awaited(self.started) if isinstance(self.started, Drive) else self.started

    async def describe(self, result: RunResult) -> Told:
        """Return what came of it as an answer, and remember whose answer that is."""
        answer = await describe_result(self.fabric, result)
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

    def __init__(self, fabric: ServerFabric) -> None:
        self._fabric = fabric
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
            found = await self._fabric.start_run.find(self._newest[key])
            if found is not None:
                return Job(self._fabric, request, model, task, found, is_followed=True, on_told=remember)
        started = await start_for(self._fabric, request, task)
        job = Job(self._fabric, request, model, task, started, on_begun=partial(self._remember, key), on_told=remember)
        self._remember(key, job.run_id)
        return job

    def _remember(self, key: bytes, run_id: RunId) -> None:
        self._newest[key] = run_id
        self._newest.move_to_end(key)
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)
