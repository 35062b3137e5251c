"""What lies around a box for the escape checks to find, and what is seen of their tries from out here."""

import asyncio
import fcntl
import json
import os
import secrets
import shutil
import socket
import subprocess
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agent_fabric.application.ports.sandbox import Sandbox
from integration.sandbox import escape_checks, fresh_attempts

POWERFUL_WORD = "FABRIC_TEST_SECRET"


@dataclass
class Outside:
    """Canaries, listeners and a process that no command in the box may reach."""

    folder: Path
    """A folder that we may fill; the workspace lies in it."""
    canary: str = field(default_factory=lambda: f"canary-{secrets.token_hex(8)}")
    name: str = field(default_factory=lambda: f"escape-{secrets.token_hex(4)}")
    secret: str = field(default_factory=lambda: f"secret-{secrets.token_hex(8)}")
    seen: list[str] = field(default_factory=list)
    """Who got through to a listener."""

    def __enter__(self) -> Self:
        self.workspace = self.folder / "runs" / str(uuid.uuid4()) / "workspace"
        self.home = self.folder / "home"
        self.tmp = Path("/tmp") / self.name
        for folder in (self.workspace, self.home / ".ssh", self.folder / "outside", self.folder / ".fabric", self.tmp):
            folder.mkdir(parents=True)
        self.files = {
            "home_file": self.home / "notes.txt",
            "ssh_file": self.home / ".ssh" / "id_ed25519",
            "outside_file": self.folder / "outside" / "file",
            "fabric_file": self.folder / ".fabric" / "token",
        }
        for file in self.files.values():
            file.write_text(self.canary)
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix_path = str(self.tmp / "unix.sock")
        self._unix.bind(self._unix_path)
        Path(self._unix_path).chmod(0o777)
        self._abstract = socket.socket(socket.AF_UNIX)
        self._abstract.bind("\0" + self.name)
        for listener in (self._unix, self._abstract):
            listener.listen()
        for name in ("_tcp", "_udp", "_unix", "_abstract"):
            threading.Thread(target=self._listen, args=(name,), daemon=True).start()
        self.process = subprocess.Popen(
            ["sleep", "600"], env={"PATH": os.environ["PATH"], POWERFUL_WORD: self.secret}, cwd=self.folder / "outside"
        )
        facts: dict[str, Any] = {name: str(file) for name, file in self.files.items()}
        facts |= {"canary": self.canary, "name": self.name, "secret": self.secret, "home": str(self.home)}
        facts |= {"parent": str(self.workspace.parent), "tmp_folder": str(self.tmp), "pid": self.process.pid}
        facts |= {"outside_folder": str(self.folder / "outside"), "name_in_cwd": "file", "unix_path": self._unix_path}
        facts |= {"tcp_port": self._tcp.getsockname()[1], "udp_port": self._udp.getsockname()[1]}
        facts |= {"unix_abstract": self.name}
        if os.getuid() == 0:
            program = self.workspace / "setuid-id"
            shutil.copy("/usr/bin/id", program)
            program.chmod(0o4755)
            facts["setuid_id"] = "./setuid-id"
        (self.workspace / "facts.json").write_text(json.dumps(facts))
        shutil.copy(escape_checks.__file__, self.workspace / "escape_checks.py")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for listener in (self._tcp, self._udp, self._unix, self._abstract):
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        shutil.rmtree(self.tmp, ignore_errors=True)

    async def check(self, box: Sandbox, python: str = "/usr/bin/python3") -> dict[str, str]:
        """Run all checks in the box; return the outcome of each, with its detail."""
        results = await self._run(box, python, [])
        for name in escape_checks.HEAVY:
            results |= await self._run(box, python, [name])
            await box.run_command("rm -f big-* ${TMPDIR:-/tmp}/big-*", timeout_s=20)
            if name.startswith("daemon"):
                results[name] = "held" if await self._lock_is_free() else "escaped: the daemon lives on"
        return results

    async def attempt(self, box: Sandbox, python: str = "/usr/bin/python3") -> dict[str, str]:
        """Make the fresh attempts in the box; return the outcome of each, with its detail."""
        shutil.copy(fresh_attempts.__file__, self.workspace / "fresh_attempts.py")
        outcome = await box.run_command(f"{python} fresh_attempts.py facts.json", timeout_s=90)
        assert outcome.stdout, outcome
        answers: dict[str, Any] = json.loads(outcome.stdout)
        return {name: self._verdict(name, **answer) for name, answer in answers.items()}

    def effects(self) -> list[str]:
        """Return what is seen from out here of tries that succeeded."""
        found = [str(path) for path in self.folder.rglob(f"*{self.name}*") if self.workspace not in path.parents]
        found += [
            str(path) for folder in ("/etc", "/usr", str(self.tmp)) for path in Path(folder).glob(f"*{self.name}")
        ]
        changed = [str(file) for file in self.files.values() if file.read_text() != self.canary]
        return found + changed + self.seen + ([] if self.process.poll() is None else ["the process was ended"])

    async def _run(self, box: Sandbox, python: str, names: list[str]) -> dict[str, str]:
        outcome = await box.run_command(f"{python} escape_checks.py facts.json {' '.join(names)}", timeout_s=90)
        if names and outcome.exit_code != 0 and not outcome.timed_out and not outcome.stdout:
            return dict.fromkeys(names, "held")  # a limit of the box has ended the whole command
        assert outcome.stdout, f"{names}: {outcome}"
        answers: dict[str, Any] = json.loads(outcome.stdout)
        return {name: self._verdict(name, **answer) for name, answer in answers.items()}

    def _verdict(self, name: str, outcome: str, detail: str) -> str:
        if outcome == "held":
            return "held"
        if name.startswith("write_") and not self.effects():
            return "held"  # what it wrote to is the box's own, though it has the name of something outside
        return f"{outcome}: {detail}"

    async def _lock_is_free(self) -> bool:
        with (self.workspace / "daemon.lock").open("rb") as lock:
            for _ in range(20):
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                await asyncio.sleep(0.01)
        return False

    def _listen(self, name: str) -> None:
        listener: socket.socket = getattr(self, name)
        with suppress(OSError):
            while True:
                if name == "_udp":
                    text, address = listener.recvfrom(64)
                    if not text:
                        return
                    listener.sendto(b"here", address)
                else:
                    listener.accept()[0].close()
                self.seen.append(f"somebody came to {name}")
