"""A run that a command of a run starts, without a box, is recorded as that run's."""

import json
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Finish, Script, ScriptedModel
from e2e.fabric_process import Fabric, configure, settings
from e2e.inside_a_run import DISGUISES, FABRIC, inside_a_run

pytestmark = pytest.mark.proves("WA-5")


@pytest.mark.parametrize(
    ("disguise", "started_by"), [("as it is", "a-run-of-ours"), ("with an environment of its own", "unknown")]
)
async def test_the_command_line_records_which_run_has_started_a_run(
    tmp_path: Path, disguise: str, started_by: str
) -> None:
    async with ScriptedModel(Script(turns=(Finish(summary="done"),))) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        config = tmp_path / "fabric-config.json"
        configure(config, fabric.configured)
        outcome = await inside_a_run(
            tmp_path,
            *(*FABRIC, "run", "say done", "--pack", "engineering", "--json", "--workspace", str(fabric.root)),
            environment={"FABRIC_CONFIG_PATH": str(config)},
            disguise=DISGUISES[disguise],
        )
        assert outcome.exit_code == 0, outcome.stderr.decode()
        run_id = json.loads(outcome.stdout)["_meta"]["run_id"]
        (created, *_) = (await fabric("logs", "show", run_id, "--json")).json["events"]
        assert created["payload"]["started_by"] == started_by
        assert f"started by run {started_by}" in (await fabric("logs", "show", run_id)).out
        own = (await fabric("run", "say done", "--json")).json["_meta"]["run_id"]
        (created, *_) = (await fabric("logs", "show", own, "--json")).json["events"]
        assert not created["payload"].get("started_by")
