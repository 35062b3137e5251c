"""Every command about runs does the same at a server as on this machine."""

import contextlib
import json
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from agent_fabric.testing.scripted_model import Call, Finish, Hang, Script, ScriptedModel, Slow
from e2e.cli.test_approvals import at_a_terminal
from e2e.fabric_process import Fabric, read_lines, settings
from e2e.server.both_ways import Both, Step, both_ways, step
from e2e.server_process import Serving, serving

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.proves("C15", "A33-005"),
]

DONE = Finish(summary="all done", artifacts=["a.txt"], next_steps=[], notes="")
WRITE = Call("write_file", {"path": "a.txt", "content": "one\ntwo\n"})
PUSH = Call("shell", {"command": "make deploy"})
SCRIPT = Script(
    turns=(WRITE, Call("shell", {"command": "cat a.txt"}), DONE),
    named={
        "push": (PUSH, DONE),
        "fails": (Finish(summary="too early"), Finish(summary="again"), *(Call("shell", {"command": "false"}),) * 99),
        "hang": (Hang(times=99),),
        "long": (Call("shell", {"command": "seq 1 30000"}), DONE),
    },
)

SCENARIOS: dict[str, tuple[Step, ...]] = {
    "a task as JSON": (step("run", "write it", "--json"),),
    "a task for people": (
        step("run", "write it", "--verbose", compares_err=True),
        step("logs", "show", "{run}", "--jsonl", "--kinds", "run_created,run_complete"),
        step("logs", "show", "--last"),
        step("diff", "{run}"),
        step("diff", "{run}", "--stat", compares_err=True),
        step("diff", "{run}", "--json"),
        step("verify", "{run}", "--json"),
        step("verify", "--last"),
        step("undo", "--last", "a.txt", "--dry-run"),
        step("undo", "{run}", "--json"),
        step("resume", "{run}", "--json"),
    ),
    "long texts": (
        step("run", "much [[script=long]]", "--json"),
        step("logs", "show", "{run}", "--json"),
        step("logs", "show", "{run}", "--full", "--json"),
        step("logs", "show", "{run}", "--follow"),
        step("logs", "show", "{run}", "--follow", "--jsonl"),
    ),
    "lists": (
        step("logs", "list", "--json"),
        step("logs", "list", "--limit", "2"),
        step("logs", "search", "write it much", "--limit", "3", "--json"),
        step("logs", "search", "no such words", compares_err=True),
        step("logs", "search", "--semantic", "", "--json"),
    ),
    "a question that is never answered": (
        step("run", "push it [[script=push]]", compares_err=True),
        step("approvals", "list", "--run", "{run}", "--json"),
        step("approvals", "show", "{approval}"),
        step("approvals", "deny", "zzz"),
        step("approvals", "done", "{approval}", "--json"),
        step("cancel", "{run}", "--reason", "enough", "--json"),
        step("approvals", "approve", "{approval}", "--json"),
        step("approvals", "show", "{approval}", "--json"),
        step("resume", "{run}"),
    ),
    "what is not there": (
        step("logs", "show", "nothing", "--json"),
        step("undo", "nothing"),
        step("verify", "nothing", "--json"),
        step("resume", "a/b", "--json"),
        step("approvals", "show", "nothing"),
    ),
    "what cannot be": (
        step("run", "do it", "--pack", "no-such-pack", "--json"),
        step("run", "do it", "--model-key", "no-such-model", "--json"),
        step("run", " ", "--json"),
        step("run", "do it", "--max-steps", "0", "--json"),
        step("run", "do it", "--max-steps", "1", "--json"),
    ),
}


SLOW = Script(
    turns=(*(Slow(Call("shell", {"command": f"echo {number}"}), 0.3) for number in range(8)), DONE),
    named={"hang": (Hang(times=99),), "push": (PUSH, DONE)},
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Both]:
    folder: Path = tmp_path_factory.mktemp("both")
    async with both_ways(folder, SCRIPT) as both:
        yield both


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_command_does_the_same_at_a_server(both: Both, scenario: str) -> None:
    await both.compare(*SCENARIOS[scenario])


class There(NamedTuple):
    """A server, and the command line that works on it."""

    model: ScriptedModel
    home: Fabric
    """As it is started."""
    server: Serving
    fabric: Fabric


@contextlib.asynccontextmanager
async def there(folder: Path) -> AsyncIterator[There]:
    async with ScriptedModel(SLOW) as model:
        home = Fabric(folder, settings(model.base_url))
        async with serving(home) as server:
            yield There(model, home, server, replace(home, server=server.url))


async def test_ctrl_c_leaves_the_run_going_at_the_server(tmp_path: Path) -> None:
    async with there(tmp_path) as at:
        started = await at.fabric.start("run", "do it [[script=hang]]", "--json")
        await at.model.wait_for_requests(1, timeout_s=30)
        started.process.send_signal(signal.SIGINT)
        ended = await started.ended()
        assert ended.code == 130
        assert ended.json["_meta"]["status"] == "running"
        run_id = ended.json["_meta"]["run_id"]
        assert f"The run continues at {at.server.url}; `fabric cancel {run_id}` ends it." in ended.err
        assert (await at.server.client.get(f"/runs/{run_id}/status")).json()["status"] == "running"
        cancelled = await at.fabric("cancel", run_id)
        assert (cancelled.code, cancelled.out) == (0, f"Run {run_id} is cancelled.\n")


async def test_a_server_that_is_killed_and_started_anew_is_waited_for(tmp_path: Path) -> None:
    async with there(tmp_path) as at:
        started = await at.fabric.start("run", "do it", "--json")
        await at.model.wait_for_requests(3, timeout_s=30)
        await at.server.kill()
        async with serving(at.home, "--port", str(at.server.port)):
            ended = await started.ended()
            assert ended.code == 0, ended.err
            assert ended.json["summary"] == "all done"
            shown = await at.fabric("logs", "show", ended.json["_meta"]["run_id"], "--json")
    (run_dir,) = at.home.run_dirs()
    assert [line["seq"] for line in shown.json["events"]] == list(range(len(read_lines(run_dir))))
    assert sum(line["kind"] == "tool_call" for line in shown.json["events"]) >= 8


@pytest.mark.parametrize(
    ("typed", "code", "expected"), [("d\nnot today\n", 4, "not today"), ("l\n", 3, "approvals show")]
)
async def test_at_a_terminal_the_person_is_asked_for_the_servers_run(
    tmp_path: Path, typed: str, code: int, expected: str
) -> None:
    async with there(tmp_path) as at:
        pushing = ("run", "--pack", "engineering", "push it [[script=push]]")
        ended, screen = await at_a_terminal(at.fabric, typed, pushing)
        assert "approval needed" in screen
        assert "make deploy" in screen
        assert expected in screen
        assert ended == code


async def test_an_answer_lets_the_servers_run_go_on_by_itself_before_the_eyes_of_who_follows_it(tmp_path: Path) -> None:
    async with there(tmp_path) as at:
        waiting = await at.fabric("run", "push it [[script=push]]", "--json")
        assert waiting.code == 3
        run_id, (approval,) = waiting.json["_meta"]["run_id"], waiting.json["_meta"]["approvals"]
        kinds = "approval_decided,run_complete"
        follower = await at.fabric.start("logs", "show", run_id, "--follow", "--jsonl", "--kinds", kinds)
        denied = await at.fabric("approvals", "deny", approval, "--reason", "never on a Friday", "--json")
        assert (denied.code, denied.json["status"], denied.json["resume"]) == (0, "denied", None)
        followed = await follower.ended()
        assert followed.code == 0, followed.err
        decided, completed = (json.loads(line) for line in followed.out.splitlines())
        assert (decided["payload"]["reason"], completed["kind"]) == ("never on a Friday", "run_complete")
        again = await at.fabric("approvals", "approve", approval)
        assert again.code == 1
        assert "already" in again.err


@pytest.mark.proves("A33-010")
async def test_who_may_not_is_told_why_and_what_to_do(tmp_path: Path) -> None:
    async with there(tmp_path) as at:
        stranger = replace(at.fabric, environment={"FABRIC_TOKEN": "guessed"})
        refused = await stranger("logs", "list", "--json")
        assert refused.code == 1
        assert refused.json["error"]["code"] == "unauthenticated"
        assert "FABRIC_TOKEN" in refused.json["error"]["hint"]
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        gone = await replace(at.fabric, server=f"http://127.0.0.1:{port}")("run", "do it")
        assert gone.code == 1
        assert "Is the server running? Start it with `fabric serve`." in gone.err


async def test_the_server_is_named_before_the_command_behind_it_or_in_the_environment(tmp_path: Path) -> None:
    async with there(tmp_path) as at:
        url = at.server.url
        here = replace(at.fabric, environment={"FABRIC_URL": ""})
        for arguments in (("--server", url, "logs", "list", "--json"), ("logs", "list", "--json", f"--server={url}")):
            listed = await here(*arguments)
            assert (listed.code, listed.json) == (0, {"runs": []}), listed.err
        both = await here("logs", "list", "--server", url, "--workspace", str(at.home.root))
        assert both.code == 2
        assert "cannot be combined" in both.err
        assert (await at.fabric("config", "show", "--json")).code == 0  # which is about this machine
        for elsewhere in (("--server", url, "config", "show"), ("serve", "--server", url)):
            refused = await here(*elsewhere)
            assert refused.code == 2
            assert "works on this machine only" in refused.err
        no_files = await at.fabric("run", "do it", "--here", "--json")
        assert (no_files.code, no_files.json["error"]["code"]) == (2, "config_invalid")


async def test_logs_of_a_server_are_exported_into_the_current_folder(tmp_path: Path) -> None:
    async with there(tmp_path) as at:
        done = (await at.fabric("run", "push it [[script=push]]", "--json")).json
        run_id = done["_meta"]["run_id"]
        exported = await at.fabric("logs", "export")
        assert exported.code == 0, exported.err
        log = tmp_path / "fabric-export" / "runs" / run_id / "runlog.jsonl"
        assert exported.out.splitlines() == [str(log), str(tmp_path / "fabric-export" / "run_index.jsonl")]
        (run_dir,) = at.home.run_dirs()
        assert log.read_text() == (run_dir / "runlog.jsonl").read_text()
        assert json.loads(log.read_text().splitlines()[0])["kind"] == "run_created"
