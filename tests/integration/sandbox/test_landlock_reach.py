"""What Landlock does not guard at level B: files by path alone, processes by number, objects of the kernel by key."""

import asyncio
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.infrastructure.sandbox.landlock import LandlockSandbox
from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version
from contract.sandbox_contract import names
from integration.sandbox import reach_tries
from integration.sandbox.as_user import USER
from services import need

pytestmark = pytest.mark.proves("WB-10")

need(sys.platform == "linux" and landlock_version() >= 6, "needs Linux with Landlock of version 6 or later")
need(Path("/usr/bin/python3").exists(), "needs the system's Python, which every box sees")

_libc = ctypes.CDLL(None, use_errno=True)
_MAKE, _REMOVE = 0o1600, 0


@dataclass
class Around:
    """What the user who runs the commands has besides the workspace."""

    folder: Path
    user: int

    def __post_init__(self) -> None:
        self.workspace, self.outside = self.folder / "workspace", self.folder / "outside"
        self.file = self.outside / "file"
        for folder in (self.workspace, self.outside):
            folder.mkdir()
        shutil.copy(reach_tries.__file__, self.workspace / "tries.py")
        self.file.write_text("mine")
        os.setxattr(self.file, "user.mark", b"mine")
        for path in (self.workspace, self.outside, self.file):
            path.chmod(0o755)
            os.chown(path, self.user, self.user)
        self.process = subprocess.Popen(["sleep", "300"], user=self.user, group=self.user)
        key = (os.getpid() << 8) + 7
        self.objects = (_libc.shmget(key, 4096, _MAKE | 0o66), _libc.msgget(key, _MAKE | 0o66))
        facts = {"file": str(self.file), "name": self.file.name, "folder": str(self.outside), "pid": self.process.pid}
        facts |= {"shared_memory": key, "queue": key}
        (self.workspace / "facts.json").write_text(json.dumps(facts))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        _libc.shmctl(self.objects[0], _REMOVE, None)
        _libc.msgctl(self.objects[1], _REMOVE, None)

    def state(self) -> tuple[object, ...]:
        """Return what commands must not change."""
        status, folder = self.file.stat(), self.outside.stat()
        limits = Path(f"/proc/{self.process.pid}/limits").read_text()
        attributes = {name: os.getxattr(self.file, name) for name in os.listxattr(self.file)}
        priority = os.getpriority(os.PRIO_PROCESS, self.process.pid)
        return (status.st_mode, status.st_mtime, folder.st_mode, attributes, limits, priority)


@pytest.fixture
def around() -> Iterator[Around]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # /tmp is another one in the boxes of root
        Path(name).chmod(0o755)
        around = Around(Path(name), os.getuid() or USER)
        yield around
        around.close()


@pytest.fixture
async def box(around: Around) -> AsyncIterator[LandlockSandbox]:
    box = LandlockSandbox(around.workspace, "reach", limits=SandboxLimits(file_size_mb=40, total_disk_mb=64))
    yield box
    await box.aclose()


async def said(box: LandlockSandbox, command: str) -> str:
    outcome = await box.run_command(command, timeout_s=60)
    assert outcome.exit_code == 0, outcome
    return outcome.stdout.decode().strip()


@pytest.mark.proves("AF-120")
async def test_other_files_and_programs_of_the_same_user_are_out_of_reach(around: Around, box: LandlockSandbox) -> None:
    before = around.state()
    assert json.loads(await said(box, "/usr/bin/python3 tries.py facts.json")) == []
    assert around.state() == before
    command = ["/usr/bin/python3", "tries.py", "facts.json"]
    without = await asyncio.to_thread(
        subprocess.run, command, cwd=around.workspace, user=around.user, group=around.user, capture_output=True
    )
    tried = reach_tries.tries({"file": "/", "folder": "/", "pid": 0}).keys()
    assert set(json.loads(without.stdout)) == tried, "without a box all of it works, so the tries are good"


async def test_in_the_workspace_mode_owner_and_times_are_changed_as_ever(around: Around, box: LandlockSandbox) -> None:
    script = """
    mkdir -p in/deep; echo 'echo ran' > in/deep/program; chmod 700 in/deep/program; ./in/deep/program
    (cd in/deep && chmod u+x ../deep/program && chmod 711 "$PWD" && touch -d @86400 program "$TMPDIR/there")
    ln -s in/deep/program link; touch -h -d @172800 link; chown -h "$(id -u)" link; chmod 750 link
    stat -c '%a %Y' in/deep/program link; stat -c %a in/deep
    cp -p in/deep/program copied; tar cf all.tar in; mkdir out; tar xpf all.tar -C out
    stat -c '%a %Y' copied out/in/deep/program
    chmod 600 missing 2>&1 || chmod 600 /etc/hostname 2>&1 || chmod 600 '' 2>&1 || true
    """
    assert (await said(box, script)).splitlines() == [
        *("ran", "750 86400", "777 172800", "711", "750 86400", "750 86400"),
        "chmod: cannot access 'missing': No such file or directory",
        "chmod: changing permissions of '/etc/hostname': Operation not permitted",
        "chmod: cannot access '': No such file or directory",
    ]


async def test_so_they_are_by_every_call_that_there_is_and_by_many_threads(box: LandlockSandbox) -> None:
    program = """
import os, threading
file = os.open("a", os.O_CREAT | os.O_RDWR)
here = os.open(".", os.O_RDONLY)
os.fchmod(file, 0o640); os.chmod("a", 0o604, dir_fd=here); os.fchown(file, -1, os.getgid()); os.utime(file)
os.utime("a", ns=(1, 2_000_000_003), dir_fd=here); os.chmod("/proc/self/fd/%d" % file, 0o644)
print(os.stat("a").st_mtime_ns, oct(os.stat("a").st_mode))
def work(n):
    for i in range(50):
        open(f"f{n}-{i}", "w").close(); os.chmod(f"f{n}-{i}", 0o600); os.utime(f"f{n}-{i}", (n, i))
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[one.start() for one in threads]; [one.join() for one in threads]
print(sum(os.stat(f"f{n}-{i}").st_mtime == i for n in range(8) for i in range(50)))
"""
    assert await said(box, f"/usr/bin/python3 -c '{program}'") == "2000000003 0o100644\n400"


async def test_whoever_exchanges_the_path_while_it_is_looked_at_changes_nothing_outside(
    around: Around, box: LandlockSandbox
) -> None:
    program = f"""
import os, threading, time
open("real", "w").close(); os.symlink("real", "way"); stop = []
def swap():
    while not stop:
        for target in ({str(around.file)!r}, "real"):
            os.symlink(target, "next"); os.replace("next", "way")
threads = [threading.Thread(target=swap)]
[one.start() for one in threads]; end = time.time() + 1
refused = done = 0
while time.time() < end:
    try: os.chmod("way", 0o600); done += 1
    except PermissionError: refused += 1
stop.append(1)
print(refused > 0 and done > 0)
"""
    (around.workspace / "race.py").write_text(program)
    before = around.state()
    assert await said(box, "/usr/bin/python3 race.py") == "True"
    assert around.state() == before


async def test_files_without_a_name_count_even_if_their_process_hides_them(box: LandlockSandbox) -> None:
    for hides in ("0", "1"):
        program = f"""
import ctypes, os, time
if {hides}: ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
for nth in range(6):
    file = os.open(".", os.O_TMPFILE | os.O_WRONLY)
    for _ in range(20): os.write(file, bytes(1 << 20))
time.sleep(20)
"""
        outcome = await box.run_command(f"/usr/bin/python3 -c '{program}'", timeout_s=30)
        assert not outcome.timed_out
        assert b"sandbox.limits.total_disk_mb" in outcome.stderr


async def test_fabrics_own_folder_is_closed_wherever_it_lies(around: Around) -> None:
    shown = around.folder / "programs"
    fabric = shown / "agent-fabric" / ".fabric"
    fabric.mkdir(parents=True)
    for path in (fabric / "token", shown / "tool", shown / "agent-fabric" / "tool"):
        path.write_text("text")
    box = LandlockSandbox(around.workspace, "reach", readable=(str(shown),), hidden=fabric)
    try:
        read = f"cd {shown}; cat tool agent-fabric/tool; ls agent-fabric/.fabric; cat agent-fabric/.fabric/token; true"
        outcome = await box.run_command(read, timeout_s=60)
    finally:
        await box.aclose()
    assert outcome.stdout == b"texttext"
    assert outcome.stderr.count(b"Permission denied") == 2


async def test_a_folder_that_a_command_makes_in_the_place_of_fabrics_or_of_a_repository_is_put_aside(
    around: Around, box: LandlockSandbox
) -> None:
    before = names(around.workspace)
    await box.run_command("mkdir .fabric; echo evil > .fabric/fabric.json", timeout_s=60)
    outcome = await box.run_command("git init -q --bare x; mv x/* .; rmdir x", timeout_s=60)
    assert b"[undone: 'HEAD' is protected]" in outcome.stderr
    assert {".fabric.refused", "HEAD.refused", "config"} <= set(names(around.workspace)) - set(before)
    assert not {".fabric", "HEAD"} & set(names(around.workspace))
