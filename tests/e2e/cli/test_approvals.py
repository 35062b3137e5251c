"""Approvals as people meet them: at the terminal, with `fabric approvals`, over HTTP, and after a restart."""

import asyncio
import codecs
import contextlib
import json
import os
import pty
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from e2e.fabric_process import Ended, Fabric, configure, read_lines, settings
from e2e.fork_server import start_fabric
from e2e.inside_a_run import commands_inside_a_run
from e2e.server_process import Serving, serving
from long_calls import script

PATIENCE_S = 60.0
PUSH = Call("shell", {"command": "make deploy"})
DONE = Finish(summary="all done", artifacts=[], next_steps=[], notes="")
LONG = Call("shell", {"command": script(5_000, "middle")})
SCRIPT = Script(
    turns=(PUSH, DONE),
    named={
        "two": (PUSH, PUSH, Call("shell", {"command": "make deploy STAGE=next"}), DONE),
        "long": (LONG, DONE),
    },
)


@contextlib.asynccontextmanager
async def waiting_fabric(folder: Path, **more: Any) -> AsyncIterator[Fabric]:
    async with ScriptedModel(SCRIPT) as model:
        yield Fabric(folder, settings(model.base_url, **more))


async def pending(fabric: Fabric) -> list[dict[str, Any]]:
    ended = await fabric("approvals", "list", "--json")
    assert ended.code == 0, ended.err
    cards: list[dict[str, Any]] = json.loads(ended.out)
    return cards


def kinds(fabric: Fabric) -> list[str]:
    (run_dir,) = fabric.run_dirs()
    return [line["kind"] for line in read_lines(run_dir)]


@pytest.mark.sqlite
@pytest.mark.proves("C17", "AF-125", "FC-034", "FC-037", "FC-068")
async def test_without_a_terminal_the_run_waits_with_exit_code_three_and_says_how_to_answer(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        ended = await fabric("run", "push it")
        assert ended.code == 3
        (card,) = await pending(fabric)
        assert f"fabric approvals show {card['id']}" in ended.out
        assert {"id", "run_id", "tool", "args", "rule", "expires_at"} <= set(card)
        assert (card["tool"], card["args"]) == ("shell", {"command": "make deploy"})
        assert card["sandbox"] in {"A", "B", "C"}
        with contextlib.closing(sqlite3.connect(fabric.root / "fabric.db")) as database:
            columns = "id, execution_id, agent_id, tool_name, arguments, status, session_id"
            ((kept_id, execution, agent, tool, arguments, status, session),) = database.execute(
                f"SELECT {columns} FROM pending_approvals WHERE created_at > 0"
            ).fetchall()
        assert (kept_id, execution, agent, tool) == (card["id"], card["call_id"], None, "shell")
        assert (json.loads(arguments), status, session) == (card["args"], "pending", None)
        shown = await fabric("approvals", "show", card["id"][:6])
        assert "make deploy" in shown.out
        assert "waiting" in (await fabric("logs", "list")).out


@pytest.mark.sqlite
@pytest.mark.proves("WA-6", "WA-11")
async def test_a_changed_or_broken_row_is_listed_as_damaged_with_the_words_of_the_log(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        await fabric("run", "push it")
        await fabric("run", "push it")
        changed, broken = await pending(fabric)
        with contextlib.closing(sqlite3.connect(fabric.root / "fabric.db")) as database, database:
            harmless = json.dumps({"command": "ls"}).encode()
            database.execute("UPDATE pending_approvals SET arguments = ? WHERE id = ?", (harmless, changed["id"]))
            database.execute("UPDATE pending_approvals SET card = ? WHERE id = ?", (b"{", broken["id"]))
        listed = await fabric("approvals", "list")
        assert (listed.code, listed.out.count("damaged"), listed.out.count("make deploy")) == (1, 2, 2)
        assert "fabric audit verify" in listed.err
        for card in (changed, broken):
            shown = await fabric("approvals", "show", card["id"])
            assert "make deploy" in shown.out
            assert "cannot be answered" in shown.out
            refused = await fabric("approvals", "approve", card["id"])
            assert refused.code == 1
            assert "damaged" in refused.err


async def test_an_answer_without_a_server_tells_how_to_go_on(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        await fabric("run", "push it")
        (card,) = await pending(fabric)
        denied = await fabric("approvals", "deny", card["id"], "--reason", "never on a Friday")
        assert denied.code == 0
        assert f"fabric resume {card['run_id']}" in denied.out
        assert await pending(fabric) == []
        resumed = await fabric("resume", "--last")
        assert resumed.code == 4, resumed.err
        assert resumed.out.index("denied by") < resumed.out.index("files:")
        assert resumed.out.splitlines()[-1].startswith("refused: denied by ")
        (run_dir,) = fabric.run_dirs()
        (erred,) = [line["payload"] for line in read_lines(run_dir) if line["kind"] == "tool_error"]
        assert "never on a Friday" in erred["error_message"]
        decided = next(line["payload"] for line in read_lines(run_dir) if line["kind"] == "approval_decided")
        assert (decided["decision"], decided["via"]) == ("deny", "cli")


async def test_changed_arguments_run_instead(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        await fabric("run", "push it")
        (card,) = await pending(fabric)
        changed = json.dumps({"command": "echo instead > said.txt"})
        assert (await fabric("approvals", "approve", card["id"], "--args", changed)).code == 0
        assert (await fabric("resume", "--last")).code == 0
        (run_dir,) = fabric.run_dirs()
        assert (run_dir / "workspace" / "said.txt").read_text() == "instead\n"
        called = next(line["payload"] for line in read_lines(run_dir) if line["kind"] == "tool_call")
        assert called["args"] == {"command": "echo instead > said.txt"}
        assert called["approval_id"] == card["id"]


async def test_wrong_answers_are_explained(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        await fabric("run", "push it")
        (card,) = await pending(fabric)
        for arguments, said in (
            (("approve", "ffffffff"), "No approval begins"),
            (("approve", card["id"], "--args", "{"), "not JSON"),
            (("approve", card["id"], "--args", "[1]"), "JSON object"),
            (("approve", card["id"], "--args", '{"cmd": "ls"}'), "do not fit"),
            (("done", card["id"]), "during a crash"),
        ):
            ended = await fabric("approvals", *arguments)
            assert ended.code in {1, 2}, ended
            assert said in ended.err
        assert [each["id"] for each in await pending(fabric)] == [card["id"]]


async def test_a_run_cannot_answer_its_own_question(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        await fabric("run", "push it")
        (card,) = await pending(fabric)
        place = ("--workspace", str(fabric.root))
        verbs = ("approve", "deny", "done")
        ended = await commands_inside_a_run(tmp_path, [("approvals", verb, card["id"], *place) for verb in verbs])
        for code, said in ended:
            assert (code, "cannot answer its own" in said) == (1, True), said
        assert [each["id"] for each in await pending(fabric)] == [card["id"]]


async def test_of_two_who_answer_at_once_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        await fabric("run", "push it")
        (card,) = await pending(fabric)
        ended = await asyncio.gather(
            *(fabric("approvals", verb, card["id"]) for verb in ("approve", "deny", "approve", "deny"))
        )
        won = [each for each in ended if each.code == 0]
        assert len(won) == 1
        assert all("already" in each.err for each in ended if each.code != 0)


async def test_cancelling_a_waiting_run_settles_its_question(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        await fabric("run", "push it")
        (card,) = await pending(fabric)
        assert (await fabric("cancel", card["run_id"])).code == 0
        assert await pending(fabric) == []
        late = await fabric("approvals", "approve", card["id"])
        assert late.code == 1
        assert "cancelled with its run" in late.err


async def answered(serving: Serving, run_id: str, wanted: str) -> float:
    """Wait until the run stands so; return how long that took."""
    begun = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while (await serving.client.get(f"/runs/{run_id}/status")).json()["status"] != wanted:
            await asyncio.sleep(0.02)
    return time.monotonic() - begun


async def test_over_http_the_run_goes_on_by_itself_after_the_answer(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric, serving(fabric) as server:
        started = await server.client.post("/run", json={"prompt": "push it", "pack": "engineering"})
        assert started.status_code == 202
        run_id = started.json()["_meta"]["run_id"]
        (card,) = (await server.client.get("/approvals")).json()["approvals"]
        assert started.json()["_meta"]["approvals"] == [card["id"]]
        answer = await server.client.post(f"/approvals/{card['id']}", json={"decision": "deny", "reason": "no"})
        assert answer.status_code == 200
        assert answer.json()["status"] == "denied"
        await answered(server, run_id, "completed")
        again = await server.client.post(f"/approvals/{card['id']}", json={"decision": "approve"})
        assert (again.status_code, again.json()["code"]) == (409, "approval_settled")
        assert (await server.client.post("/approvals/0", json={"decision": "approve"})).status_code == 404
        wrong = await server.client.post(f"/approvals/{card['id']}", json={"decision": "maybe"})
        assert wrong.status_code == 422


async def test_an_answer_from_the_command_line_wakes_the_servers_run_also_after_a_restart(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        async with serving(fabric) as first:
            started = await first.client.post("/run", json={"prompt": "push it", "pack": "engineering"})
            run_id = started.json()["_meta"]["run_id"]
            await first.kill()
        (card,) = await pending(fabric)
        async with serving(fabric) as second:
            ended = await fabric("approvals", "deny", card["id"])
            assert "The server continues the run" in ended.out
            await answered(second, run_id, "completed")


async def test_a_question_that_expires_lets_the_servers_run_go_on(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path, policy={"approval_timeout_s": 1.0}) as fabric, serving(fabric) as server:
        started = await server.client.post("/run", json={"prompt": "push it", "pack": "engineering"})
        await answered(server, started.json()["_meta"]["run_id"], "completed")
        (card,) = (await server.client.get("/approvals?settled=true")).json()["approvals"]
        assert card["status"] == "expired"


PUSHING = ("run", "--pack", "engineering", "push it")


async def at_a_terminal(fabric: Fabric, typed: str, arguments: Sequence[str] = PUSHING) -> tuple[int, str]:
    """Run `fabric` at a terminal where somebody types when asked."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    fabric.folder.mkdir(exist_ok=True)
    config = fabric.folder / "fabric-config.json"
    configure(config, fabric.configured)
    process = await start_fabric(
        [*arguments, *(() if fabric.server else ("--workspace", str(fabric.root)))],
        cwd=fabric.folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(fabric.folder),
            "FABRIC_CONFIG_PATH": str(config),
            "NO_COLOR": "1",
            "TERM": "xterm",
            "FABRIC_URL": fabric.server,
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    screen, answers = "", typed.splitlines(keepends=True)
    decoder = codecs.getincrementaldecoder("utf-8")()
    waiting = asyncio.ensure_future(process.wait())
    async with asyncio.timeout(PATIENCE_S):
        while not waiting.done():
            with contextlib.suppress(OSError):
                screen += decoder.decode(os.read(ours, 65_536))
            if answers and screen.rstrip().endswith(("?", "):", ".:", "instead:")):
                os.write(ours, answers.pop(0).encode())
                screen += "\n"
            await asyncio.sleep(0.02)
        with contextlib.suppress(OSError):
            screen += decoder.decode(os.read(ours, 65_536))
    os.close(ours)
    return waiting.result(), screen


@pytest.mark.parametrize(
    ("typed", "code", "expected"),
    [
        ("d\nnot today\n", 4, "not today"),
        ("e\necho instead\n", 0, "exit 0"),
        ("e\necho instead\n", 0, "Copy it and change it:\r\nmake deploy\r\nRun this instead: "),
        ("l\n", 3, "fabric approvals show"),
        ("x\nd\n\n", 4, "refused this call"),
        ("refuse\nd\n\n", 4, "refused this call"),  # not [r]un
        ("e\n\nl\n", 3, "fabric approvals show"),
    ],
)
async def test_at_a_terminal_the_person_is_asked_in_place(tmp_path: Path, typed: str, code: int, expected: str) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        ended, screen = await at_a_terminal(fabric, typed)
        assert "approval needed" in screen
        assert "make deploy" in screen
        assert expected in screen, screen
        assert ended == code


@pytest.mark.proves("WB-5")
async def test_agreeing_for_the_run_asks_once_for_what_its_words_say_and_again_for_the_rest(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        first: Ended = await fabric("run", "push it [[script=two]]")
        assert first.code == 3
        (card,) = await pending(fabric)
        assert card["for_run"] == "exactly `make deploy`"
        assert (await fabric("approvals", "approve", card["id"], "--for-run")).code == 0
        assert (await fabric("resume", "--last")).code == 3
        (other,) = await pending(fabric)
        assert other["args"] == {"command": "make deploy STAGE=next"}
        assert kinds(fabric).count("tool_call") == 2
        assert kinds(fabric).count("approval_requested") == 2


LONG_RUN = ("run", "--pack", "engineering", "push it [[script=long]]")


@pytest.mark.proves("WB-4")
async def test_a_long_call_is_approved_at_a_terminal_only_after_all_of_it_was_shown(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        ended, screen = await at_a_terminal(fabric, "o\na\no\n", LONG_RUN)
        folded, _, unfolded = screen.partition("Show [a]ll of it")
        assert "  │ make deploy" not in folded
        assert "5,000 lines" in folded
        assert "  │ make deploy\r\n" in unfolded
        assert unfolded.count("  │ # ") == 4_999
        assert ended == 4, "there is nothing to deploy"
        assert kinds(fabric).count("tool_call") == 2, "the command, and the end"


async def test_a_long_call_can_be_denied_unread_and_is_too_long_to_be_edited_at_a_terminal(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        ended, screen = await at_a_terminal(fabric, "d\nnot today\n", LONG_RUN)
        assert (ended, "not today" in screen) == (4, True)
        ended, screen = await at_a_terminal(fabric, "a\ne\nl\n", LONG_RUN)
        assert (ended, "--args @FILE" in screen) == (3, True)


async def test_a_long_call_is_approved_by_command_with_the_hash_that_show_prints(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        assert (await fabric(*LONG_RUN)).code == 3
        (card,) = await pending(fabric)
        assert "[5,000 lines, hash" in (await fabric("approvals", "list")).out
        shown = (await fabric("approvals", "show", card["id"])).out
        assert shown.count("\n  │ ") == 5_000
        assert f"hash:  {card['binding'][:12]}, 5,000 lines" in shown
        blind = await fabric("approvals", "approve", card["id"])
        assert (blind.code, "approvals show" in blind.err) == (1, True), blind.err
        wrong = await fabric("approvals", "approve", card["id"], "--hash", "0123456789ab")
        assert (wrong.code, "not the call that was shown" in wrong.err) == (1, True), wrong.err
        short = await fabric("approvals", "approve", card["id"], "--hash", card["binding"][:4])
        assert (short.code, "too short" in short.err) == (1, True), short.err
        changed = tmp_path / "changed.json"
        changed.write_text(json.dumps({"command": script(5_000, "last").replace("make deploy", "echo edited")}))
        assert (await fabric("approvals", "approve", card["id"], "--args", f"@{changed}")).code == 0
        assert "  │ echo edited\n" in (await fabric("approvals", "show", card["id"])).out
        assert (await fabric("resume", "--last")).code == 0
        (run_dir,) = fabric.run_dirs()
        called = [line["payload"] for line in read_lines(run_dir) if line["kind"] == "tool_call"]
        hashes = [payload["args_hash"] for payload in called if payload["tool"] == "shell"]
        assert hashes == [argument_hash(json.loads(changed.read_text()))]
        settled = (await fabric("approvals", "show", card["id"])).out
        assert "instead of that, this was approved:" in settled
