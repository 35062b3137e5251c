"""What the first requirements say must hold without any model: help, routing, and what a run leaves behind."""

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest


def port_of_nobody() -> int:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port: int = nobody.getsockname()[1]
    return port


async def fabric(cwd: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agent_fabric.interfaces.cli.main",
        *arguments,
        cwd=cwd,
        env={
            "PATH": "/usr/bin:/bin",
            "XDG_CONFIG_HOME": str(cwd),
            **(environment or {"FABRIC_MODELS__QUALITY__BASE_URL": f"http://127.0.0.1:{port_of_nobody()}/v1"}),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 90)
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.proves("AF-170", "AF-131", "AF-135", "AF-137", "AF-138", "C30", "C42")
async def test_without_a_server_engineering_is_picked_and_the_run_leaves_its_traces(tmp_path: Path) -> None:
    code, out, _ = await fabric(tmp_path, "run", "build a small API", "--no-ensure", "--json")
    assert code == 1
    result = json.loads(out)
    assert result["error"]["code"] == "model_unreachable"
    run_dir = Path(result["_meta"]["run_dir"])
    assert run_dir.parent == tmp_path / ".fabric" / "runs"
    assert (run_dir / "workspace").is_dir()
    lines = [json.loads(line) for line in (run_dir / "runlog.jsonl").read_text().splitlines()]
    kinds = [line["kind"] for line in lines]
    assert kinds[:4] == ["run_created", "recruitment", "pack_start", "llm_request"]
    recruitment = lines[1]["payload"]
    assert recruitment["specialist_id"] == "engineering"
    assert recruitment["specialist_ids"] == ["engineering"]
    assert recruitment["is_task_force"] is False
    assert {"required_capabilities", "routing_method"} <= recruitment.keys()
    assert lines[2]["payload"]["pack_index"] == 0
    assert kinds[-1] == "run_failed"


@pytest.mark.proves("AF-170", "C30")
async def test_the_specifications_own_configuration_means_ollama_and_nothing_else(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    ollama = {"base_url": f"http://127.0.0.1:{port_of_nobody()}/v1", "model": "qwen2.5:14b", "backend": "ollama"}
    config.write_text(json.dumps({"models": {"quality": ollama, "fast": ollama}}))
    environment = {"FABRIC_CONFIG_PATH": str(config), "HOME": str(tmp_path)}
    code, out, _ = await fabric(tmp_path, "run", "build a small API", "--json", **environment)
    result = json.loads(out)
    assert (code, result["error"]["code"]) == (1, "model_unreachable")
    assert result["_meta"]["model"] == "qwen2.5:14b"
    log = (Path(result["_meta"]["run_dir"]) / "runlog.jsonl").read_text()
    kinds = [json.loads(line)["kind"] for line in log.splitlines()]
    assert kinds[:4] == ["run_created", "recruitment", "pack_start", "llm_request"]


@pytest.mark.proves("AF-170")
async def test_without_configuration_nothing_is_started_when_a_person_forbids_it(tmp_path: Path) -> None:
    with socket.socket() as ollama:
        if ollama.connect_ex(("127.0.0.1", 11434)) == 0:
            pytest.skip("an Ollama runs on this machine")
    code, out, _ = await fabric(
        tmp_path, "run", "build a small API", "--no-ensure", "--json", HOME=str(tmp_path), FABRIC_BUDGET__MAX_STEPS="3"
    )
    assert (code, json.loads(out)["error"]["code"]) == (1, "model_unreachable")
    elsewhere = {
        path.name for path in tmp_path.rglob("*") if path.is_file() and tmp_path / ".fabric" not in path.parents
    }
    elsewhere -= {path.name for path in tmp_path.glob(".local/share/agent-fabric/audit-heads/*")}
    assert elsewhere <= {"sandbox.json", "audit.key"}, "no model, no server, nothing but what we note for ourselves"


@pytest.mark.proves("AF-026", "AF-020", "AF-021")
@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["logs", "--help"], ["config", "show", "--help"]])
async def test_help_needs_no_server_and_no_folder(tmp_path: Path, arguments: list[str]) -> None:
    code, out, err = await fabric(tmp_path, *arguments)
    assert (code, err) == (0, "")
    assert "Usage: fabric" in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proves("AF-176")
def test_the_companion_documents_exist() -> None:
    root = Path(__file__).parents[3]
    for name in ("README.md", "CHANGELOG.md", "docs/vision.md", "docs/backlog.md", "docs/decisions"):
        assert (root / name).exists(), name
