"""The result of a run has the same fields, whichever model gave it: what a small one is not asked for, the log says."""

from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.loopback_site import LoopbackSite

MAKE = (Call("shell", {"command": "echo 'print(1)' > a.py"}), Call("shell", {"command": "python3 a.py"}))
TOLD = {"changed": ["a.py"], "checked": ["python3 a.py"], "artifacts": ["a.py"], "next_steps": [], "notes": ""}
META = ("_meta", "action")


async def result(folder: Path, script: Script, *arguments: str, **model: Any) -> dict[str, Any]:
    """Return what came of a run, without what is known about every one."""
    async with ScriptedModel(script) as scripted, LoopbackSite({"/tea": "<p>Tea has caffeine.</p>"}) as site:
        web = {"search_url": site.url, "allow_hosts": ["127.0.0.1"]}
        fabric = Fabric(folder, settings(scripted.base_url, model=model, web=web))
        ended = await fabric("run", "Make a.py", *arguments, "--json")
        assert ended.code == 0, ended.err
        if model:
            offered = scripted.requests[0].body["tools"][-1]["function"]
            assert (offered["name"], list(offered["parameters"]["properties"])[:1]) == ("finish_task", ["summary"])
            assert "artifacts" not in offered["parameters"]["properties"]
    return {key: value for key, value in ended.json.items() if key not in META}


@pytest.mark.proves("AF-062", "AF-100")
async def test_a_small_model_gives_the_result_of_a_large_one(tmp_path: Path) -> None:
    large = await result(
        tmp_path / "large", Script(turns=(*MAKE, Finish(summary="made", **TOLD))), "--pack=engineering"
    )
    small = await result(
        tmp_path / "small", Script(turns=(*MAKE, Finish(summary="made"))), "--pack=engineering", compact=True
    )
    assert small == large == {"summary": "made", **TOLD}


@pytest.mark.proves("AF-062")
async def test_research_has_all_its_fields_too(tmp_path: Path) -> None:
    turns = (
        Call("write_file", {"path": "report.md", "content": "Tea.\n"}),
        *(Finish(summary="read", citations=[]),) * 2,
    )
    found = await result(tmp_path, Script(turns=turns), "--pack=research", "--no-network-allowed", compact=True)
    assert (found["deliverables"], found["limitations"], found["citations"]) == (["report.md"], "", [])
