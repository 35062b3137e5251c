"""The guide to workflows is followed as a newcomer would: what it shows is written, broken, run and compared."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from e2e.fabric_process import Fabric, settings
from e2e.workflows.test_workflow_examples import git
from installed_packages import importable, laid_out

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/guides/workflows.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
NO_MODEL = "http://127.0.0.1:9/v1"
FILE = "workflow-definitions/greet.yaml"


def block(language: str, beginning: str, text: str = GUIDE) -> str:
    """Return the block of code that begins so."""
    found = re.search(rf"```{language}\n({re.escape(beginning)}.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None, beginning
    return found[1]


GREET = block("yaml", "name: greet\n")


class Mistake(NamedTuple):
    """One way to break the first workflow, and what is said about it."""

    title: str
    taken: str
    put: str
    said: str


def mistakes() -> list[Mistake]:
    """Return the mistakes that the guide shows, each as lines that are replaced by others."""
    shown = re.findall(
        r"\*\*\d+\. ([^*]+)\*\*[^`]*?(?:`[^`]+`[^`]*?)*\n\n```diff\n(.*?)```\n\n```text\n(.*?)```", GUIDE, re.DOTALL
    )
    changed = []
    for title, diff, said in shown:
        lines = diff.splitlines()
        taken = "".join(f"{line[1:]}\n" for line in lines if line.startswith("-"))
        put = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
        changed.append(Mistake(title, taken, put, said))
    return changed


def greeting(tmp_path: Path, text: str = GREET) -> Fabric:
    """Return the command in a folder with the first workflow of the guide."""
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / FILE).write_text(text)
    return Fabric(tmp_path, settings(NO_MODEL))


@pytest.mark.proves("A33-142")
async def test_the_first_workflow_runs_as_the_guide_shows(tmp_path: Path) -> None:
    fabric = greeting(tmp_path)
    assert (await fabric("workflow", "validate")).out == "1 file checked: no problems\n"
    ended = await fabric("workflow", "run", "greet", "-i", "who=Ada")
    assert ended.code == 0, ended.err
    shown = block("console", "$ fabric workflow validate\n").splitlines()
    steps = [line.partition("  ")[0] for line in shown if line[0:1] in {"▸", "✓"}]
    assert [line.partition("  ")[0] for line in ended.err.splitlines()[1:]] == steps
    assert re.search(r"^success · 2 steps done · \d", ended.out, re.MULTILINE)
    assert re.search(r"^  text: Happy \w+day, Ada\.$", ended.out, re.MULTILINE)


def test_the_guide_shows_ten_mistakes() -> None:
    assert len(mistakes()) == 9
    assert "**10. An input is missing**" in GUIDE


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.title)
async def test_a_mistake_is_told_in_the_words_of_the_guide(mistake: Mistake, tmp_path: Path) -> None:
    assert GREET.count(mistake.taken) == 1
    fabric = greeting(tmp_path, GREET.replace(mistake.taken, mistake.put))
    ended = await fabric("workflow", "validate", FILE)
    assert (ended.code, ended.out) == (2, mistake.said + "1 file checked: 1 wrong\n")
    refused = await fabric("workflow", "run", FILE, "-i", "who=Ada")
    assert (refused.code, mistake.said.strip() in refused.err) == (2, True)
    assert fabric.run_dirs() == []


async def test_wrong_inputs_are_told_in_the_words_of_the_guide(tmp_path: Path) -> None:
    fabric = greeting(tmp_path)
    shown = re.findall(r"\$ fabric (.+)\n(error: .+\n  hint: .+\n)", block("console", "$ fabric workflow run greet\n"))
    assert len(shown) == 2
    for command, said in shown:
        ended = await fabric(*command.split())
        assert (ended.code, ended.err) == (2, said)


async def test_a_dry_run_and_lineage_look_as_the_guide_shows(tmp_path: Path) -> None:
    fabric = greeting(tmp_path)
    dry = block("console", "$ fabric workflow run greet -i who=Ada --dry-run\n").partition("\n")[2]
    assert (await fabric("workflow", "run", "greet", "-i", "who=Ada", "--dry-run")).out == dry
    run_id = (await fabric("workflow", "run", "greet", "-i", "who=Ada", "--json")).json["_meta"]["run_id"]
    lineage = block("console", "$ fabric workflow lineage be71 say.text\n").partition("\n")[2]
    assert (await fabric("workflow", "lineage", run_id, "say.text")).out == lineage


async def test_a_mistake_in_the_file_is_mended_and_the_rest_is_kept(tmp_path: Path) -> None:
    fabric = greeting(tmp_path, GREET.replace("inputs.who }}", "inputs.who + 1 }}"))
    failed = await fabric("workflow", "run", "greet", "-i", "who=Ada")
    assert failed.code == 1
    assert "failed: say: text: '+' does not work with text and a number (Write ~ to join" in failed.out
    (tmp_path / FILE).write_text(GREET)
    (run_dir,) = fabric.run_dirs()
    same = await fabric("workflow", "resume", run_dir.name)
    assert same.code == 1, "the definition that the run began with still holds"
    mended = await fabric("workflow", "resume", run_dir.name, "--current")
    assert mended.code == 0, mended.err
    assert "keeps 1 result: today" in mended.err


async def test_every_workflow_of_the_guide_is_valid(tmp_path: Path) -> None:
    folder = tmp_path / "workflow-definitions"
    folder.mkdir()
    written = re.findall(r"```yaml\n(name: ([\w-]+)\n.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert len(written) >= 10
    for text, name in written:
        (folder / f"{name}.yaml").write_text(text)
    agents = tmp_path / "agent-definitions"
    agents.mkdir()
    (agents / "translator.md").write_text(
        "---\nname: translator\ninputs: {text: string, language: string}\noutputs: {text: string}\n---\nTranslate."
    )
    fabric = Fabric(tmp_path, settings(NO_MODEL), {"PYTHONPATH": importable(shouting(tmp_path))})
    ended = await fabric("workflow", "validate")
    assert ended.code == 0, ended.out


def shouting(tmp_path: Path) -> Path:
    """Install the package of the guide."""
    module = block("python", "from agent_fabric.extend import")
    return laid_out(tmp_path, "shout", "[agent_fabric.actions]\nshout = shout_module:shout\n", module)


async def test_the_action_of_the_guide_is_a_step(tmp_path: Path) -> None:
    fabric = greeting(tmp_path, block("yaml", "name: loud\n"))
    fabric.environment = {"PYTHONPATH": importable(shouting(tmp_path))}
    ended = await fabric("workflow", "run", "loud", "--json")
    assert ended.code == 0, ended.err + ended.out
    assert ended.json["outputs"]["cry"] == {"text": "HELLO"}


@pytest.mark.parametrize("name", ["history", "note", "twice"])
async def test_workflows_of_the_guide_run(name: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    fabric = greeting(project)
    fabric.environment = {"HOME": str(home)}
    (project / "workflow-definitions" / "more.yaml").write_text(block("yaml", f"name: {name}\n"))
    git(project, "init", "-q")
    for number in range(7):
        git(project, "commit", "-q", "--allow-empty", "-m", f"Commit {number}")
    inputs = {"note": ("-i", "text=it's $(here)")}.get(name, ())
    ended = await fabric("workflow", "run", name, "--here", *inputs, "--json")
    assert ended.code == 0, ended.err + ended.out
    outputs = ended.json["outputs"]
    if name == "history":
        assert len(outputs["log"]["stdout"].splitlines()) == 5
        assert outputs["count"]["stdout"].strip() == "5"
    elif name == "note":
        written = (project / "note.txt").read_text()
        assert written == outputs["look"]["content"] == "# A note\n\nit's $(here)\n"
    else:
        assert re.fullmatch(r"Happy \w+day, whoever reads: Happy \w+day, Ada\.\.", outputs["second"]["text"])


async def test_the_workflow_in_the_readme_waits_for_a_person_and_tags(tmp_path: Path) -> None:
    project = tmp_path / "project"
    home = tmp_path / "home"
    (project / "workflow-definitions").mkdir(parents=True)
    home.mkdir()
    (project / "workflow-definitions" / "release.yaml").write_text(block("yaml", "name: release\n", README))
    (project / "test_it.py").write_text(
        "import unittest\n\n\nclass It(unittest.TestCase):\n    def test_it(self):\n        pass\n"
    )
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "All of it")
    fabric = Fabric(project, settings(NO_MODEL), {"HOME": str(home)})
    waiting = await fabric("workflow", "run", "release", "--here", "-i", "version=1.2", "--json")
    assert waiting.code == 3, waiting.err + waiting.out
    (approval,) = waiting.json["_meta"]["approvals"]
    assert not list((project / ".git" / "refs" / "tags").iterdir())
    assert (await fabric("approvals", "approve", approval)).code == 0
    ended = await fabric("resume", waiting.json["_meta"]["run_id"], "--json")
    assert ended.code == 0, ended.err + ended.out
    assert [each.name for each in (project / ".git" / "refs" / "tags").iterdir()] == ["v1.2"]
