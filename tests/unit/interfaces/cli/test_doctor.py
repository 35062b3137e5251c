"""`fabric doctor` names what is missing, and does not call well what is not."""

import json
from pathlib import Path

import pytest

from agent_fabric.config.loader import load_config
from agent_fabric.domain.observability.findings import HealthFinding, Level
from agent_fabric.interfaces.cli.doctor import verdict_of
from agent_fabric.interfaces.cli.invocation import invoke


@pytest.mark.proves("DB-8")
def test_programs_of_tool_servers_that_are_missing_and_the_extra_for_documents_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("FABRIC_URL", raising=False)
    file = tmp_path / "config/agent-fabric/config.json"
    file.parent.mkdir(parents=True)
    servers = [{"name": "tickets", "command": ["no-such-program"]}]
    file.write_text(json.dumps({"specialists": {"engineering": {"mcp_servers": servers}}}))
    load_config.cache_clear()
    assert invoke("doctor", ["--json"]) in (0, 1)
    findings = {each["about"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["tool server"]["level"] == "warn"
    assert "tickets: there is no program no-such-program" in findings["tool server"]["text"]
    assert "documents in PDF" in findings["extra documents"]["text"]


@pytest.mark.proves("DB-8")
def test_the_verdict_does_not_contradict_a_finding() -> None:
    text = "not installed; needed for the tool servers docs; without it, tasks of engineering fail"
    limited = [HealthFinding(about="extra mcp", level=Level.WARN, text=text)]
    assert verdict_of(limited, good=True) == "Tasks can run, but for those that are named above."
    assert verdict_of([], good=True) == "A task can run."
    assert verdict_of(limited, good=False).startswith("No task can run")
