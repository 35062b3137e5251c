"""The shape of the source: who imports whom, and what things are called."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import agent_fabric
from agent_fabric.application.ports.llm import ChatClient
from agent_fabric.application.ports.packs import SpecialistPack, SpecialistRegistry
from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.domain.errors import FabricError, RecruitError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import LLMResponse, ToolCallRequest
from agent_fabric.domain.runs.task import RunResult, Task

ROOT = Path(__file__).parents[2]
SOURCE = Path(agent_fabric.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

MEANINGLESS = {"utils", "helpers", "common", "misc", "manager", "service"}
HEAVY = {
    "aiohttp",
    "fastapi",
    "lxml",
    "opentelemetry",
    "pydantic",
    "structlog",
    "trafilatura",
    "typer",
    "uvicorn",
    "yaml",
}


def relative(file: Path) -> str:
    return file.relative_to(SOURCE.parent).as_posix()


@pytest.mark.proves("AF-004", "A33-003")
@pytest.mark.parametrize("port", [ChatClient, RunRepository, SpecialistRegistry, SpecialistPack])
def test_the_ports_are_protocols_of_the_application(port: type) -> None:
    assert getattr(port, "_is_protocol", False)
    assert port.__module__.startswith("agent_fabric.application.ports.")


@pytest.mark.proves("AF-005")
def test_the_types_of_the_domain_are_data_that_cannot_be_changed() -> None:
    for kind in (Task, RunResult, LLMResponse, ToolCallRequest):
        assert kind.__module__.startswith("agent_fabric.domain.")
        assert dataclasses.is_dataclass(kind)
        assert vars(kind)["__dataclass_params__"].frozen
    assert RunId("r") == "r"
    assert issubclass(RecruitError, FabricError)


@pytest.mark.proves("AF-006")
def test_a_task_needs_a_prompt_and_may_name_specialists_a_model_and_the_network() -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(Task)}
    assert defaults["prompt"] is dataclasses.MISSING
    assert defaults["specialist_ids"] == ()
    assert {"model_key", "network_allowed"} <= defaults.keys()


@pytest.mark.proves("AF-001", "AF-002", "AF-003", "A33-002")
def test_every_import_contract_is_kept() -> None:
    lint = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(
        [*lint, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proves("A33-004", "C45")
@pytest.mark.parametrize(
    ("layer", "allowed"),
    [("domain", set[str]()), ("application", set[str]()), ("config", {"pydantic", "pydantic_core", "yaml"})],
)
def test_inner_layers_import_no_other_library(layer: str, allowed: set[str]) -> None:
    graph = grimp.build_graph("agent_fabric", include_external_packages=True, cache_dir=None)
    imported = {
        name.partition(".")[0]
        for module in graph.find_descendants(f"agent_fabric.{layer}")
        for name in graph.find_modules_directly_imported_by(module)
    }
    assert imported - sys.stdlib_module_names - {"agent_fabric"} <= allowed


def test_only_the_sandbox_and_what_runs_servers_start_processes() -> None:
    """Beside `import subprocess`, which import-linter sees, there are other ways."""
    ways = re.compile(r"create_subprocess_|os\.(system|popen|exec[lv]|spawn|posix_spawn|fork)|\bpty\.(fork|spawn)")
    places = {relative(file) for file in FILES if ways.search(file.read_text(encoding="utf-8"))}
    allowed = (
        "/sandbox/",
        "/infrastructure/policy/outside/",
        "/testing/",
        "/infrastructure/models/",
        "/infrastructure/tools/mcp/stdio.py",
        "/infrastructure/node/",
        "/infrastructure/fleet/key_files.py",
    )
    assert {place for place in places if not any(part in place for part in allowed)} == set()


def test_every_module_has_a_name_that_says_something() -> None:
    named = {
        relative(file): {part.strip("_") for part in file.relative_to(SOURCE).with_suffix("").parts} for file in FILES
    }
    assert [file for file, parts in named.items() if parts & MEANINGLESS] == []


def test_importing_a_package_does_nothing() -> None:
    faces = {SOURCE, SOURCE / "client"}  # what others import from; the client's own names are imported when used
    inits = [file for file in FILES if file.name == "__init__.py" and file.parent not in faces]
    assert [relative(file) for file in inits if file.read_text(encoding="utf-8").strip()] == []


def test_the_command_line_starts_without_heavy_libraries() -> None:
    script = "import json, sys; import agent_fabric.interfaces.cli.main; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert HEAVY.intersection(json.loads(done.stdout)) == set()
