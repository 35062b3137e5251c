"""`--require-proof` and `--max-cost`: what people ask of a run beside its task, through the real program."""

from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from e2e.fabric_process import Ended, Fabric, read_lines, settings
from e2e.loopback_site import LoopbackSite

NOT_PROVEN = 5
WRITE = Call("write_file", {"path": "a.py", "content": "print(1)\n"})
UNPROVEN = (WRITE, Finish(summary="wrote it"), Finish(summary="wrote it"))
PROVEN = (WRITE, Call("shell", {"command": "python3 a.py"}), Finish(summary="wrote it"))
SCRIPT = Script(turns=UNPROVEN, named={"proven": PROVEN})
PRICE = {"input": 1_000_000.0, "output": 1_000_000.0}
"""One for each token: whatever a model says costs more than any limit here."""
GREETER = "name: greeter\nprompts: {system: You greet people.}\ninputs: {who: string}\noutputs: {greeting: string}\n"
WORKFLOW = """\
name: greet
inputs: {who: {type: string, required: true}}
steps:
  - {id: greet, action: invoke-agent, agent: greeter, inputs: {who: "{{ inputs.who }}"}}
"""


def why(ended: Ended) -> tuple[int, str]:
    """Return the exit code and the code of the error."""
    return ended.code, ended.json["error"]["code"]


@pytest.mark.proves("AF-058", "AF-124")
async def test_a_result_without_proof_fails_where_proof_is_required(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        usual = await fabric("run", "write it", "--pack", "engineering", "--json")
        strict = await fabric("run", "write it", "--pack", "engineering", "--require-proof", "--json")
        shown = await fabric("run", "write it", "--pack", "engineering", "--require-proof")
        proven = await fabric("run", "write it [[script=proven]]", "--pack", "engineering", "--require-proof", "--json")
        listed = await fabric("logs", "list", "--json")
    assert usual.code == 0
    assert usual.json["_meta"]["status"] == "completed"
    assert why(strict) == (NOT_PROVEN, "result_unproven")
    assert strict.json["_meta"]["status"] == "failed"
    assert strict.json["summary"] == "wrote it"
    assert strict.json["unproven"] == usual.json["unproven"]
    assert strict.json["unproven"] in strict.json["error"]["message"]
    assert shown.code == NOT_PROVEN
    assert "Proof was required, and the result is not proven" in shown.out
    assert proven.code == 0, proven.err
    assert [each["status"] for each in listed.json["runs"]] == ["completed", "failed", "failed", "completed"]


@pytest.mark.proves("AF-058")
async def test_an_idle_finish_fails_where_proof_is_required(tmp_path: Path) -> None:
    async with ScriptedModel([Finish(summary="done")] * 3) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        ended = await fabric("run", "do it", "--pack", "engineering", "--require-proof", "--json")
    assert why(ended) == (NOT_PROVEN, "result_unproven")
    assert "without using any tool" in ended.json["error"]["message"]


async def test_a_plan_has_nothing_to_prove(tmp_path: Path) -> None:
    script = Script(turns=(Call("list_files", {}), Finish(summary="two steps", plan=[{"step": "Write a.py"}])))
    async with ScriptedModel(script) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, require_proof=True))
        ended = await fabric("run", "write it", "--pack", "engineering", "--plan", "--require-proof", "--json")
    assert (ended.code, ended.json["plan"]) == (0, [{"step": "Write a.py"}])


@pytest.mark.parametrize(
    "more", [{"require_proof": True}, {"specialists": {"engineering": {"require_proof": True}}}], ids=["all", "pack"]
)
async def test_the_configuration_requires_proof_of_all_packs_or_of_one(tmp_path: Path, more: dict[str, Any]) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, **more))
        ended = await fabric("run", "write it", "--pack", "engineering", "--json")
    assert why(ended) == (NOT_PROVEN, "result_unproven")


async def test_an_agent_that_asks_for_no_proof_does_not_pass_in_silence(tmp_path: Path) -> None:
    (tmp_path / "agent-definitions").mkdir()
    (tmp_path / "agent-definitions" / "greeter.yaml").write_text(GREETER)
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "greet.yaml").write_text(WORKFLOW)
    async with ScriptedModel(Script(turns=(Finish(greeting="Hello!"),))) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        usual = await fabric("agents", "run", "greeter", "-i", "who=Ada", "--json")
        strict = await fabric("agents", "run", "greeter", "-i", "who=Ada", "--require-proof", "--json")
        steps = await fabric("workflow", "run", "greet", "-i", "who=Ada", "--require-proof", "--json")
    assert usual.code == 0, usual.err
    assert why(strict) == (NOT_PROVEN, "result_unproven")
    assert "its definition asks for no proof" in strict.json["error"]["message"]
    assert steps.code == NOT_PROVEN, steps.out
    assert "its definition asks for no proof" in steps.out


@pytest.mark.proves("AF-126")
async def test_a_citation_that_was_not_fetched_is_listed_apart_and_fails_on_demand(tmp_path: Path) -> None:
    async with LoopbackSite({"/tea": "<p>Tea contains less caffeine than coffee.</p>"}) as site:
        cited = [{"url": f"{site.url}/tea", "quote": "Tea contains less caffeine", "claim": "c"}]
        cited.append({"url": f"{site.url}/gone", "quote": "Tea contains less caffeine", "claim": "d"})
        end = Finish(summary="s", citations=cited)
        async with ScriptedModel(Script(turns=(Call("fetch_url", {"url": f"{site.url}/tea"}), end, end))) as model:
            web = {"search_url": site.url, "allow_hosts": ["127.0.0.1"]}
            fabric = Fabric(tmp_path, settings(model.base_url, web=web))
            usual = await fabric("run", "what?", "--pack", "research", "--json")
            strict = await fabric("run", "what?", "--pack", "research", "--require-proof", "--json")
            shown = await fabric("run", "what?", "--pack", "research", "--require-proof")
    assert (usual.code, strict.code, shown.code) == (0, NOT_PROVEN, NOT_PROVEN)
    for ended in (usual, strict):
        assert ended.json["citations"] == cited[:1]
        assert ended.json["unfetched_citations"] == cited[1:]
    assert f"cited, but not fetched: {site.url}/gone" in shown.out


@pytest.mark.proves("C02")
async def test_a_limit_of_cost_ends_a_run_and_needs_a_price(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path / "a", settings(model.base_url))
        unpriced = await fabric("run", "write it", "--pack", "engineering", "--max-cost", "1", "--json")
        fabric = Fabric(tmp_path / "b", settings(model.base_url, model={"price": PRICE}))
        nothing = await fabric("run", "write it", "--pack", "engineering", "--max-cost", "0", "--json")
        ended = await fabric("run", "write it", "--pack", "engineering", "--max-cost", "0.5", "--json")
        enough = await fabric("run", "[[script=proven]]", "--pack", "engineering", "--max-cost", "1e8", "--json")
        text = await fabric("logs", "show", "--last")
    assert unpriced.code == nothing.code == 2
    assert unpriced.json["error"]["code"] == "inputs_invalid"
    assert "models.quality.price" in unpriced.json["error"]["hint"]
    assert why(ended) == (1, "budget_exhausted")
    assert "a cost of 0.5" in ended.json["error"]["message"]
    assert "--max-cost" in ended.json["error"]["hint"]
    log = read_lines(Path(ended.json["_meta"]["run_dir"]))
    (spent,) = (line["payload"] for line in log if line["kind"] == "budget_exhausted")
    assert spent["resource"] == "cost"
    assert spent["used"] == ended.json["_meta"]["cost"] > 0.5
    assert enough.code == 0, enough.out
    assert f"cost {enough.json['_meta']['cost']:.0f}" in text.out


@pytest.mark.proves("C02")
async def test_a_configured_limit_says_which_models_it_does_not_count(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, budget={"max_cost": 0.5}))
        ended = await fabric("run", "[[script=proven]]", "--pack", "engineering", "--json", "--verbose")
    assert ended.code == 0
    assert ended.json["_meta"]["cost"] is None
    assert "The limit of cost does not count answers of" in ended.err
