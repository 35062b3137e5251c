"""What went wrong, as `application/problem+json` (RFC 9457). The only place that knows statuses of errors."""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent_fabric.domain.definitions.problems import DefinitionInvalid, shown_path
from agent_fabric.domain.errors import FabricError, TooManyRequests
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.http.a2a.error_shape import PATH, refused_request
from agent_fabric.interfaces.http.openai.error_shape import PREFIX, openai_error

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 5

_CODES_BY_STATUS: Mapping[int, str] = {
    401: "unauthenticated",
    403: "forbidden node_blocked",
    404: """
        account_not_found model_not_found pack_unknown definition_not_found secret_not_found run_not_found
        worker_not_found run_file_not_found memory_not_found approval_not_found session_not_found
        message_not_found schedule_not_found dead_letter_not_found pairing_not_found channel_not_found
        eval_not_found node_not_found
    """,
    409: """
        idempotency_not_kept name_taken last_admin run_files_withheld folder_linked run_held run_settled
        run_unsettled run_undrivable run_key_missing fact_settled approval_settled driver_conflict lease_lost
        log_went_back folder_held session_moved message_sent dead_letter_settled eval_held node_unavailable
    """,
    422: """
        idempotency_mismatch config_invalid definition_invalid agent_invalid workflow_invalid inputs_invalid
        fact_refused document_unreadable approval_refused eval_invalid
    """,
    429: "too_many_requests",
    500: "pack_broken",
    501: "extra_missing",
    502: """
        tool_server_unavailable model_unreachable model_refused context_exceeded model_answer_unusable offline
        model_error
    """,
    503: "interrupted server_busy server_stopping store_unavailable model_busy weights_unavailable",
    504: "model_timed_out",
    507: "disk_full",
}

STATUSES: Mapping[str, int] = {code: status for status, codes in _CODES_BY_STATUS.items() for code in codes.split()}
"""Status of each error; one that is not listed is ours: 500."""

CODES: Mapping[int, str] = {
    400: "request_malformed",
    403: "origin_refused",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_too_slow",
    413: "body_too_large",
    415: "media_type_unsupported",
    421: "host_refused",
    422: "request_invalid",
    431: "headers_too_large",
    500: "internal_error",
}
"""Code of an error that is known by its status only."""
_HINTS: Mapping[int, str] = {
    404: "GET /openapi.json lists what there is.",
    405: "The Allow header names the methods that are.",
    413: "Put long material into a file, or raise `server.max_body_bytes`.",
    415: "Send JSON, with the header `Content-Type: application/json`.",
    422: "See `errors` for each field.",
}

_OPENAI_PATHS = frozenset({"/chat/completions", "/responses"})
"""What clients of OpenAI ask for when they were given the address of the server alone."""
_UNVERSIONED = "The address of this door ends with /v1."

_log = logging.getLogger(__name__)


class InternalError(FabricError):
    """We failed; what exactly is in our log, not in the answer."""

    code = "internal_error"

    def __init__(self) -> None:
        super().__init__("agent-fabric itself failed", hint="This is a bug. The server's log has the details.")


class AboutRun(Exception):
    """An error that concerns a run which exists."""

    def __init__(self, problem: FabricError, run_id: RunId) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.run_id = run_id


class ProblemAnswer(Response):
    """An error; those who ask in OpenAI's way, or in that of A2A, are told in the same way."""

    def __init__(self, problem: Mapping[str, Any], headers: Mapping[str, str] | None) -> None:
        # Not orjson: what a client sent comes back here, and may be no valid text.
        super().__init__(json.dumps(problem), problem["status"], headers, media_type=PROBLEM_TYPE)
        self.problem = problem
        self._more = headers

    def told_below(self, path: str) -> Response:
        """Return it in the shape that clients of a path understand."""
        if path == PATH:
            return refused_request(self.problem, self._more)
        return openai_error(self.problem, self._more) if path.startswith(PREFIX) else self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Response.__call__(self.told_below(scope["path"]), scope, receive, send)


def shape_for(response: Response, path: str) -> Response:
    """Return an answer in the shape that clients of a path understand, for those who send it piece by piece."""
    return response.told_below(path) if isinstance(response, ProblemAnswer) else response


def failed_run(result: RunResult) -> ProblemAnswer:
    """Return why a run did not complete as an error, for doors whose clients know no other way to learn of it."""
    assert result.error is not None  # it has ended without a result
    code, message, hint = result.error.code, result.error.message, result.error.hint
    status = STATUSES.get(code, 409 if result.status is RunStatus.CANCELLED else 500)
    headers = {"location": f"/runs/{result.run_id}"}
    more = {"run_status": result.status.value}
    return _response(status, code, message, hint, run_id=result.run_id, headers=headers, more=more)


def problem(
    problem: FabricError, *, run_id: RunId | None = None, more: Mapping[str, Any] | None = None
) -> ProblemAnswer:
    """Return an error of ours as an answer; `more` is what else the client needs to know."""
    status = STATUSES.get(problem.code, 500)
    headers = {"retry-after": str(RETRY_AFTER_S)} if status == 503 else {}
    if isinstance(problem, TooManyRequests):
        headers["retry-after"] = str(max(1, math.ceil(problem.retry_after_s)))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if run_id is not None:
        headers["location"] = f"/runs/{run_id}"
    errors = _errors_in(problem)
    return _response(
        status, problem.code, problem.message, problem.hint, run_id=run_id, errors=errors, headers=headers, more=more
    )


def refusal(status: int, detail: str, *, hint: str = "", headers: Mapping[str, str] | None = None) -> ProblemAnswer:
    """Return an error that is known by its status only."""
    code = CODES.get(status, "request_refused" if status < 500 else "internal_error")
    return _response(status, code, detail, hint or _HINTS.get(status, ""), headers=headers)


def install(app: FastAPI) -> None:
    """Let every error of the app be answered in this way."""
    app.add_exception_handler(FabricError, _fabric_error)
    app.add_exception_handler(AboutRun, _about_run)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal_error)


async def _fabric_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, FabricError)
    return problem(error)


async def _about_run(_: Request, error: Exception) -> Response:
    assert isinstance(error, AboutRun)
    return problem(error.problem, run_id=error.run_id)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"field": ".".join(map(str, entry["loc"])), "message": entry["msg"], "type": entry["type"]}
        for entry in error.errors()
    ]
    detail = "; ".join(f"{entry['field']}: {entry['message']}" for entry in errors[:3])
    return _response(422, CODES[422], detail, _HINTS[422], errors=errors)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    # Starlette says no more than the name of the status.
    said = error.detail != HTTPStatus(error.status_code).phrase
    detail = error.detail if said else f"There is no {request.method} {request.url.path} here"
    hint = _UNVERSIONED if error.status_code == 404 and request.url.path in _OPENAI_PATHS else ""
    return refusal(error.status_code, detail, hint=hint, headers=error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(InternalError())


def _errors_in(problem: FabricError) -> Sequence[Mapping[str, str]] | None:
    """Return each thing that is wrong with a definition."""
    if not isinstance(problem, DefinitionInvalid):
        return None
    return [{"field": shown_path(each.path), "message": str(each), "type": problem.code} for each in problem.problems]


def _response(
    status: int,
    code: str,
    detail: str,
    hint: str,
    *,
    run_id: RunId | None = None,
    errors: Sequence[Mapping[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> ProblemAnswer:
    body: dict[str, Any] = {
        "type": f"urn:agent-fabric:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "hint": hint,
    }
    if run_id is not None:
        body["run_id"] = run_id
    if errors is not None:
        body["errors"] = errors
    body.update(more or {})
    return ProblemAnswer(body, headers)
