"""A person logs in once, and every command that works on that server knows who they are."""

import asyncio
import contextlib
import json
import os
import pty
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.fabric_process import Fabric, settings
from e2e.fork_server import Process, start_fabric
from e2e.server_process import Serving, serving

UNREACHED = "http://127.0.0.1:9/v1"
PATIENCE_S = 60.0
PASSWORD = "correct horse battery staple"
pytestmark = pytest.mark.proves("A33-005", "A33-012", "C15")


class Said(NamedTuple):
    code: int | None
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


@dataclass
class Person:
    """Somebody with a home of their own, where there is no fabric folder, who is told the address of a server."""

    home: Path
    url: str

    async def _start(self, stdin: int, *arguments: str, **environment: str) -> Process:
        return await start_fabric(
            arguments,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "FABRIC_URL": self.url,
                **environment,
            },
            cwd=self.home,
            stdin=stdin,
            start_new_session=True,
        )

    async def __call__(self, *arguments: str, sends: str = "", **environment: str) -> Said:
        process = await self._start(asyncio.subprocess.PIPE, *arguments, **environment)
        async with asyncio.timeout(PATIENCE_S):
            out, err = await process.communicate(sends.encode())
        return Said(process.returncode, out.decode(), err.decode())

    async def types(self, lines: tuple[str, ...], *arguments: str) -> Said:
        """Type a line into a terminal whenever the command asks for one."""
        keyboard, terminal = pty.openpty()
        try:
            process = await self._start(terminal, *arguments)
            assert process.stderr is not None
            asked = b""
            async with asyncio.timeout(PATIENCE_S):
                for line in lines:
                    asked += await process.stderr.readuntil(b": ")
                    os.write(keyboard, f"{line}\n".encode())
                out, err = await process.communicate()
            return Said(process.returncode, out.decode(), (asked + err).decode())
        finally:
            os.close(keyboard)
            os.close(terminal)


@contextlib.asynccontextmanager
async def ada_at_a_server(folder: Path) -> AsyncIterator[tuple[Person, Serving]]:
    (folder / "ada").mkdir()
    async with serving(Fabric(folder / "server", settings(UNREACHED))) as server:
        added = await server.client.post("/api/v1/users", json={"name": "ada", "password": PASSWORD, "role": "member"})
        assert added.status_code == 201
        yield Person(folder / "ada", server.url), server


async def test_a_person_logs_in_works_and_logs_out(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, server):
        stranger = await ada("logs", "list")
        assert (stranger.code, "fabric login" in stranger.err) == (1, True)

        wrong = await ada("login", "--user", "ada", "--password-stdin", sends=PASSWORD[:-1] + "\n")
        assert (wrong.code, "password is wrong" in wrong.err) == (1, True)
        assert "FABRIC_TOKEN" not in wrong.err
        assert (await ada("logs", "list")).code == 1

        greeted = await ada.types(("ada", PASSWORD), "login")
        assert (greeted.code, greeted.out.startswith(f"Logged in to {server.url} as ada, until ")) == (0, True)
        assert PASSWORD not in greeted.out + greeted.err
        kept = json.loads((ada.home / ".local/share/agent-fabric/logins.json").read_text())["servers"]
        assert list(kept) == [server.url]
        assert kept[server.url]["token"] not in greeted.out + greeted.err
        assert (await ada("logs", "list", "--json")).code == 0
        assert (await ada("users", "list")).code == 1, "Ada is no admin, so it was not the folder's token"

        left = await ada("logout", "--json")
        assert left.json == {"server": server.url, "logged_out": True, "everywhere": False}
        assert (await ada("logs", "list")).code == 1
        assert (await ada("logout")).out == f"You were not logged in to {server.url}.\n"


async def test_who_logs_out_everywhere_is_out_everywhere_and_told_to_log_in_again(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, server):
        (tmp_path / "laptop").mkdir()
        laptop = Person(tmp_path / "laptop", "")
        for each in (ada, laptop):
            told = await each("login", server.url, "--user=ada", "--password-stdin", "--json", sends=PASSWORD + "\n")
            assert (told.code, told.json["user"], told.json["scopes"]) == (0, "ada", ["runs", "runs:read", "workflows"])
            assert set(told.json) == {"server", "user", "expires_at", "scopes"}, "and no token"
        assert (await laptop("--server", server.url, "logs", "list")).code == 0

        assert (await ada("logout", "--everywhere")).out == f"Logged out of {server.url}, everywhere.\n"
        ended = await laptop("logs", "list", "--server", server.url)
        assert (ended.code, f"Your login has ended: fabric login {server.url}" in ended.err) == (1, True)
        again = await laptop("--server", server.url, "logout", "--everywhere")
        assert (again.code, "Your login has ended" in again.err) == (1, True)


async def test_mistakes_are_explained_before_a_password_is_sent(tmp_path: Path) -> None:
    nobody = Person(tmp_path, "")
    clear = "http://fabric.invalid"
    said = await asyncio.gather(
        nobody("login"),
        nobody("login", clear, "--user", "ada", "--password-stdin", sends=PASSWORD),
        nobody("login", clear, "--user", "ada", "--password-stdin", "--insecure", sends=PASSWORD),
        nobody("login", "https://fabric.invalid"),
        nobody("login", "https://fabric.invalid", "--user", "ada"),
        nobody("login", "https://fabric.invalid", "--user", "ada", "--password-stdin"),
        nobody("logout", "https://fabric.invalid", "--everywhere"),
        nobody("login", "fabric.invalid"),
    )
    expected = (
        (2, "No server is named"),
        (2, "in the clear"),
        (1, "fabric.invalid"),
        (2, "--user NAME"),
        (2, "--password-stdin"),
        (2, "There is no password"),
        (2, "You are not logged in"),
        (2, "is no address of a server"),
    )
    for one, (code, words) in zip(said, expected, strict=True):
        assert (one.code, words in one.err) == (code, True), one
        assert "hint: " in one.err
    assert not (tmp_path / ".local" / "share" / "agent-fabric" / "logins.json").exists()
