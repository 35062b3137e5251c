"""Ordinary work on machines asks no more than a table says; where one machine is concerned, no more than before."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand
from agent_fabric.application.fleet.fleet_policy import asked_of_node
from agent_fabric.application.ports.memory import NewDocument
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.memory import open_memory
from agent_fabric.config.loader import read_config
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.testing.scripted_model import Answer, Call, Finish, Script
from integration.policy.machines import Machines
from integration.policy.place import Place, place
from integration.policy.test_everyday_tasks import finish

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "security.md"
DONE = Finish(summary="done", machines=[], verified="looked", next_steps=[])


@dataclass(frozen=True, kw_only=True)
class OnMachines:
    """A task, what a sensible model does about it, and how many questions that takes."""

    task: str
    calls: Sequence[Call]
    before: int = 0
    """Questions that 0.7 asked: those of the machine's own policies."""
    now: int = 0
    machines: int = 1


def on(node: str, tool: str, **args: Any) -> Call:
    return Call(f"node_{tool}", {"node": node, **args})


def run(node: str, *commands: str) -> tuple[Call, ...]:
    return tuple(on(node, "run_command", command=command) for command in commands)


LIST = Call("node_list", {})
RUNBOOK = Call("memory_search", {"query": "runbook of the shop"})

TASKS: dict[str, OnMachines] = {
    "Why is the disk of a machine full?": OnMachines(
        task="Why is the disk of web-1 full?",
        calls=(LIST, on("web-1", "system_info"), *run("web-1", "df -h", "du -sh /var/log", "ls -l /var/log")),
    ),
    "Is a service running, and what does it log?": OnMachines(
        task="Is nginx well on web-1?",
        calls=(
            on("web-1", "services", match="nginx"),
            on("web-1", "journal", unit="nginx.service", lines=100),
            *run("web-1", "systemctl status nginx"),
        ),
    ),
    "Restart a service": OnMachines(
        task="Restart nginx on web-1.",
        calls=run("web-1", "systemctl status nginx", "systemctl restart nginx", "systemctl is-active nginx"),
        before=1,
        now=1,
    ),
    "Read an error log": OnMachines(
        task="What went wrong on web-1 last night?",
        calls=(
            on("web-1", "list_files", path="/var/log/nginx"),
            on("web-1", "read_file", path="/var/log/nginx/error.log"),
            *run("web-1", "grep -c timeout /var/log/nginx/error.log"),
        ),
    ),
    "Change a setting": OnMachines(
        task="Give nginx on web-1 four workers.",
        calls=(
            on("web-1", "read_file", path="/etc/nginx/nginx.conf"),
            on("web-1", "write_file", path="/etc/nginx/nginx.conf", content="worker_processes 4;\n"),
            *run("web-1", "nginx -t", "systemctl reload nginx", "systemctl is-active nginx"),
        ),
        before=3,
        now=3,
    ),
    "Which process takes the memory?": OnMachines(
        task="What takes the memory of web-1?",
        calls=(on("web-1", "processes", limit=20), *run("web-1", "free -m", "ps aux", "cat /proc/meminfo")),
    ),
    "Remove old files": OnMachines(
        task="Remove core dumps older than a week from web-1.",
        calls=run("web-1", "ls -l /var/crash", "rm /var/crash/core.1", "ls -l /var/crash"),
        before=1,
        now=1,
    ),
    "Install updates": OnMachines(
        task="Bring web-1 up to date.",
        calls=run("web-1", "cat /etc/os-release", "apt-get update", "apt-get -y upgrade", "uptime"),
        before=2,
        now=2,
    ),
    "Who was logged in?": OnMachines(
        task="Who was on web-1 today?",
        calls=run("web-1", "who", "tail -n 50 /var/log/auth.log"),
    ),
    "Is the clock right?": OnMachines(
        task="Is the clock of web-1 right?", calls=run("web-1", "date -u", "uptime", "cat /etc/timezone")
    ),
    "Compare the disks of all machines": OnMachines(
        task="Which machine has the fullest disk?",
        calls=(LIST, *(run(f"web-{number}", "df -h")[0] for number in (1, 2, 3))),
        machines=3,
    ),
    "See how all machines are": OnMachines(
        task="How are the machines?",
        calls=(LIST, *(on(f"web-{number}", "system_info") for number in (1, 2, 3))),
        machines=3,
    ),
    "See how all are, then look into one": OnMachines(
        task="Which machine is slow, and why?",
        calls=(
            *(on(f"web-{number}", "system_info") for number in (1, 2, 3)),
            *run("web-2", "ps aux", "cat /proc/loadavg"),
        ),
        now=1,
        machines=3,
    ),
    "Copy a setting from one machine to another": OnMachines(
        task="Configure nginx on web-2 as on web-1.",
        calls=(
            on("web-1", "read_file", path="/etc/nginx/nginx.conf"),
            on("web-2", "write_file", path="/etc/nginx/nginx.conf", content="all is well"),
        ),
        before=1,
        now=1,
        machines=2,
    ),
    "Follow a runbook of memory": OnMachines(
        task="Is the shop on web-1 well? See the runbook.",
        calls=(RUNBOOK, *run("web-1", "systemctl status shop", "ls -l /srv/shop", "uptime")),
        now=1,
    ),
}


async def remember_runbook(at: Place, configured: dict[str, Any], fabric: Any) -> None:
    memory = open_memory(fabric.records, read_config({}, overrides=configured).config)
    text = b"# Runbook of the shop\n\nLook at the service shop first, then at /srv/shop.\n"
    assert memory.add is not None
    await memory.add(NewDocument(data=text, source=str(at.folder / "runbook.md"), owner=LOCAL_OWNER))


def asked_before(dispatch: DispatchCommand, calls: Sequence[Call]) -> int:
    """Count the questions that the machines' own policies ask."""
    count = 0
    for call in calls:
        assert isinstance(call.arguments, dict)
        asked = asked_of_node(call.tool, call.arguments)
        if asked is not None:
            node = dispatch.nodes.find_now(asked[0])
            assert node is not None
            ruling = dispatch.judge(CommandRequest(node=node, tool_name=asked[1], arguments=asked[2], by=""))
            count += ruling.verdict is Verdict.ASK
    return count


class Turns:
    """The model of one engine, which follows another list for each task."""

    def __init__(self) -> None:
        self.script = Script(turns=())

    def __call__(self, request: dict[str, Any], attempt: int) -> Answer:
        return self.script(request, attempt)


@pytest.mark.proves("WB-1")
async def test_work_on_machines_finishes_with_no_more_questions_than_the_table_says(tmp_path: Path) -> None:
    machines, model, asked = Machines(), Turns(), {}
    async with place(tmp_path) as at:
        at.pack, at.model = "sysadmin", model
        async with at.fabric() as (fabric, configured):
            dispatch, config = machines.join(fabric), read_config({}, overrides=configured).config
            for name, each in sorted(TASKS.items(), key=lambda item: RUNBOOK in item[1].calls):
                if RUNBOOK in each.calls:  # the last one: memory would brief the others as well
                    await remember_runbook(at, configured, fabric)
                machines.told.clear()
                model.script = Script(turns=(*each.calls, DONE, DONE))
                result, questions = await finish(fabric, task_from(config, each.task, pack="sysadmin"))
                assert result.status is RunStatus.COMPLETED, (name, result.error)
                asked[name] = (asked_before(dispatch, each.calls), len(questions))
                assert len(machines.told) == sum(map(_goes_to_machine, each.calls)), name
    assert asked == {name: (each.before, each.now) for name, each in TASKS.items()}


@pytest.mark.proves("WB-1")
async def test_a_trusted_machine_asks_as_before(tmp_path: Path) -> None:
    each, machines = TASKS["See how all are, then look into one"], Machines()
    machines.trust("web-2", "data")
    async with place(tmp_path) as at:
        at.pack, at.model = "sysadmin", Script(turns=(*each.calls, DONE, DONE))
        async with at.fabric() as (fabric, configured):
            machines.join(fabric)
            config = read_config({}, overrides=configured).config
            _, questions = await finish(fabric, task_from(config, each.task, pack="sysadmin"))
    assert questions == []


def _goes_to_machine(call: Call) -> bool:
    assert isinstance(call.arguments, dict)
    return asked_of_node(call.tool, call.arguments) is not None


def test_one_machine_asks_as_before_and_the_guide_has_the_table() -> None:
    single = [each for each in TASKS.values() if each.machines == 1 and RUNBOOK not in each.calls]
    assert len(single) >= 10
    assert all(each.now == each.before for each in single)
    page = PAGE.read_text().partition("### Questions about machines")[2].partition("\n## ")[0]
    for name, each in TASKS.items():
        assert f"| {name} | {each.machines} | {each.before} | {each.now} |" in page, name
