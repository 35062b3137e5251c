"""`fabric chat` and `fabric sessions` as processes: in a pipe, at a terminal, with and without a server."""

import asyncio
import os
import pty
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Say, ScriptedModel
from e2e.fabric_process import Ended, Fabric, settings
from e2e.fork_server import start_fabric
from e2e.server_process import serving
from long_calls import script

PATIENCE_S = 60.0
REPORT = "The report counts 4711 apples. It was sent to 815 people."


def answering(request: dict[str, Any], _: int) -> Answer:
    """Answer a chat."""
    said = [message for message in request["messages"] if message["role"] == "user"]
    last, words = request["messages"][-1], str(said[-1]["content"])
    if "report" in words:
        written = sum(message["role"] == "tool" for message in request["messages"])
        if written == 0:
            return Call("write_file", {"path": "report.txt", "content": "4711 apples\n"})
        return Call("read_file", {"path": "report.txt"}) if written == 1 else Say(REPORT)
    if last["role"] == "tool":
        return Say("I have looked.")
    if "look" in words:
        return Call("list_files", {"path": "."})
    if "long" in words:
        return Call("shell", {"command": script(300, "middle")})
    if "deploy" in words:
        return Call("shell", {"command": "make deploy"})
    if "slowly" in words:
        return Say("one two three four five six seven eight nine ten", pause_s=0.5)
    return Say(f"{len(said)} said, the last {words!r}")


async def piped(fabric: Fabric, text: str, *arguments: str) -> Ended:
    """Run `fabric chat` with a message from a pipe."""
    home = fabric.folder
    started = await start_fabric(
        ["chat", *arguments, *(() if fabric.server else ("--workspace", str(fabric.root)))],
        cwd=home,
        env={**environment(fabric), **fabric.environment},
        stdin=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        out, err = await started.communicate(text.encode())
    assert started.returncode is not None
    return Ended(started.returncode, out.decode(), err.decode(), 0.0, 0)


def environment(fabric: Fabric) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "PYTHONPATH"}}
    home = str(fabric.folder)
    more = {"FABRIC_URL": fabric.server} if fabric.server else {}
    return {**kept, "HOME": home, "TMPDIR": home, "FABRIC_CONFIG_PATH": f"{home}/fabric-config.json", **more}


@pytest.mark.proves("CO-22")
async def test_a_pipe_is_one_message_and_sessions_are_managed(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        await fabric("sessions", "list")  # writes the configuration
        first = await piped(fabric, "look at it\n", "--json", "--pack", "engineering")
        assert first.code == 0, first.err
        assert first.json["content"] == "I have looked."
        assert first.json["status"] == "completed"
        session = first.json["session_id"]
        second = await piped(fabric, "and now?", "--last")
        assert (second.code, second.out) == (0, "2 said, the last 'and now?'\n"), second.err
        listed = (await fabric("sessions", "list", "--json")).json["sessions"]
        assert [(each["id"], each["title"], each["has_unread"]) for each in listed] == [(session, "look at it", False)]
        shown = await fabric("sessions", "show", "--last")
        assert "I have looked." in shown.out
        found = (await fabric("sessions", "search", "NOW", "--json")).json["found"]
        assert {each["message"]["role"] for each in found} == {"user", "assistant"}
        assert (await fabric("sessions", "rename", session[:8], "Looking around")).code == 0
        forked = (await fabric("sessions", "fork", session, "--json")).json
        assert (forked["title"], forked["parent_session"]) == ("Looking around", session)
        third = await piped(fabric, "here", "--session", forked["id"], "--json")
        assert third.json["content"] == "3 said, the last 'here'", third.err
        exported = await fabric("sessions", "export", session)
        assert "list_files" in exported.out
        assert (await fabric("sessions", "delete", session, "--yes")).code == 0
        assert (await fabric("sessions", "show", session)).code == 2
        assert (await piped(fabric, "  \n")).code == 2


@pytest.mark.proves("CO-22")
async def test_a_terminal_talks_with_a_server_and_ctrl_c_stops_the_turn(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        async with serving(fabric) as server:
            there = Fabric(
                tmp_path / "there", settings(model.base_url), {"FABRIC_TOKEN": server.token}, server=server.url
            )
            made = await server.client.post("/api/v1/sessions", json={"pack": "engineering"})
            session = made.json()["id"]
            terminal = await Terminal.start(there, "chat", "--session", session)
            await terminal.until("> ")
            terminal.type("look at it")
            await terminal.until("I have looked.")
            terminal.type("/verify")
            await terminal.until("Verified: the hash chain of")
            terminal.type("/undo")
            await terminal.until("Nothing to take back")
            said = await server.client.post(f"/api/v1/sessions/{session}/messages", json={"content": "from the page"})
            assert said.status_code == 202, said.text
            await terminal.until("2 said, the last 'from the page'")
            here = await Terminal.start(
                fabric, "chat", "--workspace", str(fabric.root), "--session", session, configured=True
            )
            await here.until("from the page'")
            here.type("without the server")
            await here.until("3 said, the last 'without the server'")
            here.type("/quit")
            assert await here.ended() == 0
            terminal.type("slowly")
            await terminal.until("one two")
            terminal.process.send_signal(signal.SIGINT)
            await terminal.until("what was said is kept")
            terminal.type("/quit")
            assert await terminal.ended() == 0
            messages = (await server.client.get(f"/api/v1/sessions/{session}/messages")).json()["messages"]
            assert messages[-1]["metadata"]["status"] == "stopped"


@pytest.mark.proves("CO-22", "FC-036")
async def test_a_terminal_without_a_server_asks_stops_forks_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        await fabric("sessions", "list")
        place = ("--workspace", str(fabric.root))
        terminal = await Terminal.start(fabric, "chat", "--pack", "engineering", *place, configured=True)
        await terminal.until("> ")
        terminal.type("deploy it")
        await terminal.until("Allow it")
        terminal.type("d")
        await terminal.until("Why?")
        terminal.type("not today")
        await terminal.until("I have looked.")
        terminal.type("do the long thing")
        await terminal.until("300 lines")
        await terminal.until("Show [a]ll of it")
        terminal.type("o")  # not before all of it was shown
        await terminal.until("Show [a]ll of it")
        terminal.type("a")
        await terminal.until("│ make deploy")
        await terminal.until("Allow it [o]nce")
        terminal.type("o")
        await terminal.until("I have looked.")
        terminal.type("slowly")
        await terminal.until("one two")
        terminal.process.send_signal(signal.SIGINT)
        await terminal.until("what was said is kept")
        terminal.type("/fork")
        await terminal.until("a fork of the session before")
        terminal.type("slowly, again")
        await terminal.until("one two")
        terminal.process.send_signal(signal.SIGKILL)
        await terminal.ended()
        again = await Terminal.start(fabric, "chat", "--last", *place, configured=True)
        await again.until("nine ten")
        again.type("/quit")
        assert await again.ended() == 0
        listed = (await fabric("sessions", "list", "--json")).json["sessions"]
        assert [each["parent_session"] for each in listed] == [listed[1]["id"], None]
        shown = (await fabric("sessions", "show", "--last", "--json")).json["messages"]
        assert [each["metadata"].get("status") for each in shown if each["role"] == "assistant"] == [
            "completed",
            "completed",
            "stopped",
            "completed",
        ]


@pytest.mark.proves("DB-4")
@pytest.mark.proves("CP-4", "CP-9")
async def test_commands_of_ones_own_are_said_in_chat_and_run(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        await fabric("chat", "good", "morning")  # makes the folder
        (fabric.root / "commands").mkdir()
        (fabric.root / "commands/greet.md").write_text("---\narguments: [who]\n---\nGreet $who warmly.\n")
        place = ("--workspace", str(fabric.root))
        terminal = await Terminal.start(fabric, "chat", *place, configured=True)
        await terminal.until("/help shows commands")
        terminal.type("/greet Ada Lovelace")
        await terminal.until("came with the project, and you have not agreed to it")
        terminal.type("/quit")
        assert await terminal.ended() == 0
        refused = await fabric("run", "/greet", "Ada")
        assert refused.code == 2
        assert "This needs confirmation" in refused.err
        agreeing = await Terminal.start(fabric, "run", "/greet", "Ada", "--pack", "assistant", *place, configured=True)
        await agreeing.until("Use this command as it is now?")
        agreeing.type("y")
        await agreeing.ended()
        listed = await fabric("logs", "list", "--json")
        assert "Greet Ada warmly." in listed.out
        terminal = await Terminal.start(fabric, "chat", *place, configured=True)
        await terminal.until("/help shows commands")
        terminal.type("/greet")
        await terminal.until("/greet needs WHO")
        terminal.type("/greet Ada Lovelace")
        await terminal.until("1 said, the last 'Greet Ada Lovelace warmly.'")
        terminal.type("/skill notes for today")
        await terminal.until("Use the skill notes: read it with the tool `skill`, then follow it. for today")
        terminal.type("/nothing")
        await terminal.until("There is no command /nothing")
        terminal.type("/quit")
        assert await terminal.ended() == 0
        assert "no command /nothing" in (await fabric("run", "/nothing", "at", "all")).err
        path_first = await fabric("run", "/etc is full", "--pack", "assistant")
        assert path_first.code == 0, path_first.err


async def test_first_words_are_said_at_once(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        once = await fabric("chat", "good", "morning")  # its standard input is empty, and not read
        assert (once.code, once.out) == (0, "1 said, the last 'good morning'\n"), once.err
        place = ("--workspace", str(fabric.root))
        terminal = await Terminal.start(fabric, "chat", "--last", "and a good day", *place, configured=True)
        await terminal.until("2 said, the last 'and a good day'")
        terminal.type("bye")
        await terminal.until("3 said")
        terminal.type("/quit")
        assert await terminal.ended() == 0


@pytest.mark.proves("CO-23", "CO-24", "CO-25")
async def test_a_terminal_shows_what_an_answer_rests_on_and_takes_files_back(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        await fabric("sessions", "list")
        place = ("--workspace", str(fabric.root))
        terminal = await Terminal.start(fabric, "chat", "--pack", "engineering", *place, configured=True)
        await terminal.until("> ")
        terminal.type("write the report")
        await terminal.until("1 sentence rests on nothing")
        terminal.type("/sources")
        await terminal.until("] The report counts 4711 apples.")
        await terminal.until("[nothing; nowhere: 815] It was sent")
        terminal.type("/timeline")
        await terminal.until("write_file")
        await terminal.until("tokens in")
        terminal.type("/context 3")
        await terminal.until("--- user")
        terminal.type("/verify")
        await terminal.until("Verified: the hash chain of")
        terminal.type("/fork 1")
        await terminal.until("There you said: write the report")
        terminal.type("/quit")
        assert await terminal.ended() == 0
        session = (await fabric("sessions", "list", "--json")).json["sessions"][-1]["id"]
        again = await Terminal.start(fabric, "chat", "--session", session, *place, configured=True)
        await again.until("815 people")
        assert [*fabric.root.rglob("report.txt")] != []
        again.type("/undo 2")
        await again.until("There are 1 turns")
        again.type("/undo")
        await again.until("taken back: report.txt")
        again.type("/quit")
        assert await again.ended() == 0
        assert [*fabric.root.rglob("report.txt")] == []


@pytest.mark.proves("CP-11")
async def test_a_terminal_that_can_show_it_has_a_line_editor(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url), {"TERM": "xterm"})
        await fabric("sessions", "list")
        place = ("--workspace", str(fabric.root))
        terminal = await Terminal.start(fabric, "chat", "--pack", "engineering", *place, configured=True)
        await terminal.until("0 tokens")
        terminal.press("look\x1b\rat it\r")
        await terminal.until("I have looked.")
        await terminal.until("tokens")
        terminal.press("slowly\r")
        await terminal.until("one two")
        terminal.process.send_signal(signal.SIGINT)
        await terminal.until("what was said is kept")
        await terminal.until("tokens")
        terminal.press("!echo out$((1+1))\r")
        await terminal.until("out2")
        await terminal.until("tokens")
        terminal.press("/quit\r")
        assert await terminal.ended() == 0
        again = await Terminal.start(fabric, "chat", "--last", *place, configured=True)
        await again.until("tokens")
        again.press("\x12look\r")
        await again.until("at it")
        again.press("\r")
        await again.until("I have looked.")
        await again.until("tokens")
        again.press("\x03\x03")
        assert await again.ended() == 130


class Terminal:
    """A `fabric` process whose streams are a terminal."""

    def __init__(self, process: Any, master: int) -> None:
        self.process = process
        self._master = master
        self._shown = b""

    @classmethod
    async def start(cls, fabric: Fabric, *arguments: str, configured: bool = False) -> "Terminal":
        fabric.folder.mkdir(parents=True, exist_ok=True)
        if not configured:
            (fabric.folder / "fabric-config.json").write_text("{}")
        master, slave = pty.openpty()
        env = {**environment(fabric), "TERM": "dumb", **fabric.environment}
        process = await start_fabric(
            list(arguments), cwd=fabric.folder, env=env, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        os.set_blocking(master, False)
        return cls(process, master)

    def press(self, keys: str) -> None:
        """Press keys of a terminal that edits lines."""
        os.write(self._master, keys.encode())

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    async def until(self, text: str) -> None:
        """Wait until something is shown; what was shown before does not count."""
        async with asyncio.timeout(PATIENCE_S):
            while text.encode() not in self._shown:
                self._read()
                await asyncio.sleep(0.02)
        self._shown = self._shown.partition(text.encode())[2]

    def _read(self) -> None:
        try:
            shown = os.read(self._master, 65536)
        except (BlockingIOError, OSError):
            return
        self._shown += shown
        for _ in range(shown.count(b"\x1b[6n")):  # where is the cursor?
            self.press("\x1b[1;1R")

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            while self.process.returncode is None:
                self._read()
                waiting: Sequence[Any] = [asyncio.ensure_future(self.process.wait())]
                await asyncio.wait(waiting, timeout=0.05)
        return int(self.process.returncode)
