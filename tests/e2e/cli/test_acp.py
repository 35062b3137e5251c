"""`fabric acp` with the official client of the Agent Client Protocol at the other end of its pipes."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from acp import Client, RequestError, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
    WriteTextFileResponse,
)

from agent_fabric.testing.scripted_model import Answer, Call, Say, ScriptedModel
from e2e.cli.test_chat import environment
from e2e.fabric_process import Fabric, configure, settings
from e2e.fork_server import Process, start_fabric
from long_calls import script

PATIENCE_S = 60.0


def answering(request: dict[str, Any], _: int) -> Answer:
    """Answer a prompt by its words."""
    said = [message for message in request["messages"] if message["role"] == "user"]
    last, words = request["messages"][-1], str(said[-1]["content"])
    if last["role"] == "tool":
        return Say("It is done.")
    if "write" in words:
        return Call("write_file", {"path": "notes.txt", "content": "new\n"})
    if "read" in words:
        return Call("read_file", {"path": "notes.txt"})
    if "deploy" in words:
        return Call("shell", {"command": "make deploy"})
    if "long" in words:
        return Call("shell", {"command": script(300, "middle")})
    if "slowly" in words:
        return Say("one two three four five six seven eight nine ten", pause_s=0.5)
    return Say(f"{len(said)} said")


class Editor:
    """An editor: keeps what it is shown, and answers what it is asked."""

    def __init__(self, chooses: str = "once") -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[tuple[ToolCallUpdate, list[str]]] = []
        self.chooses = chooses
        self.buffers: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.changed = asyncio.Event()
        self.offers = ClientCapabilities()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        shown = {"session": session_id, **update.model_dump(by_alias=True, exclude_none=True)}
        self.updates.append(shown)
        self.changed.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        assert session_id
        self.asked.append((tool_call, [each.option_id for each in options]))
        self.changed.set()
        if self.chooses == "wait":
            await asyncio.Event().wait()
        if self.chooses == "cancel":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.chooses))

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        assert session_id
        return ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        assert session_id
        self.written[path] = content
        return WriteTextFileResponse()

    def on_connect(self, conn: Any) -> None:
        """Nothing is begun by itself."""

    def kinds(self) -> list[str]:
        return [each["sessionUpdate"] for each in self.updates]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(each["content"]["text"] for each in self.updates if each["sessionUpdate"] == kind)

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not met():
                self.changed.clear()
                await self.changed.wait()


class Project:
    """A project folder with `fabric acp` for it."""

    def __init__(self, folder: Path, base_url: str, **more: Any) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        (self.folder / "notes.txt").write_text("old\n")
        (folder / "home").mkdir()
        self.fabric = Fabric(folder / "home", settings(base_url, **more))
        configure(folder / "home" / "fabric-config.json", self.fabric.configured)
        self.process: Process | None = None

    async def start(self) -> Process:
        self.process = await start_fabric(
            ["acp", "--workspace", str(self.fabric.root)],
            cwd=self.folder,
            env={**environment(self.fabric), "PATH": os.environ["PATH"]},
            stdin=asyncio.subprocess.PIPE,
        )
        return self.process

    @asynccontextmanager
    async def open_in(self, editor: Editor) -> AsyncIterator[ClientSideConnection]:
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        connection = ClientSideConnection(cast("Client", editor), process.stdin, process.stdout)
        try:
            async with asyncio.timeout(PATIENCE_S):
                begun = await connection.initialize(protocol_version=1, client_capabilities=editor.offers)
                assert begun.protocol_version == 1
                yield connection
        finally:
            process.stdin.close()
            async with asyncio.timeout(PATIENCE_S):
                err = await process.stderr.read() if process.stderr else b""
                await process.wait()
            await connection.close()
            assert b"Traceback" not in err, err.decode()


@pytest.mark.proves("CP-1")
async def test_a_prompt_shows_calls_diffs_and_the_answer_and_the_session_is_ours(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        project = Project(tmp_path, model.base_url)
        editor = Editor()
        async with project.open_in(editor) as agent:
            session = (await agent.new_session(cwd=str(project.folder), mcp_servers=[])).session_id
            answer = await agent.prompt(session_id=session, prompt=[text_block("write it")])
            assert answer.stop_reason == "end_turn"
            assert answer.usage is not None
            assert answer.usage.total_tokens > 0
            assert editor.text() == "It is done."
            call = next(each for each in editor.updates if each["sessionUpdate"] == "tool_call")
            file = str(project.folder / "notes.txt")
            assert (call["kind"], call["locations"]) == ("edit", [{"path": file}])
            assert call["content"] == [{"type": "diff", "path": file, "oldText": "old\n", "newText": "new\n"}]
            ended = [each for each in editor.updates if each.get("status") == "completed"]
            assert [each["toolCallId"] for each in ended] == [call["toolCallId"]]
            assert (project.folder / "notes.txt").read_text() == "new\n"
            listed = (await agent.list_sessions(cwd=str(project.folder))).sessions
            assert [(each.session_id, each.title) for each in listed] == [(session, "write it")]
            assert (await agent.list_sessions(cwd=str(tmp_path))).sessions == []
        ours = (await project.fabric("sessions", "list", "--json")).json["sessions"]
        assert [(each["id"], each["project"]) for each in ours] == [(session, str(project.folder))]
        run = (await project.fabric("logs", "list", "--json")).json["runs"][0]["run_id"]
        assert (await project.fabric("undo", run)).code == 0
        assert (project.folder / "notes.txt").read_text() == "old\n"


@pytest.mark.proves("CP-1", "CP-7")
async def test_in_plan_mode_a_turn_reads_and_the_policy_lets_it_change_nothing(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        project = Project(tmp_path, model.base_url)
        editor = Editor()
        async with project.open_in(editor) as agent:
            begun = await agent.new_session(cwd=str(project.folder), mcp_servers=[])
            assert begun.modes is not None
            assert [each.id for each in begun.modes.available_modes] == ["work", "plan"]
            await agent.set_session_mode(session_id=begun.session_id, mode_id="plan")
            await agent.prompt(session_id=begun.session_id, prompt=[text_block("write it")])
            assert (project.folder / "notes.txt").read_text() == "old\n"
            assert "only makes a plan" in json.dumps(editor.updates)
            await agent.set_session_mode(session_id=begun.session_id, mode_id="work")
            await agent.prompt(session_id=begun.session_id, prompt=[text_block("write it")])
            assert (project.folder / "notes.txt").read_text() == "new\n"
            with pytest.raises(RequestError):
                await agent.set_session_mode(session_id=begun.session_id, mode_id="nothing")


@pytest.mark.proves("CP-2")
async def test_what_is_not_saved_is_read_and_what_is_written_is_shown(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        project = Project(tmp_path, model.base_url)
        file = str(project.folder / "notes.txt")
        editor = Editor()
        editor.offers = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True))
        editor.buffers[file] = "not saved yet\n"
        async with project.open_in(editor) as agent:
            session = (await agent.new_session(cwd=str(project.folder), mcp_servers=[])).session_id
            await agent.prompt(session_id=session, prompt=[text_block("read it")])
            assert "not saved yet" in json.dumps(model.requests[-1].body)
            await agent.prompt(session_id=session, prompt=[text_block("write it")])
            assert editor.written == {file: "new\n"}
            assert (project.folder / "notes.txt").read_text() == "new\n"
            del editor.buffers[file]  # the editor fails: the disk counts
            await agent.prompt(session_id=session, prompt=[text_block("read it")])
            assert editor.text().endswith("It is done.")


@pytest.mark.proves("CP-1")
@pytest.mark.parametrize(("chooses", "decision"), [("once", "approve"), ("deny", "deny"), ("nonsense", "deny")])
async def test_an_approval_is_asked_in_the_editor(tmp_path: Path, chooses: str, decision: str) -> None:
    async with ScriptedModel(answering) as model:
        project = Project(tmp_path, model.base_url)
        editor = Editor(chooses)
        async with project.open_in(editor) as agent:
            session = (await agent.new_session(cwd=str(project.folder), mcp_servers=[])).session_id
            answer = await agent.prompt(session_id=session, prompt=[text_block("deploy it")])
            assert answer.stop_reason == "end_turn"
        ((call, options),) = editor.asked
        assert options[0] == "once"
        assert options[-1] == "deny"
        assert call.kind == "execute"
        assert "make deploy" in json.dumps(call.model_dump())
        events = (await project.fabric("logs", "show", "--last", "--json")).json["events"]
        decided = next(each["payload"] for each in events if each["kind"] == "approval_decided")
        assert (decided["decision"], decided["via"]) == (decision, "editor")


@pytest.mark.proves("CP-1", "CP-3")
@pytest.mark.parametrize("words", ["slowly", "a long one", "deploy it"])
async def test_a_turn_is_cancelled_in_the_middle(tmp_path: Path, words: str) -> None:
    async with ScriptedModel(answering) as model:
        project = Project(tmp_path, model.base_url)
        editor = Editor("wait")
        async with project.open_in(editor) as agent:
            session = (await agent.new_session(cwd=str(project.folder), mcp_servers=[])).session_id
            asked = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[text_block(words)]))
            await editor.until(lambda: bool(editor.asked) if "deploy" in words else bool(editor.updates))
            await agent.cancel(session_id=session)
            assert (await asked).stop_reason == "cancelled"
            again = await agent.prompt(session_id=session, prompt=[text_block("hello")])
            assert again.stop_reason == "end_turn"
            assert editor.text().endswith("2 said")


@pytest.mark.proves("CP-3")
async def test_a_killed_agent_goes_on_after_the_session_is_loaded(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        project = Project(tmp_path, model.base_url)
        editor = Editor()
        process = await project.start()
        assert process.stdin is not None
        assert process.stdout is not None
        first = ClientSideConnection(cast("Client", editor), process.stdin, process.stdout)
        await first.initialize(protocol_version=1)
        session = (await first.new_session(cwd=str(project.folder), mcp_servers=[])).session_id
        for number in range(3):
            await first.prompt(session_id=session, prompt=[text_block(f"hello {number}")])
        asked = asyncio.ensure_future(first.prompt(session_id=session, prompt=[text_block("slowly")]))
        await editor.until(lambda: "one" in editor.text())
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await asyncio.gather(asked, return_exceptions=True)
        await first.close()
        fresh = Editor()
        async with project.open_in(fresh) as agent:
            await agent.load_session(cwd=str(project.folder), session_id=session, mcp_servers=[])
            assert fresh.text("user_message_chunk") == "hello 0hello 1hello 2slowly"
            assert fresh.text().startswith("1 said2 said3 said")
            await fresh.until(lambda: fresh.text().endswith("nine ten"))
            with pytest.raises(RequestError, match="works in"):
                await agent.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            with pytest.raises(RequestError):
                await agent.load_session(cwd=str(project.folder), session_id="nothing", mcp_servers=[])


@pytest.mark.proves("CP-3")
async def test_malformed_and_hostile_frames_are_answered_with_errors_and_nothing_else_happens(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        project = Project(tmp_path, model.base_url)
        process = await project.start()
        assert process.stdin is not None
        assert process.stdout is not None
        frames: list[tuple[bytes, int]] = [
            (b"not json", -32700),
            (b"[" * 100_000, -32700),
            (b"[]", -32600),
            (b'"text"', -32600),
            (b"\xff\xfe\x00", -32700),
            (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
            (b'{"jsonrpc":"2.0","id":[1],"method":"initialize"}', -32600),
            (b'{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":[1]}', -32600),
            (b'{"jsonrpc":"2.0","id":3,"method":"nothing/such"}', -32601),
            (b'{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"x"}}', -32602),
            (b'{"jsonrpc":"2.0","id":5,"method":"session/new","params":{"cwd":"relative"}}', -32602),
            (b'{"jsonrpc":"2.0","id":6,"method":"session/new","params":{"cwd":"/etc"}}', -32603),
            (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/a\\u0000b"}}', -32602),
            (b'{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"x","prompt":[{}]}}', -32602),
            (b'{"jsonrpc":"2.0","id":9,"method":"session/load","params":{"cwd":"/","sessionId":"\\ud800"}}', -32700),
            (b"x" * (17 * 1024 * 1024), -32600),
        ]
        ignored = [
            b"",
            b'{"jsonrpc":"2.0","id":77,"result":{}}',
            b'{"jsonrpc":"2.0","id":true,"error":7}',
            b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":["x"]}}',
            b'{"jsonrpc":"2.0","method":"nothing"}',
        ]
        async with asyncio.timeout(PATIENCE_S):
            for frame, code in frames:
                process.stdin.write(b"\n".join([*ignored, frame]) + b"\n")
                await process.stdin.drain()
                line = json.loads(await process.stdout.readline())
                assert line.get("error", {}).get("code") == code, (frame[:80], line)
            process.stdin.write(b'{"jsonrpc":"2.0","id":10,"method":"initialize","params":{"protocolVersion":9}}\n')
            assert json.loads(await process.stdout.readline())["result"]["protocolVersion"] == 1
            process.stdin.close()
            assert await process.wait() == 0
        assert model.requests == []
