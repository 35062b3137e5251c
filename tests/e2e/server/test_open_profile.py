"""The policy profile `open` is announced."""

from pathlib import Path

import pytest

from agent_fabric.domain.policy.profiles import OPEN_BANNER
from agent_fabric.testing.scripted_model import Finish, Script, ScriptedModel
from e2e.fabric_process import Fabric, read_lines, settings
from integration.http.served import served, task

SCRIPT = Script(turns=(Finish(summary="done", artifacts=[], next_steps=[], notes=""),))


@pytest.mark.proves("C07")
@pytest.mark.parametrize("profile", ["open", "workspace"])
async def test_the_open_profile_is_announced_by_run_and_health_and_the_first_event(
    tmp_path: Path, profile: str
) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, policy={"profile": profile}))
        ended = await fabric("run", "do it")
        (run_dir,) = fabric.run_dirs()
        assert (OPEN_BANNER in ended.err) is (profile == "open"), ended.err
        assert read_lines(run_dir)[0]["payload"]["policy_profile"] == profile


@pytest.mark.proves("C07")
async def test_the_open_profile_is_told_by_health(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT, also={"policy": {"profile": "open"}}) as server:
        assert (await server.client.get("/health")).json()["policy_profile"] == "open"
        run_id = (await server.client.post("/run", json=task())).json()["_meta"]["run_id"]
        events = (await server.client.get(f"/runs/{run_id}/events")).json()["events"]
        assert events[0]["payload"]["policy_profile"] == "open"
