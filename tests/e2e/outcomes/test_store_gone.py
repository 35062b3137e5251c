"""The store is deleted or replaced under a running process: the run stops and says so."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.testing.scripted_model import Call, Script, ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving

FINISH = Call("finish_task", {"summary": "all done"})
WRECKING = {"specialists": {"wrecker": {"description": "x", "builder": "e2e.outcomes.test_store_gone:wrecking_pack"}}}


def _delete(root: Path) -> None:
    for file in root.glob("fabric.db*"):
        file.unlink()


def _delete_store_only(root: Path) -> None:
    (root / "fabric.db").unlink()


def _delete_log(root: Path) -> None:
    (root / "fabric.db-wal").unlink()


def _replace(root: Path) -> None:
    shutil.copy(root / "fabric.db", root / "copy.db")
    (root / "copy.db").replace(root / "fabric.db")


def _delete_folder(root: Path) -> None:
    shutil.rmtree(root)


def _move_folder(root: Path) -> None:
    root.rename(root.with_name("moved"))


WAYS: Mapping[str, Callable[[Path], None]] = {
    "delete": _delete,
    "delete_store_only": _delete_store_only,
    "delete_log": _delete_log,
    "replace": _replace,
    "delete_folder": _delete_folder,
    "move_folder": _move_folder,
}


def wrecking_pack(workspace: str, network_allowed: bool) -> BaseSpecialistPack:
    """Build a pack whose tool does to the store what no tool may."""

    async def wreck(how: str) -> Mapping[str, Any]:
        WAYS[how](Path(workspace).parents[2])
        return {"done": how}

    return BaseSpecialistPack(
        system_prompt="Wreck.",
        tools=[(make_tool_def("wreck", "Wreck.", {"how": {"type": "string"}}), tool_from(wreck))],
        finish=make_finish_tool_def({"summary": {"type": "string"}}),
    )


@pytest.mark.parametrize("how", WAYS)
async def test_a_run_whose_store_is_gone_does_not_complete_into_nothing(tmp_path: Path, how: str) -> None:
    async with ScriptedModel(Script(turns=(Call("wreck", {"how": how}), FINISH))) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, **WRECKING))
        ended = await fabric("run", "wreck it", "--pack", "wrecker", "--json")
        assert ended.code == 1, ended
        error = ended.json["error"]
        assert error["code"] == "store_unavailable"
        assert "was deleted or replaced while it was in use" in error["message"]
        assert "fabric db restore" in error["hint"]
        assert not (fabric.root / "fabric.db").exists() or how in {"replace", "delete_log"}, "no empty store is made"


@pytest.mark.parametrize("how", ["delete", "replace", "delete_folder"])
async def test_a_server_whose_store_is_gone_says_so_everywhere(tmp_path: Path, how: str) -> None:
    async with ScriptedModel(Script(turns=(Call("wreck", {"how": how}), FINISH))) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, **WRECKING))
        async with serving(fabric) as server:
            ran = await server.client.post("/run", json={"prompt": "wreck it", "pack": "wrecker"})
            assert (ran.status_code, ran.json()["code"]) == (503, "store_unavailable"), ran.text
            for path in ("/runs", "/runs/newest", "/api/v1/approvals", "/api/v1/audit/verify"):
                answer = await server.client.get(path)
                assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable"), (path, answer.text)
                assert "deleted or replaced" in json.dumps(answer.json())
            started = await server.client.post("/runs", json={"prompt": "again", "pack": "wrecker"})
            assert started.status_code == 503
            assert (await server.client.get("/health")).status_code == 503
            assert (await server.client.get("/ready")).status_code == 503
