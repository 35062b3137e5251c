"""What `/openapi.json` promises is what the server does, whatever it is sent."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from integration.http.served import served, task

EXAMPLES = settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on a thread of its own, because the tests here block."""
    ready: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    folder: Path = tmp_path_factory.mktemp("openapi")
    definitions = folder / "workflow-definitions"
    definitions.mkdir()
    (definitions / "small.yaml").write_text(
        "name: small\nversion: 1.0.0\nsteps: [{id: a, action: transform, inputs: {x: 1}}]"
    )

    async def serve() -> None:
        done = asyncio.Event()
        async with served(folder, max_body_bytes=50_000_000) as server:
            ready.set_result((str(server.client.base_url), asyncio.get_running_loop(), done))
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    url, loop, done = ready.result(timeout=30)
    yield url
    loop.call_soon_threadsafe(done.set)
    thread.join()


@pytest.fixture(scope="module")
def api(server_url: str) -> Any:
    return schemathesis.openapi.from_url(f"{server_url}/openapi.json")


@pytest.fixture(scope="module")
def run_id(server_url: str) -> str:
    """A run that has ended."""
    done = httpx2.post(f"{server_url}/run", json=task(), timeout=30).json()
    return str(done["_meta"]["run_id"])


@pytest.fixture(scope="module")
def workflow_run_id(server_url: str) -> str:
    """A workflow's run that has ended."""
    done = httpx2.post(f"{server_url}/api/v1/workflows/small/execute", timeout=30).json()
    return str(done["run_id"])


OPERATIONS = [
    ("get", "/health"),
    ("get", "/models"),
    ("get", "/models/server"),
    ("put", "/models/server"),
    ("post", "/models/server/restart"),
    ("post", "/run"),
    ("post", "/run/stream"),
    ("get", "/runs"),
    ("get", "/runs/search"),
    ("get", "/runs/{run_id}"),
    ("get", "/runs/{run_id}/status"),
    ("get", "/runs/{run_id}/events"),
    ("post", "/runs/{run_id}/resume"),
    ("post", "/runs/{run_id}/cancel"),
    ("get", "/runs/{run_id}/diff"),
    ("post", "/runs/{run_id}/undo"),
    ("get", "/api/v1/agents"),
    ("get", "/api/v1/agents/{name}"),
    ("post", "/api/v1/agents/{name}/run"),
    ("get", "/api/v1/workflows"),
    ("get", "/api/v1/workflows/{name}"),
    ("post", "/api/v1/workflows/{name}/execute"),
    ("get", "/api/v1/workflows/runs/{run_id}"),
    ("post", "/api/v1/workflows/runs/{run_id}/signal"),
    ("post", "/api/v1/workflows/runs/{run_id}/resume"),
    ("post", "/api/v1/workflows/runs/{run_id}/cancel"),
    ("get", "/approvals"),
    ("get", "/approvals/{approval_id}"),
    ("post", "/approvals/{approval_id}"),
]
CANNOT_BE_WRONG = (
    ("get", "/health"),
    ("get", "/models"),
    ("get", "/models/server"),
    ("post", "/models/server/restart"),
    ("get", "/runs/{run_id}"),
    ("get", "/runs/{run_id}/status"),
    ("get", "/api/v1/agents"),
    ("get", "/api/v1/agents/{name}"),
    ("get", "/api/v1/workflows"),
    ("get", "/api/v1/workflows/{name}"),
    ("get", "/api/v1/workflows/runs/{run_id}"),
    ("get", "/approvals/{approval_id}"),
)
"""Any text is good enough for an id, and there is nothing else to say."""


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
    api: Any, run_id: str, workflow_run_id: str, method: str, path: str, mode: GenerationMode
) -> None:
    cases = api[path][method].as_strategy(generation_mode=mode)

    @EXAMPLES
    @given(cases, st.booleans())
    def check(case: Any, known: bool) -> None:
        if known and "run_id" in path:
            case.path_parameters = {"run_id": workflow_run_id if "workflows" in path else run_id}
        if known and "workflows/{name}" in path:
            case.path_parameters = {"name": "small"}
            if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
                case.body.clear()  # which inputs there are depends on the workflow
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            case.body.pop("model_key", None)  # which ones there are depends on the configuration
            for state in ("paths", "redo", "from"):
                case.body.pop(state, None)  # what there is to undo, or to do again, depends on the run
        case.call_and_validate(timeout=30)

    check()


def test_every_route_is_described_with_a_summary_its_errors_and_an_example(server_url: str) -> None:
    schema = httpx2.get(f"{server_url}/openapi.json").json()
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }
    assert operations.keys() == {f"{method.upper()} {path}" for method, path in OPERATIONS}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operation in operations.values():
        assert operation["summary"]
        assert operation["description"]
        for status in ("403", "421", "422", "500"):
            assert operation["responses"][status]["content"] == problem
    assert schema["components"]["schemas"]["RunRequest"]["examples"]
    assert schema["components"]["schemas"]["Problem"]["examples"]
    assert schema["components"]["schemas"]["ApprovalAnswer"]["examples"]
    assert schema["components"]["schemas"]["ModelServerChange"]["examples"]
    assert schema["components"]["schemas"]["ModelServer"]["examples"]
    for page in ("/docs", "/redoc"):
        assert httpx2.get(f"{server_url}{page}").status_code == 200
