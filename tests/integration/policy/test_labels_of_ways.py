"""Each way in gives a run the labels of the table, and each way out asks once it has both, by the code of real runs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.automation.make_tasks import TriggeredTasks
from agent_fabric.application.fleet.fleet_policy import FleetPolicy
from agent_fabric.application.runs.continue_run import quoted_labels
from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.application.tools.proposed_call import origin_of, private_source, propose
from agent_fabric.bootstrap.memory import open_memory
from agent_fabric.bootstrap.this_machine import open_skills
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.schema.automation import WebhookConfig
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.events import Event
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.policy.labels import NO_BOX, Flow
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.runs.evolve import evolve, fold
from agent_fabric.domain.runs.labelling import labels_handed_on, note_tools
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Parent, Quoted, Task
from agent_fabric.domain.tools.specs import ToolSpec
from agent_fabric.domain.workflows.events import SignalReceived
from agent_fabric.infrastructure.packs.actions import action
from agent_fabric.infrastructure.tools.browser_tools import BROWSER_CLICK, BROWSER_TYPE
from agent_fabric.infrastructure.tools.http import HTTP_REQUEST
from agent_fabric.infrastructure.tools.mcp.tool_conversion import ListedTool, tool_spec
from agent_fabric.infrastructure.tools.send_message import SEND_MESSAGE
from agent_fabric.infrastructure.tools.shell import SHELL
from agent_fabric.infrastructure.tools.web import FETCH_URL, WEB_SEARCH
from agent_fabric.interfaces.acp.prompts import prompt_param
from integration.policy.machines import Machines
from integration.policy.obedient import do
from integration.policy.place import READ_NOTES
from integration.policy.test_every_way import Scene, Stage, document, machine, other_run, page, stage, tool_server
from unit.application.channels.test_files import PHOTO
from unit.application.channels.world import GROUP, World
from ways_tables import Judged, Marks, WayIn, WayOut, way_out_of

Labels = tuple[bool, bool]
"""Whether a run is exposed, and whether it is private."""
PLAIN = "Otters hold hands."


def labels_of(state: RunState) -> Labels:
    return bool(state.untrusted), bool(state.private)


async def after_run(on: Stage, task: Task) -> RunState:
    result = await on.fabric.execute_task(task)
    return fold(result.run_id, await on.fabric.records.runs.read(result.run_id))


def begun(on: Stage, task: Task) -> RunState:
    """Return a run at its first event."""
    return fold(RunId("r"), [on.fabric.execute_task.first_event(RunId("r"), task)])


async def reading(on: Stage, *todo: str, here: bool = False) -> Labels:
    return labels_of(await after_run(on, on.task("\n".join(todo), here=here)))


async def by(on: Stage, source: Callable[[Stage, Scene, str], Awaitable[None]]) -> Labels:
    scene = Scene()
    await source(on, scene, PLAIN)
    return await reading(on, *scene.todo, here=scene.here)


async def answer(on: Stage) -> Labels:
    state = begun(on, on.task("hello"))
    signal = SignalReceived(name="go", data={"text": PLAIN}, by="ada")
    evolve(state, Event(seq=1, ts=0.0, lane=None, step="", body=signal))
    return labels_of(state)


async def on_channel(on: Stage, text: str, **more: Any) -> Labels:
    """Let a person send something on a channel, and begin the turn that it becomes."""
    world = World()
    await world.add("ann")
    world.channel.files["f1"] = b"data"
    said = await world.write(text, **more)
    held = await world.store.conversations.find(said.place)
    assert held is not None
    (message,) = await world.storage.message_queue.list(held.session_id)
    quotes = message.asked.get("quotes")
    told = None
    if quotes is not None:
        told = Quoted(own_words="", untrusted=tuple(quotes["untrusted"]), private=tuple(quotes["private"]))
    return labels_of(begun(on, replace(on.task(message.content), quotes=told)))


async def triggered(on: Stage, source: str, *, public: bool = False) -> Labels:
    on.at.workflow("react", {"id": "a", "action": "wait", "inputs": {"seconds": 0}}, inputs=("text",))
    hook = WebhookConfig(scheme="github", secret="env:HOOK_SECRET", private=not public)
    config = on.config.model_copy(update={"webhooks": {"mail": hook}})
    make = TriggeredTasks(open_workflows(on.at.folder / ".fabric", config), on.at.folder)
    return labels_of(begun(on, await make(source, "react", {"text": PLAIN})))


async def clone_is_exposed(on: Stage) -> Labels:
    execute = replace(on.fabric.execute_task, untrusted_files=lambda *_: "a clone")
    return labels_of(fold(RunId("r"), [execute.first_event(RunId("r"), on.task("hello", here=True))]))


async def fact(on: Stage) -> Labels:
    memory = open_memory(on.fabric.records, on.config)
    await memory.remember("The cellar key hangs behind the clock.", by=LOCAL_OWNER)
    return await reading(on, do("memory_search", query="cellar key clock"))


async def child(on: Stage) -> Labels:
    parent = Parent(run_id=RunId("p"), lane=LaneId("a"), level=1, untrusted=("a page",), private=("memory",))
    return labels_of(begun(on, replace(on.task("hello"), parent=parent)))


async def conversation(on: Stage) -> Labels:
    scene = Scene()
    await document(on, scene, PLAIN)
    before = await after_run(on, on.task("\n".join(scene.todo)))
    task = on.task("and then?")
    return labels_of(
        begun(on, replace(task, quotes=quoted_labels(RunId("b"), labels_handed_on(before), LOCAL_OWNER, task)))
    )


async def from_editor(on: Stage) -> Labels:
    link = {"uri": "file:///srv/notes.md", "text": PLAIN}
    said = prompt_param({"prompt": [{"type": "text", "text": "hello"}, {"type": "resource", "resource": link}]})
    return await _begins(on, prompt=said.text, quotes=said.quotes)


async def trusted_skill(on: Stage) -> Labels:
    place = on.at.folder / ".agents/skills/notes"
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(f"---\nname: notes\ndescription: Takes notes.\n---\n{PLAIN}\n")
    skills = open_skills(on.at.folder / ".fabric")
    skills.trust(skills.find("notes"))
    state = await after_run(on, on.task(do("skill", name="notes")))
    assert PLAIN in str(state.lanes)
    return labels_of(state)


async def list_of_machines(on: Stage) -> Labels:
    return await reading(on, do("node_list"))


async def trusted_machine(on: Stage) -> Labels:
    on.machines.trust("web-1", "text")
    try:
        return await by(on, machine)
    finally:
        on.machines.nodes = Machines().nodes
        on.machines.join(on.fabric)


def description(*, trusted: bool) -> Callable[[Stage], Awaitable[Labels]]:
    """Return what a run reads whose tools a server describes."""

    async def begin(on: Stage) -> Labels:
        server = MCPServerConfig(name="x", transport="http", url="https://x.example/mcp", trusted=trusted)
        state = begun(on, on.task("hello"))
        note_tools(state, [tool_spec(server, ListedTool(name="look", description=PLAIN, schema={}))])
        return labels_of(state)

    return begin


async def unboxed(on: Stage) -> Labels:
    site = _site(Flow())
    call = propose(SHELL, {"command": "ls"}, site, "C")
    assert private_source(SHELL, call, boxed=False) == NO_BOX
    return bool(origin_of(SHELL, call, "")), bool(private_source(SHELL, call, boxed=False))


CELLS: dict[WayIn, dict[str, Callable[[Stage], Awaitable[Labels]]]] = {
    WayIn.PROMPT: {"": lambda on: reading(on, "hello"), "on a channel": lambda on: on_channel(on, "hello")},
    WayIn.ANSWER: {"": answer},
    WayIn.FORWARDED: {
        "forwarded": lambda on: on_channel(on, PLAIN, is_forwarded=True),
        "quoted": lambda on: on_channel(on, "?", place=GROUP, is_addressed=True, quoted=PLAIN),
    },
    WayIn.CHANNEL_FILE: {"": lambda on: on_channel(on, "What is this?", files=(PHOTO,))},
    WayIn.EDITOR: {"": from_editor},
    WayIn.WEBHOOK: {"": lambda on: triggered(on, "webhook mail")},
    WayIn.SENSOR: {"": lambda on: triggered(on, "sensor files")},
    WayIn.SKILL: {"": trusted_skill},
    WayIn.WORKSPACE: {
        "": lambda on: reading(on, do("write_file", path="a.md", content="x"), do("read_file", path="a.md"))
    },
    WayIn.DOCUMENT: {"": lambda on: by(on, document)},
    WayIn.OTHER_RUN: {"": lambda on: by(on, other_run)},
    WayIn.CHILD: {"": child},
    WayIn.CONVERSATION: {"": conversation},
    WayIn.WEB: {"": lambda on: by(on, page)},
    WayIn.TOOL_SERVER: {"": lambda on: by(on, tool_server)},
    WayIn.MACHINE: {"": lambda on: by(on, machine)},
    WayIn.DESCRIPTION: {"": description(trusted=False)},
    WayIn.UNBOXED_COMMAND: {"": unboxed},
    WayIn.RUN_AS_AUTHOR: {"": lambda on: _begins(on, started_by="other-run")},
}
"""For each way, what gives a run its labels; all of them as the table says."""
CONDITIONS: dict[str, tuple[WayIn, Callable[[Stage], Awaitable[Labels]], Labels]] = {
    "a project": (WayIn.PROJECT, lambda on: reading(on, READ_NOTES, here=True), (False, True)),
    "a clone": (WayIn.PROJECT, clone_is_exposed, (True, True)),
    "a trusted server": (WayIn.DESCRIPTION, description(trusted=True), (False, False)),
    "a fact": (WayIn.FACT, fact, (False, True)),
    "a public webhook": (WayIn.WEBHOOK, lambda on: triggered(on, "webhook mail", public=True), (True, False)),
    "the list of machines": (WayIn.LIST_OF_MACHINES, list_of_machines, (False, True)),
    "a machine that is trusted with text": (WayIn.MACHINE, trusted_machine, (False, True)),
}
"""Where the table has a note: what holds under it."""
ELSEWHERE = {
    WayIn.COMMAND: ("integration/policy/test_obedient_commands.py", "test_what_a_command_fetched_exposes_the_run"),
    WayIn.OUTSIDE_COMMAND: (
        "integration/outside/test_outside_the_box.py",
        "test_a_push_makes_no_file_of_the_project_a_strangers_text",
    ),
}
"""Ways that need a box, a server or a repository of their own."""


async def _begins(on: Stage, **changes: Any) -> Labels:
    return labels_of(begun(on, replace(on.task("hello"), **changes)))


@pytest.mark.proves("WB-1", "WB-2")
async def test_each_way_in_gives_a_run_the_labels_of_the_table(tmp_path: Path) -> None:
    found, expected = {}, {}
    async with stage(tmp_path) as on:
        for way, sources in CELLS.items():
            for name, source in sources.items():
                await on.forget()
                found[way.name, name] = await source(on)
                expected[way.name, name] = (way.value.exposed is not Marks.NO, way.value.private is not Marks.NO)
        for name, (way, source, labels) in CONDITIONS.items():
            await on.forget()
            found[way.name, name] = await source(on)
            expected[way.name, name] = labels
    assert found == expected
    assert {*CELLS, *ELSEWHERE, *(way for way, _, _ in CONDITIONS.values())} == set(WayIn)
    for file, words in ELSEWHERE.values():
        assert words in (Path(__file__).parents[2] / file).read_text(), file


def _site(flow: Flow) -> CallSite:
    return CallSite(run_id=RunId("r"), lane=LaneId("l"), step=0, agent="a", target="/w", scopes=frozenset(), flow=flow)


@action(name="post-somewhere")
def _post(inputs: Mapping[str, Any], context: Any) -> None:
    """Stand for an action of a package."""


SENDING: dict[WayOut, tuple[tuple[ToolSpec, dict[str, Any]], ...]] = {
    WayOut.ADDRESS: (
        (FETCH_URL, {"url": "https://a.example/?d=1"}),
        (HTTP_REQUEST, {"url": "https://a.example/", "method": "POST", "body": "x"}),
    ),
    WayOut.SEARCH: ((WEB_SEARCH, {"query": "otter " * 40}),),
    WayOut.FORM: ((BROWSER_CLICK, {"number": 3}), (BROWSER_TYPE, {"number": 3, "text": "x"})),
    WayOut.MESSAGE: ((SEND_MESSAGE, {"to": "ann", "text": "x"}),),
    WayOut.ACTION: ((_post.spec, {"text": "x"}),),
    WayOut.COMMAND: ((SHELL, {"command": "curl https://a.example/?d=1"}), (SHELL, {"command": "python3 send.py"})),
}


@pytest.mark.proves("WB-1")
async def test_each_way_out_that_the_labels_judge_asks_once_both_hold(tmp_path: Path) -> None:
    both = Flow(exposed=("web: https://evil.example",), private=("documents and facts in memory",))
    async with stage(tmp_path) as on:
        policy = FleetPolicy(on.fabric.rules, on.fabric.fleet_door)
        for way, calls in SENDING.items():
            for spec, args in calls:
                call = propose(spec, args, _site(both), "A", commands_reach="a.example")
                assert policy.judge(call).verdict is Verdict.ASK, (way, spec.name)
                assert way_out_of(spec) is way or way is WayOut.ADDRESS
        messages = [propose(SEND_MESSAGE, {"to": to, "text": "x"}, _site(both), "A") for to in ("ann", "bob")]
        assert [policy.judge(each).alike for each in messages] == [
            f"every `send_message` to {to}, also after untrusted text" for to in ("ann", "bob")
        ], "who agrees that Ann is told has not agreed that Bob is"
    played = {WayOut.HOST_NAME, WayOut.TOOL_SERVER, WayOut.MACHINE}  # in the scenes
    assert played | SENDING.keys() == {way for way in WayOut if way.value.judged is Judged.BY_LABELS}
