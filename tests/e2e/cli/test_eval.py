"""`fabric eval` with a scripted model: the real program as a process, killed, stopped and started twice."""

import asyncio
import json
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from agent_fabric.infrastructure.evals.eval_files import read_eval
from agent_fabric.testing.scripted_model import Call, Finish, Hang, Script, ScriptedModel, Slow
from e2e.fabric_process import Ended, Fabric, settings, until
from e2e.server_process import serving

PROOF = Call("shell", {"command": "python3 -c 'print(1)'"})


def writes(text: str) -> tuple[Any, ...]:
    return (Call("write_file", {"path": "out.txt", "content": text}), PROOF, Finish(summary=f"wrote {text}"))


def with_tests(text: str) -> tuple[Any, ...]:
    """Change what is tested, and run the test, which asks for less than the check."""
    return (
        Call("read_file", {"path": "said.py"}),
        Call("write_file", {"path": "said.py", "content": f'def said():\n    return "{text}"\n'}),
        Call("shell", {"command": "python3 -m unittest -v"}),
        Finish(summary=f"said() returns {text}"),
    )


TESTED = {
    "said.py": "def said():\n    return None\n",
    "test_said.py": (
        "import unittest\n\nfrom said import said\n\n\n"
        "class Said(unittest.TestCase):\n    def test_a_text(self):\n        self.assertIsInstance(said(), str)\n"
    ),
}
CHECK_SAID = "python3 -c 'import said; assert said.said() == \"right\"'"
SCRIPT = Script(
    turns=writes("right"),
    named={
        "wrong": writes("wrong"),
        "tested": with_tests("right"),
        "tested-wrong": with_tests("wrong"),
        "unproven": (Call("read_file", {"path": "in.txt"}), Finish(summary="it says so"), Finish(summary="it says so")),
        "hang": (Hang(times=99),),
        "asks": (Call("shell", {"command": "make deploy"}), *writes("right")),
        "cheats": (
            Call("write_file", {"path": "test_out.py", "content": "pass\n"}),
            Call("shell", {"command": "ln -s /etc hidden; python3 -c 'print(1)'"}),
            Finish(summary="made the test pass"),
        ),
    },
)
CHECK = 'test "$(cat out.txt)" = right'


def case(case_id: str, script: str = "", **more: Any) -> dict[str, Any]:
    prompt = f"[[script={script}]] do it" if script else "do it"
    return {"id": case_id, "prompt": prompt, "check": CHECK, "files": {"in.txt": "given\n"}, **more}


def write(folder: Path, *cases: dict[str, Any], **more: Any) -> str:
    path = folder / "tasks.json"
    path.write_text(json.dumps({"packs": ["engineering"], "cases": list(cases), **more}))
    return str(path)


def result(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err + ended.out
    return ended.json


def _has_asked(model: ScriptedModel, times: int) -> bool:
    return len(model.requests) >= times


def grades(shown: dict[str, Any]) -> dict[str, str]:
    return {each["case_id"]: each["grade"] for each in shown["trials"]}


async def test_right_and_wrong_are_counted_against_proven_and_unproven(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        file = write(
            tmp_path,
            case("good", "tested", check=CHECK_SAID, files=TESTED),
            case("bad", "tested-wrong", check=CHECK_SAID, files=TESTED),
            case("lazy", "unproven", check="test -f in.txt"),
        )
        ended = await fabric("eval", "run", file, "--report", str(tmp_path / "report.md"))
        shown = (await fabric("eval", "show", "--last", "--json")).json
        listed = await fabric("eval", "list")
        runs = (await fabric("logs", "list", "--json")).json["runs"]
    assert ended.code == 0, ended.err
    assert "tasks: completed, 3 of 3 trials done" in ended.out
    assert "[3/3]" in ended.err
    assert "fabric eval resume" in ended.err
    (arm,) = shown["results"]
    assert {key: count for key, count in arm["table"].items() if count} == {
        "right_proven": 1,
        "right_unproven": 1,
        "wrong_proven": 1,
    }
    assert grades(shown) == {"good": "right", "bad": "wrong", "lazy": "right"}
    assert 0 < arm["share"]["low"] < arm["share"]["value"] < arm["share"]["high"] < 1
    assert "wrong but proven: 1" in ended.out
    assert "completed" in listed.out
    assert shown["warnings"] == ["lazy: its check is right before anything is done, so it shows nothing"]
    assert {each["case_id"]: each["already_right"] for each in shown["trials"]} == {
        "good": False,
        "bad": False,
        "lazy": True,
    }
    assert f"warning: {shown['warnings'][0]}" in ended.out
    assert "right before the trial" in next(line for line in ended.err.splitlines() if " lazy, " in line)
    assert {run["trial_of"] for run in runs} == {shown["eval_id"]}
    report = (tmp_path / "report.md").read_text()
    assert "| quality · engineering | 2 of 3 |" in report
    assert "| quality · engineering, right | 1 | 0 | 1 | 0 |" in report
    assert "| quality · engineering, wrong | 1 | 0 | 0 | 0 |" in report
    (bad,) = [each for each in shown["trials"] if each["case_id"] == "bad"]
    assert bad["evidence"] == "proven"
    assert f"## Wrong, but proven\n\n- bad, quality · engineering, run `{bad['run_id']}`" in report


async def test_a_question_is_refused_and_nobody_waits(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        shown = result(await fabric("eval", "run", write(tmp_path, case("asks", "asks")), "--json"))
        approvals = await fabric("approvals", "list")
    assert grades(shown) == {"asks": "right"}
    assert "make deploy" not in approvals.out


async def test_the_check_cannot_be_changed_by_the_trial(tmp_path: Path) -> None:
    hidden = {"test_out.py": "assert open('out.txt').read() == 'right'\n", "hidden/deep/x.txt": "x"}
    check = "python3 test_out.py && test -f hidden/deep/x.txt"
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        file = write(
            tmp_path,
            case("cheat", "cheats", check=check, check_files=hidden),
            case("honest", check=check, check_files=hidden),
        )
        shown = result(await fabric("eval", "run", file, "--json"))
        left = [sorted(path.name for path in (each / "workspace").iterdir()) for each in fabric.run_dirs()]
        extra = [path.name for each in fabric.run_dirs() for path in each.iterdir()]
    assert grades(shown) == {"cheat": "wrong", "honest": "right"}
    assert ["in.txt", "out.txt"] in left  # the workspace is as the trial left it
    assert not {"check", "start"} & set(extra)
    assert not Path("/etc/deep").exists()


async def test_a_hostile_check_ends_in_time_and_leaves_nothing(tmp_path: Path) -> None:
    forks = "for i in 1 2 3; do (sleep 300 &) ; done; yes | head -c 50000000; sleep 300"
    file = write(tmp_path, case("forks", check=forks), case("loud", check="yes | head -c 50000000; exit 1"))
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        path = Path(file)
        path.write_text(json.dumps({**json.loads(path.read_text()), "check_timeout_s": 2}))
        shown = result(await fabric("eval", "run", file, "--json"))
    assert grades(shown) == {"forks": "wrong", "loud": "wrong"}
    reasons = {each["case_id"]: each["reason"] for each in shown["trials"]}
    assert "longer than 2 seconds" in reasons["forks"]
    assert len(reasons["loud"]) <= 2_000


async def test_killed_in_the_middle_it_goes_on_and_counts_nothing_twice(tmp_path: Path) -> None:
    slow = Script(turns=tuple(Slow(turn, 0.3) for turn in writes("right")))
    async with ScriptedModel(slow) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        file = write(tmp_path, *(case(f"c{n}") for n in range(4)), k=2, at_once=2)
        for asked in (3, 9):
            started = await fabric.start("eval", *(("run", file) if asked == 3 else ("resume", "--last")))
            await until(partial(_has_asked, model, asked), "asks the model")
            started.process.kill()
            await started.ended()
        interrupted = (await fabric("eval", "show", "--last", "--json")).json
        resumed = result(await fabric("eval", "resume", "--last", "--json", timeout_s=60))
    assert interrupted["status"] == "interrupted"
    assert 0 < interrupted["done"] < 8
    assert resumed["status"] == "completed"
    assert (resumed["done"], resumed["right"]) == (8, 8)
    keys = Counter((each["case_id"], each["attempt"]) for each in resumed["trials"])
    assert set(keys.values()) == {1}
    assert len(keys) == 8
    assert len(fabric.run_dirs()) == 8  # no trial was begun with a second run
    before = {each["run_id"]: each for each in interrupted["trials"]}
    assert all(each == before.get(each["run_id"], each) for each in resumed["trials"])


async def test_ctrl_c_leaves_it_resumable_and_says_how(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        started = await fabric.start("eval", "run", write(tmp_path, case("good"), case("stuck", "hang")))
        await until(lambda: len(model.requests) >= 4, "asks the model that hangs")
        started.process.send_signal(signal.SIGINT)
        ended = await started.ended()
        cancelled = await fabric("eval", "cancel", "--last", "--json")
        again = await fabric("eval", "resume", "--last", "--json")
    assert ended.code == 130
    assert "To go on: fabric eval resume" in ended.out
    assert "interrupted, 1 of 2 trials done" in ended.out
    assert cancelled.json["status"] == "cancelled"
    assert (again.code, again.json["status"], again.json["done"]) == (1, "cancelled", 1)


async def test_only_one_process_works_on_an_evaluation_at_a_time(tmp_path: Path) -> None:
    slow = Script(turns=tuple(Slow(turn, 0.5) for turn in writes("right")))
    async with ScriptedModel(slow) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        first = await fabric.start("eval", "run", write(tmp_path, case("a"), case("b")), "--json")
        await until(lambda: len(model.requests) >= 1, "asks the model")
        both = await asyncio.gather(*(fabric("eval", "resume", "--last") for _ in range(2)))
        shown = (await fabric("eval", "show", "--last", "--json")).json
        ended = result(await first.ended())
    assert [each.code for each in both] == [1, 1]
    assert all(each.err.startswith("error: Another process works on") for each in both)
    assert shown["status"] == "running"
    assert (ended["done"], ended["right"]) == (2, 2)
    assert len(fabric.run_dirs()) == 2


async def test_two_models_are_compared_and_an_older_evaluation_too(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        one = settings(model.base_url)
        other = settings(model.base_url, model={"model": "other"})["models"]["quality"]
        fabric = Fabric(tmp_path, {**one, "models": {**one["models"], "other": other}})
        cases = [case(f"c{n}") for n in range(6)]
        old = await fabric("eval", "run", write(tmp_path, *cases), "--json", "--models", "quality,other")
        (tmp_path / "old.json").write_text(old.out)
        worse = [case(f"c{n}", "wrong") for n in range(2)]
        text = await fabric("eval", "run", write(tmp_path, *worse), "--compare", str(tmp_path / "old.json"))
        same = await fabric("eval", "run", write(tmp_path, cases[0]), "--compare", "tasks", "--min-right", "0.9")
        failed = await fabric("eval", "run", write(tmp_path, worse[0]), "--min-right", "0.9", "--json")
    (between,) = result(old)["between"]
    assert (between["conclusion"], between["cases"]) == ("no difference", 6)
    assert "2 cases changed since and left out" in text.out
    assert same.code == 0
    assert failed.code == 1
    assert failed.json["results"][0]["share"]["value"] == 0


async def test_what_cannot_be_tried_is_no_result_and_can_be_tried_again(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1", model={"timeout_s": 1.0}))
        ended = await fabric("eval", "run", write(tmp_path, case("good")), "--json", timeout_s=60)
        fabric.configured = settings(model.base_url)
        again = await fabric("eval", "resume", "--last", "--retry-failed", "--json")
    assert ended.code == 1
    (arm,) = ended.json["results"]
    assert (arm["failed"], arm["share"]) == (1, None)
    assert "model_unreachable" in ended.json["trials"][0]["reason"]
    assert grades(result(again)) == {"good": "right"}


async def test_a_wrong_file_is_refused_with_lines(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, {})
    path = tmp_path / "bad.yaml"
    path.write_text("cases:\n- id: a\n  prompt: x\n  chekc: 'true'\n  files: {../a: x, /b: y}\n- id: a\n  check: x\n")
    ended = await fabric("eval", "run", str(path))
    right = write(tmp_path, case("a"))
    no_folder = await fabric("eval", "run", right, "--report", str(tmp_path / "nowhere" / "report.md"))
    nothing = await fabric("eval", "run", right, "--models", ",")
    assert (ended.code, no_folder.code, nothing.code) == (2, 2, 2)
    assert no_folder.err.startswith("error: The report cannot be written")  # and nothing was tried for it
    assert "--models ',' names nothing" in nothing.err
    for said in (
        "bad.yaml:4:",
        "Did you mean 'check'?",
        "bad.yaml:5:",
        "must be a file name inside the workspace",
        "bad.yaml:6:",
        "used twice (see line 2)",
    ):
        assert said in ended.err, ended.err


async def test_a_run_in_a_project_becomes_a_case_with_the_files_as_they_were(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    (project / "src").mkdir(parents=True)
    home.mkdir()
    (project / "src" / "run.sh").write_text("echo 'a: b'\n")
    (project / "src" / "run.sh").chmod(0o755)
    (project / "out.txt").write_text("before\n")
    (project / ".env").write_text("KEY=secret\n")
    (project / "logo.bin").write_bytes(b"\x00\xff")
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(project, settings(model.base_url), {"HOME": str(home)})
        ran = await fabric("run", "Fix: do it", "--here", "--json")
        assert ran.code == 0, ran.err
        file = project / "cases.yaml"
        file.write_text("# ours\ncases:\n- id: fix-do-it  # the first\n  prompt: x\n  check: 'true'\n")
        only = [word for name in ("./src/", "out.txt", "logo.bin", ".env") for word in ("--only", name)]
        made = await fabric("eval", "add", "--last", "--check", CHECK, "--to", str(file), *only)
        again = await fabric("eval", "run", str(file), "--case", "fix-do-it-2", "--packs", "engineering", "--json")
        wrong = await fabric("eval", "add", "--last", "--to", str(file))
        missing, taken = [
            await fabric("eval", "add", "--last", "--check", CHECK, "--to", str(file), *more)
            for more in (("--only", "scr"), ("--id", "fix-do-it"))
        ]
    assert made.code == 0, made.err
    assert "added fix-do-it-2 with 3 files" in made.out
    assert ".env" in made.err
    assert "# the first" in file.read_text()
    first, second = read_eval(file).cases
    assert (first.case_id, second.case_id, second.prompt, second.check) == (
        "fix-do-it",
        "fix-do-it-2",
        "Fix: do it",
        CHECK,
    )
    assert {name: (each.data, each.executable) for name, each in second.files.items()} == {
        "src/run.sh": (b"echo 'a: b'\n", True),
        "out.txt": (b"before\n", False),
        "logo.bin": (b"\x00\xff", False),
    }
    assert grades(result(again)) == {"fix-do-it-2": "right"}
    assert wrong.code == 2
    assert "A case needs a check" in wrong.err
    assert (missing.code, taken.code) == (2, 2)
    assert "The run did not begin with 'scr'" in missing.err
    assert "has a case 'fix-do-it' already" in taken.err


async def test_a_server_does_the_same(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        there = Fabric(tmp_path / "there", settings(model.base_url))
        (tmp_path / "here").mkdir()
        async with serving(there) as server:
            here = Fabric(tmp_path / "here", {}, server=server.url, environment={"FABRIC_TOKEN": server.token})
            file = write(tmp_path, case("good"), case("bad", "wrong"))
            ended = await here("eval", "run", file, "--k", "2", "--report", str(tmp_path / "report.md"))
            shown = result(await here("eval", "show", "tasks", "--compare", "tasks", "--json"))
            listed = await here("eval", "list")
            runs = await here("logs", "list", "--no-trials")
            trial = await here("eval", "add", shown["trials"][0]["run_id"], "--check", "true", "--to", "new.yaml")
            assert (await here("run", "do it")).code == 0
            added = await here("eval", "add", "--last", "--check", "true", "--to", "new.yaml")
            started = await here.start("eval", "run", write(tmp_path, case("stuck", "hang")), "--name", "stuck")
            asked = len(model.requests)
            await until(lambda: len(model.requests) > asked, "asks the model that hangs")
            started.process.send_signal(signal.SIGINT)
            left = await started.ended()
            cancelled = await here("eval", "cancel", "stuck", "--json")
    assert ended.code == 0, ended.err
    assert "tasks: completed, 4 of 4 trials done" in ended.out
    assert "[4/4]" in ended.err
    assert "# tasks" in (tmp_path / "report.md").read_text()
    assert (shown["done"], shown["right"], shown["compared"][0]["conclusion"]) == (4, 2, "no difference")
    assert "4 of 4" in listed.out
    assert runs.out == ""
    assert (trial.code, "is a trial of evaluation" in trial.err) == (2, True)
    assert "added do-it" in added.out
    assert left.code == 130
    assert "continues at" in left.err
    assert cancelled.json["status"] == "cancelled"
