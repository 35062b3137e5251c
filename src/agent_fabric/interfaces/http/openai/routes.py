"""The doors that OpenAI's clients know: each pack, agent and workflow is a model."""

import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import Path, Request
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.errors import failed_run
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openai.answers import Told, chat_usage
from agent_fabric.interfaces.http.openai.error_shape import RUN_ID_HEADER, error_object
from agent_fabric.interfaces.http.openai.job import Job, Jobs, with_quotes, with_visibility
from agent_fabric.interfaces.http.openai.models import Models
from agent_fabric.interfaces.http.openai.responses import add_responses
from agent_fabric.interfaces.http.openai.schemas import (
    STREAM_OR_ANSWER,
    ChatCompletion,
    ChatRequest,
    OpenAIModel,
    OpenAIModels,
    Progress,
    StreamOptions,
    openai_errors,
)
from agent_fabric.interfaces.http.openai.stream import AnswerStream, data_frame, pieces
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.runs.live import LiveRuns

DONE = b"data: [DONE]\n\n"


def add_chat(routes: Routes, runs: ServedRuns, live: LiveRuns, models: Models, jobs: Jobs) -> None:
    """Add the route."""

    @routes.post(
        "/v1/chat/completions",
        Scope.RUNS_READ,
        "Do a task, as a chat completion",
        ChatCompletion,
        also={200: STREAM_OR_ANSWER, **openai_errors(404, 409, 413, 415, 502, 503, 504, 507)},
    )
    async def complete(wish: ChatRequest, request: Request, x_fabric_progress: Progress = False) -> Response:
        """Answer with the summary of the run. It continues when the client leaves; `X-Fabric-Run-Id` names it.

        A pack needs the scope `runs`, an agent or a workflow the scope `workflows`.
        """
        by = who_asks(request)
        task = await models.task(wish.model, wish.asked, by)
        task = await with_quotes(task, wish.asked, runs, answers=jobs.answers, whose=by.id)
        job = await jobs.begin(request, wish.model, with_visibility(task, wish.visibility))
        if wish.stream:
            return AnswerStream(job, live, ChatVoice(job, wish.options.with_progress(x_fabric_progress)))
        result = await job.result()
        if result.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            return failed_run(result)
        return json_answer(_completion(job, await job.describe(result)), 200, {RUN_ID_HEADER: result.run_id})


def _completion(job: Job, told: Told) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{told.result.run_id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": job.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": told.text, "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": chat_usage(told.result.usage),
        "fabric": told.note,
    }


class ChatVoice:
    """Voice of the chat API: chunks, and at the end `[DONE]`."""

    def __init__(self, job: Job, options: StreamOptions) -> None:
        self._options = options
        self._head = {
            "id": f"chatcmpl-{job.run_id}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": job.model,
        }
        self._note = {"run_id": job.run_id, "status": RunStatus.RUNNING.value}

    def opening(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""}, fabric=self._note)

    def progress(self, line: str) -> bytes:
        if line and self._options.include_progress:
            return self._chunk({"reasoning_content": f"{line}\n"})
        # Not a comment: many clients take a comment for something they should understand.
        return self._chunk({}, fabric={**self._note, "progress": line} if line else self._note)

    def ending(self, told: Told) -> Iterator[bytes]:
        for piece in pieces(told.text):
            yield self._chunk({"content": piece})
        yield self._chunk({}, finish_reason="stop", fabric=told.note)
        if self._options.include_usage:
            yield data_frame({**self._head, "choices": [], "usage": chat_usage(told.result.usage), "fabric": told.note})
        yield DONE

    def failure(self, problem: Mapping[str, Any]) -> Iterator[bytes]:
        note = {"run_id": problem.get("run_id"), "status": problem.get("run_status")}
        yield data_frame({"error": error_object(problem), "fabric": note})
        yield DONE

    def _chunk(self, delta: Mapping[str, Any], *, finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return data_frame({**self._head, "choices": [choice], **more})


ModelId = Annotated[str, Path(description="`pack/NAME` or just NAME, `agent/NAME`, `workflow/NAME`, or `fabric`.")]


def add_openai(routes: Routes, runs: ServedRuns, live: LiveRuns, models: Models) -> None:
    """Add the routes."""
    jobs = Jobs(runs)
    _add_models(routes, models)
    add_chat(routes, runs, live, models, jobs)
    add_responses(routes.below("/v1/responses"), runs, live, models, jobs)


def _add_models(routes: Routes, models: Models) -> None:
    @routes.get(
        "/v1/models", Scope.RUNS_READ, "List who does tasks, as models", OpenAIModels, also=openai_errors(), head=True
    )
    async def list_models() -> Response:
        """Packs, agents and workflows; `fabric` chooses a pack. Files that are wrong are left out."""
        return json_answer({"object": "list", "data": [models.model_object(each) for each in await models.all()]})

    @routes.get("/v1/models/{model:path}", Scope.RUNS_READ, "Show one", OpenAIModel, also=openai_errors(404))
    async def show(model: ModelId) -> Response:
        """Return what it does."""
        return json_answer(models.model_object(await models.find(model)))
