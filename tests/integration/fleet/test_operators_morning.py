"""An operator's morning: disks were full at night, an agent has found them, one plan frees them, nothing else changes.

Each machine is a process with a disk of its own: a small tmpfs in a mount namespace, at the same path on all of them.
"""

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Calls, Finish
from effort import effort, report
from integration.fleet.machines import ASKING, Machine, enrol
from integration.http.served import Served, served

MACHINES = effort(5, 30)
FULL = ("m-01", "m-03", "m-04")
"""The machines whose disks fill up at night."""
AT_ONCE = 6
DISK_BYTES = 1024 * 1024
PATIENCE_S = 300.0
OLD, DATA = "old.log", "data.db"
_MOUNTED = 'mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"'


def has_namespaces() -> bool:
    """Tell whether disks can be mounted here that nobody else sees."""
    tried = ("unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt")
    found = shutil.which("unshare")
    return found is not None and subprocess.run(tried, capture_output=True, timeout=30, check=False).returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_namespaces(), reason="no disks can be mounted here"),
]


class MachineWithDisk(Machine):
    """A node with a disk that no other one sees."""

    disk: Path

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        program = [sys.executable, "-m", "agent_fabric.interfaces.node.main", "run", "--dir", str(self.folder)]
        words = ["unshare", "--mount", "sh", "-c", _MOUNTED, "sh", str(self.disk), *program]
        self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        log.close()

    @property
    def own_disk(self) -> Path:
        """The disk, as it is seen from outside."""
        assert self.process is not None
        return Path(f"/proc/{self.process.pid}/root{self.disk}")

    def contents(self) -> dict[str, str]:
        """Return what is on the disk, each file by its hash."""
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in self.own_disk.iterdir()}

    def fill(self) -> None:
        """Let a log grow until nothing fits any more."""
        with (self.own_disk / OLD).open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass


class AgentModel:
    """A model that looks at every machine, and says which disks are full. It changes nothing."""

    def __init__(self, disk: Path) -> None:
        self.disk = disk

    def __call__(self, request: dict[str, Any], _: int) -> Answer:
        told = [json.loads(each["content"]) for each in request["messages"] if each["role"] == "tool"]
        if not told:
            return Call("node_list", {})
        if len(told) == 1:
            command = f"df -P {self.disk}"
            names = [node["name"] for node in told[0]["nodes"]]
            return Calls(tuple(Call("node_run_command", {"node": name, "command": command}) for name in names))
        full = [each["node"] for each in told[1:] if "100%" in each["stdout"]]
        summary = f"The disk {self.disk} is full on {', '.join(full)}: {OLD} has grown."
        return Finish(summary=summary, machines=[], verified="", next_steps=[f"Remove {OLD} on {','.join(full)}."])


@pytest.mark.proves("FL-24", "FL-25", "FL-26", "FC-022")
async def test_full_disks_are_found_and_freed_by_one_plan_and_nothing_else_changes(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    machines: list[MachineWithDisk] = []
    async with served(tmp_path, AgentModel(disk)) as hub:
        try:
            machines += await before_lunch(hub, tmp_path, disk)
            for machine in machines:
                (machine.own_disk / DATA).write_bytes(machine.name.encode() * 1000)
                (machine.own_disk / OLD).write_text("yesterday\n")
                if machine.name in FULL:
                    machine.fill()
            night = {machine.name: machine.contents() for machine in machines}
            found = await in_the_morning(hub)
            assert {machine.name: machine.contents() for machine in machines} == night, "looking has changed nothing"
            await agree_to_one_plan(hub, found, disk)
            for machine in machines:
                left = dict(night[machine.name])
                if machine.name in FULL:
                    del left[OLD]
                assert machine.contents() == left, machine.name
            await both_records_agree(hub)
        finally:
            for machine in machines:
                machine.kill()
    report("machines of an operator's morning", MACHINES)


async def before_lunch(hub: Served, folder: Path, disk: Path) -> list[MachineWithDisk]:
    """Enrol all machines, start them, and wait until they are online."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> MachineWithDisk:
        name = f"m-{number:02}"
        async with turns:
            joined = await enrol(hub.client, folder / name, name, ASKING, labels={"role": "web"})
        machine = MachineWithDisk(joined.folder, joined.node_id, joined.name)
        machine.disk = disk
        machine.start()
        return machine

    machines = await asyncio.gather(*map(one, range(MACHINES)))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            listed = (await hub.client.get("/api/v1/nodes")).json()["nodes"]
            if Counter(node["status"] for node in listed) == {"online": MACHINES}:
                return machines
            await asyncio.sleep(0.1)


async def in_the_morning(hub: Served) -> list[str]:
    """Let the agent look, and return the machines that it names; nobody is asked for that."""
    task = {"prompt": "Are there full disks? Change nothing.", "pack": "sysadmin"}
    answer = await hub.client.post("/run", json=task, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert all(name in told["summary"] for name in FULL), told
    assert (await hub.client.get("/approvals")).json()["approvals"] == []
    named = [word.strip(",:") for word in told["summary"].split() if word.startswith("m-")]
    assert named == list(FULL)
    return named


async def agree_to_one_plan(hub: Served, names: list[str], disk: Path) -> None:
    """Freeze a plan for the machines, agree to all of it once, and watch the canary go first."""
    wish = {
        "selector": ",".join(names),
        "arguments": {"command": f"rm -f {disk}/{OLD}"},
        "canary": 1,
        "waves": ["100%"],
        "check": f"test ! -e {disk}/{OLD}",
    }
    plan = (await hub.client.post("/api/v1/fleet/plans", json=wish)).json()
    assert [call["wave"] for call in plan["calls"]] == [0, 1, 1], plan
    path = f"/api/v1/fleet/plans/{plan['id']}"
    asked = (await hub.client.post(f"{path}/apply")).json()
    (card,) = (await hub.client.get("/approvals")).json()["approvals"]
    assert (card["id"], card["args"]["nodes"]) == (asked["approval_id"], names), "one approval shows all of it"
    assert card["args"]["arguments"] == wish["arguments"]
    await hub.client.post(f"/approvals/{card['id']}", json={"decision": "approve"})
    seen: list[dict[str, str]] = []
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = (await hub.client.get(path)).json()
            seen.append(found["outcomes"])
            if found["status"] in {"completed", "halted"}:
                break
            await asyncio.sleep(0.02)
    assert (found["status"], found["outcomes"]) == ("completed", dict.fromkeys(names, "success"))
    canary = names[0]
    assert all(canary in outcomes for outcomes in seen if outcomes), "nothing was told of others before the canary"


async def both_records_agree(hub: Served) -> None:
    """Compare the records of all machines; only the chosen ones were told to change something."""
    for node in (await hub.client.get("/api/v1/nodes")).json()["nodes"]:
        audit = (await hub.client.get(f"/api/v1/nodes/{node['id']}/audit")).json()
        assert (audit["intact"], audit["only_node"], audit["only_hub"]) == (True, [], []), audit
        kept = (await hub.client.get(f"/api/v1/nodes/{node['id']}/commands")).json()["commands"]
        commands = Counter(each["arguments"]["command"].split()[0] for each in kept)
        expected = {"df": 1, "rm": 1, "test": 1} if node["name"] in FULL else {"df": 1}
        assert commands == expected, (node["name"], commands)
