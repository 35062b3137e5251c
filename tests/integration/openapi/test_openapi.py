"""What `/openapi.json` promises is what the server does, whatever it is sent."""

import asyncio
import json
import re
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation

from agent_fabric.interfaces.http.gate import CANONICAL_PREFIX, SEEDS
from agent_fabric.interfaces.http.routing import HIDDEN, Route
from effort import SOAK, effort
from integration.http.served import bearer, served, task
from reference_pages import table

ANSWERS = Path(__file__).parents[2] / "data" / "openapi_answers.json"
"""The keys of every answer."""
PATIENCE_S = 120
"""For an answer; the machine may have much else to do."""
EXAMPLES = settings(
    max_examples=effort(4, 100),
    deadline=None,
    derandomize=not SOAK,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Door(NamedTuple):
    """A server, and what opens it."""

    url: str
    credentials: dict[str, str]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A server on a thread of its own, because the tests here block."""
    ready: Future[tuple[Door, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    folder: Path = tmp_path_factory.mktemp("openapi")
    definitions = folder / "workflow-definitions"
    definitions.mkdir()
    (definitions / "small.yaml").write_text(
        "name: small\nversion: 1.0.0\nsteps: [{id: a, action: transform, inputs: {x: 1}}]"
    )

    async def serve() -> None:
        done = asyncio.Event()
        async with served(folder, max_body_bytes=50_000_000) as server:
            opened = Door(str(server.client.base_url), bearer(server.token))
            ready.set_result((opened, asyncio.get_running_loop(), done))
            await done.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))  # keys are made here
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))  # and what models can do is kept here
        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        opened, loop, done = ready.result(timeout=30)
        yield opened
        loop.call_soon_threadsafe(done.set)
        thread.join()


@pytest.fixture(scope="module")
def api(door: Door) -> Any:
    """What is promised to those who have got in: so no credentials are made up."""
    described = httpx2.get(f"{door.url}/openapi.json", timeout=60).json()
    for methods in described["paths"].values():
        for operation in methods.values():
            del operation["security"]
    api = schemathesis.openapi.from_dict(described)
    api.config.update(base_url=door.url)
    return api


@pytest.fixture(scope="module")
def run_id(door: Door) -> str:
    """A run that has ended."""
    done = httpx2.post(f"{door.url}/run", json=task(), timeout=30, headers=door.credentials).json()
    return str(done["_meta"]["run_id"])


@pytest.fixture(scope="module")
def workflow_run_id(door: Door) -> str:
    """A workflow's run that has ended."""
    url = f"{door.url}/api/v1/workflows/small/execute"
    done = httpx2.post(url, timeout=30, headers=door.credentials).json()
    return str(done["run_id"])


OPERATIONS = [
    (row.method.lower(), re.sub(r":\w+}", "}", row.path))
    for row in table()
    if isinstance(row, Route) and row.summary != HIDDEN
]
"""Every route that is described; a new one is tried with the others."""
CANNOT_BE_WRONG = (
    ("get", "/health"),
    ("get", "/ready"),
    ("get", "/metrics"),
    ("get", "/api/v1/alerts"),
    ("get", "/api/v1/cluster"),
    ("get", "/api/v1/memory/facts/export"),
    ("get", "/models"),
    ("post", "/models/pull"),
    ("get", "/models/server"),
    ("post", "/models/server/restart"),
    ("get", "/runs/{run_id}"),
    ("get", "/runs/{run_id}/ag-ui"),
    ("get", "/runs/{run_id}/status"),
    ("get", "/runs/{run_id}/verify"),
    ("get", "/runs/{run_id}/compare/{other}"),
    ("get", "/runs/{run_id}/timeline"),
    ("get", "/runs/{run_id}/files"),
    ("get", "/runs/{run_id}/files/{path}"),
    ("get", "/runs/newest"),
    ("get", "/api/v1/agents"),
    ("get", "/api/v1/agents/{name}"),
    ("get", "/api/v1/skills"),
    ("get", "/api/v1/workflows"),
    ("get", "/api/v1/workflows/{name}"),
    ("get", "/api/v1/workflows/runs/{run_id}"),
    ("get", "/approvals/{approval_id}"),
    ("get", "/api/v1/me"),
    ("post", "/api/v1/me/logout"),
    ("get", "/api/v1/settings"),
    ("get", "/api/v1/web/start"),
    ("post", "/api/v1/web/codes"),
    ("post", "/api/v1/web/logout"),
    ("get", "/api/v1/users"),
    ("get", "/api/v1/users/{name}"),
    ("delete", "/api/v1/users/{name}"),
    ("delete", "/api/v1/keys/{key_id}"),
    ("get", "/api/v1/secrets"),
    ("post", "/api/v1/secrets/rotate"),
    ("get", "/.well-known/agent-card.json"),
    ("get", "/v1/models"),
    ("get", "/v1/models/{model}"),
    ("post", "/v1/responses/{response_id}/cancel"),
    ("get", "/api/v1/doctor"),
    ("get", "/api/v1/policy"),
    ("get", "/api/v1/tool-servers"),
    ("get", "/api/v1/evals/newest"),
    ("get", "/api/v1/sensors"),
    ("post", "/api/v1/sensors/{name}/look"),
    ("get", "/api/v1/channels"),
    ("get", "/api/v1/channels/people"),
    ("post", "/api/v1/channels/whatsapp"),
    ("post", "/api/v1/channels/telegram"),
    ("post", "/api/v1/channels/slack"),
    ("get", "/api/v1/subscriptions"),
    ("delete", "/api/v1/subscriptions/{name}"),
    ("post", "/api/v1/subscriptions/{name}/test"),
    ("get", "/api/v1/schedules/{name}"),
    ("delete", "/api/v1/schedules/{name}"),
    ("delete", "/api/v1/schedules/{name}/backfill"),
    ("post", "/api/v1/schedules/{name}/pause"),
    ("post", "/api/v1/schedules/{name}/resume"),
    ("post", "/api/v1/schedules/{name}/fire"),
    ("get", "/api/v1/dead-letters/{letter_id}"),
    ("delete", "/api/v1/dead-letters/{letter_id}"),
    ("get", "/node/fabric-node.pyz"),
    ("get", "/api/v1/nodes/invites"),
    ("get", "/api/v1/nodes/{node}"),
    ("delete", "/api/v1/nodes/{node}"),
    ("get", "/api/v1/nodes/{node}/commands/{execution_id}"),
    ("delete", "/api/v1/nodes/{node}/commands/{execution_id}"),
    ("get", "/api/v1/nodes/{node}/policy"),
    ("get", "/api/v1/nodes/{node}/audit"),
    ("post", "/api/v1/nodes/{node}/rotate"),
    ("get", "/api/v1/fleet/plans/{plan_id}"),
    ("post", "/api/v1/fleet/plans/{plan_id}/apply"),
    ("post", "/api/v1/fleet/plans/{plan_id}/halt"),
    ("post", "/api/v1/fleet/plans/{plan_id}/resume"),
    ("post", "/api/v1/fleet/plans/{plan_id}/abort"),
    ("get", "/api/v1/documents"),
)
"""Any text is good enough for an id, and there is nothing else to say."""

WHOLE_BODIES = {
    "/api/v1/evals": {"cases": [{"id": "a", "prompt": "do it", "check": "true"}], "packs": ["engineering"]},
    "/api/v1/schedules": {"name": "nightly", "cron_expression": "0 3 * * *", "task_instruction": "do it"},
    "/api/v1/schedules/preview": {"every": "15m"},
    "/api/v1/documents": {"source": "handbook.md", "text": "# Handbook"},
    "/api/v1/memory/facts/import": {"text": "# Memory"},
    "/api/v1/channels/pair": {"code": "ABCD2345", "user": "ann"},
    "/api/v1/channels/notify": {"user": "ann", "approvals": ["page"]},
}
"""A form cannot tell what a case is, which models and packs there are, that a schedule needs a time, nor that a
document has text or bytes and not both."""


def _complete(case: Any, path: str, response_id: str) -> None:
    """Give a generated body what a form cannot tell: what depends on the configuration, or on what there is."""
    for configured in (
        "model_key",
        "max_cost",
    ):  # which models there are, and have a price, depends on the configuration
        case.body.pop(configured, None)
    if path == "/api/v1/users":
        case.body.pop("password", None)  # a form cannot tell how easily it is guessed
    for state in ("paths", "redo", "from", "inputs", "values"):
        case.body.pop(state, None)  # what there is to undo, or to do again, depends on the run
    if path == "/api/v1/gc":
        case.body["dry_run"] = True  # the others look for these runs
    case.body = WHOLE_BODIES.get(path, case.body)
    if path == "/api/v1/memory/facts":  # not any text is a fact, and each is remembered once
        case.body |= {"text": " ".join(uuid.uuid4().hex for _ in range(3)), "pinned": False}
    if path == "/models/probe":
        case.body.pop("key", None)  # as with those above
    if path == "/api/v1/policy/simulate":
        case.body["text"] = '{"rules": []}'  # not any text has rules
    for said in {"messages", "input"} & case.body.keys():  # somebody must say something
        case.body[said] = task()["prompt"] if said == "input" else [{"role": "user", "content": "do it"}]
    if response_id and path.startswith("/v1/"):
        case.body |= {"model": "engineering", "previous_response_id": response_id}


@pytest.mark.slow
@pytest.mark.proves("A33-015")
@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        (method, path, mode)
        for method, path in OPERATIONS
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        if mode is GenerationMode.POSITIVE or (method, path) not in CANNOT_BE_WRONG
    ],
)
def test_every_answer_is_one_that_was_promised(
    api: Any, door: Door, run_id: str, workflow_run_id: str, method: str, path: str, mode: GenerationMode
) -> None:
    cases = api[path][method].as_strategy(generation_mode=mode)

    @EXAMPLES
    @given(cases, st.booleans())
    def check(case: Any, known: bool) -> None:
        place = case.meta.components.get(ParameterLocation.PATH)
        known = known and (place is None or place.mode is GenerationMode.POSITIVE)  # or nothing may be wrong any more
        if known and "run_id" in path:
            found = {"run_id": workflow_run_id if "workflows" in path else run_id}
            case.path_parameters = {**case.path_parameters, **found}
        # What was wrong may be the name: with a right one, the rest must still be wrong.
        still_wrong = isinstance(case.body, list | str | int | float | None)
        if known and "workflows/{name}" in path and (mode is GenerationMode.POSITIVE or still_wrong):
            case.path_parameters = {"name": "small"}
            if isinstance(case.body, dict):
                case.body.clear()  # which inputs there are depends on the workflow
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            _complete(case, path, f"resp_{run_id}" if known else "")
        if mode is GenerationMode.POSITIVE and case.query:
            for configured in ("model_key", "max_cost"):  # as in bodies
                case.query.pop(configured, None)
            if path.startswith("/api/v1/memory/facts"):
                case.query.pop("runs", None)  # are deleted only with a fact that is erased
        if known and "response_id" in path:
            case.path_parameters = {"response_id": f"resp_{run_id}"}
        if known and "{model}" in path:
            case.path_parameters = {"model": "pack/engineering"}
        answer = case.call(timeout=PATIENCE_S, headers=door.credentials)
        if mode is GenerationMode.NEGATIVE and answer.status_code == 413:
            return  # what is too long for its field may be too long for the door
        if path == "/models/pull" and answer.status_code == 503:
            return  # one model at a time is downloaded, and the last one has not been given up yet
        case.validate_response(answer, headers=door.credentials)

    check()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_nobody_gets_in_without_credentials_whatever_they_send(api: Any, method: str, path: str) -> None:
    operation = api[path][method]

    @settings(EXAMPLES, max_examples=effort(2, 100))
    @given(operation.as_strategy())
    def check(case: Any) -> None:
        answer = case.call(timeout=PATIENCE_S)
        if operation.definition.raw["x-scope"] == "public":
            assert answer.status_code < 500
        else:
            assert answer.status_code == 401

    check()


def test_every_route_is_described_with_a_summary_its_errors_and_an_example(door: Door) -> None:
    schema = httpx2.get(f"{door.url}/openapi.json", timeout=60).json()
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }
    older = {f"{method.upper()} {path}" for method, path in OPERATIONS}
    prefixed = {
        f"{method.upper()} {CANONICAL_PREFIX}{path}" for method, path in OPERATIONS if path.split("/")[1] in SEEDS
    }
    assert operations.keys() == older | prefixed
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    openai = {"application/json": {"schema": {"$ref": "#/components/schemas/OpenAIError"}}}
    for name, operation in operations.items():
        assert operation["summary"]
        assert operation["description"]
        for status in ("401", "403", "421", "422", "429", "500"):
            assert operation["responses"][status]["content"] == (openai if " /v1/" in name else problem)
    assert schema["components"]["schemas"]["ChatRequest"]["examples"]
    assert schema["components"]["schemas"]["ResponseRequest"]["examples"]
    assert schema["components"]["schemas"]["RunRequest"]["examples"]
    assert schema["components"]["schemas"]["Problem"]["examples"]
    assert schema["components"]["schemas"]["ApprovalAnswer"]["examples"]
    assert schema["components"]["schemas"]["ModelServerChange"]["examples"]
    assert schema["components"]["schemas"]["ModelServer"]["examples"]
    for page in ("/docs", "/redoc"):
        assert httpx2.get(f"{door.url}{page}").status_code == 200


def test_every_answer_has_the_keys_that_it_has_always_had(door: Door) -> None:
    api = httpx2.get(f"{door.url}/openapi.json", timeout=60).json()
    described = {
        f"{method.upper()} {path}": {
            f"{status} {kind}": sorted(set(_keys(content.get("schema"), api)))
            for status, answer in operation["responses"].items()
            if status < "300"
            for kind, content in answer.get("content", {}).items()
        }
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    }
    # A key may be added, never renamed or dropped. Those of new routes are written down before a release.
    for operation, answers in json.loads(ANSWERS.read_text()).items():
        assert described[operation] == answers, operation


def _keys(schema: Any, api: Any, prefix: str = "", seen: tuple[str, ...] = ()) -> Iterator[str]:
    """Return the keys of an answer and of the objects in it: `approvals`, `approvals.id`, …"""
    if isinstance(schema, list):
        for each in schema:
            yield from _keys(each, api, prefix, seen)
    elif isinstance(schema, dict):
        name = schema.get("$ref", "").rpartition("/")[2]
        if name and name not in seen:
            yield from _keys(api["components"]["schemas"][name], api, prefix, (*seen, name))
        for key, value in schema.get("properties", {}).items():
            yield f"{prefix}{key}"
            yield from _keys(value, api, f"{prefix}{key}.", seen)
        for inside in ("anyOf", "oneOf", "allOf", "items"):
            yield from _keys(schema.get(inside), api, prefix, seen)
        yield from _keys(schema.get("additionalProperties"), api, f"{prefix}*.", seen)
