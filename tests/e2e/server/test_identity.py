"""People, keys and tokens from the command line, seen at once by a server that runs."""

import asyncio
import contextlib
import json
import os
import pty
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from e2e.fabric_process import Fabric, settings
from e2e.fork_server import Process, start_fabric
from e2e.inside_a_run import commands_inside_a_run

UNREACHED = "http://127.0.0.1:9/v1"
PATIENCE_S = 60.0
PASSWORD = "correct horse battery staple"


def fabric(folder: Path, **environment: str) -> Fabric:
    return Fabric(folder, settings(UNREACHED, server={"port": 0}), environment)


async def started(folder: Path, stdin: int, *arguments: str) -> Process:
    """Start the command with something on its standard input, and no other terminal."""
    return await start_fabric(
        [*arguments, "--workspace", str(folder / ".fabric")],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        cwd=folder,
        stdin=stdin,
        start_new_session=True,
    )


async def piped(folder: Path, text: str, *arguments: str) -> tuple[int | None, str, str]:
    """Send something to the command."""
    process = await started(folder, asyncio.subprocess.PIPE, *arguments)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate(text.encode())
    return process.returncode, out.decode(), err.decode()


async def typed(folder: Path, lines: Sequence[str], *arguments: str) -> tuple[int | None, str, str]:
    """Type a line into a terminal whenever the command asks for one."""
    keyboard, terminal = pty.openpty()
    try:
        process = await started(folder, terminal, *arguments)
        assert process.stderr is not None
        asked = b""
        async with asyncio.timeout(PATIENCE_S):
            for line in lines:
                asked += await process.stderr.readuntil(b": ")
                os.write(keyboard, f"{line}\n".encode())
            out, err = await process.communicate()
        return process.returncode, out.decode(), (asked + err).decode()
    finally:
        os.close(keyboard)
        os.close(terminal)


@pytest.mark.proves("A33-012", "A33-013")
async def test_three_people_and_a_key_for_ci_use_a_server_that_runs_already(tmp_path: Path) -> None:
    command = fabric(tmp_path)
    serving = await command.start("serve")
    assert serving.process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = (await serving.process.stdout.readline()).decode()
        (address,) = re.findall(r"http://[\w.:]+", line)
        code, out, _ = await piped(tmp_path, PASSWORD + "\n", "users", "add", "ada", "--role=admin", "--password-stdin")
        assert (code, "ada has been added" in out) == (0, True)
        made = await command("keys", "create", "ci", "--scope", "runs")
        assert made.out.startswith("a33_")
        assert made.out.count("\n") == 1, "so that a script can take it"
        assert "shown only once" in made.err
        async with httpx2.AsyncClient(base_url=address, timeout=30) as client:

            async def me(credential: str) -> Any:
                answer = await client.get("/api/v1/me", headers={"Authorization": f"Bearer {credential}"})
                return answer.json().get("name", answer.status_code)

            login = await client.post("/api/v1/login", json={"username": "ada", "password": PASSWORD})
            token = login.json()["access_token"]
            assert (await me(token), await me(made.out.strip())) == ("ada", "ci")
            revealed = await command("token", "show", "--reveal")
            assert await me(revealed.out.strip()) != 401
            issued = await command("token", "issue", "ada", "--scope", "runs:read", "--lifetime", "5m", "--json")
            assert json.loads(issued.out)["scopes"] == ["runs:read"]
            assert await me(json.loads(issued.out)["access_token"]) == "ada"
            wrong = await client.post("/api/v1/login", json={"username": "ada", "password": PASSWORD[:-1]})
            assert (wrong.status_code, "password is wrong" in wrong.json()["hint"]) == (401, True)
            refused = await client.get("/api/v1/users", headers={"X-API-Key": made.out.strip()})
            assert (refused.status_code, "Ask an admin" in refused.json()["hint"]) == (403, True)
            disabled = await command("users", "set", "ada", "--disable")
            assert (disabled.code, disabled.out) == (0, "ada has been changed. They are disabled.\n")
            for change in (("keys", "revoke", "ci"), ("token", "rotate")):
                assert (await command(*change)).code == 0
            for gone in (token, made.out.strip(), revealed.out.strip()):
                assert await me(gone) == 401
    finally:
        with contextlib.suppress(ProcessLookupError):
            serving.process.terminate()
        await serving.ended()


async def test_a_password_is_asked_for_twice_and_never_shown(tmp_path: Path) -> None:
    code, out, err = await typed(tmp_path, (PASSWORD, PASSWORD), "users", "add", "ada", "--json")
    assert (code, json.loads(out)["has_password"]) == (0, True)
    assert PASSWORD not in out + err
    assert f"Making a fabric folder: {tmp_path}" in err
    assert err.count("Everyone with `runs:read` sees all runs") == 1
    code, out, err = await typed(tmp_path, (), "users", "add", "ada")
    assert (code, out, "Password" in err, "There is a user 'ada' already" in err) == (1, "", False, True)
    code, _, err = await typed(tmp_path, (PASSWORD, PASSWORD), "users", "add", "bob")
    assert (code, "Everyone" in err, "Making" in err) == (0, False, False), "once is enough"
    code, out, err = await typed(tmp_path, (PASSWORD, "another phrase"), "users", "password", "ada")
    assert (code, "passwords differ" in err) == (2, True)


async def test_whoever_removes_somebody_is_told_which_of_their_keys_still_work(tmp_path: Path) -> None:
    command = fabric(tmp_path)
    made = json.loads((await command("keys", "create", "ci", "--json")).out)
    us, key_id = made["created_by"], made["id"]
    for name, told in (
        (us, f"Keys that they made still work: ci ({key_id}); revoke with: fabric keys revoke ID\n"),
        ("bob", ""),
    ):
        assert (await command("users", "add", name, "--no-password")).code == 0
        removed = await command("users", "remove", name)
        assert (removed.code, removed.out) == (0, f"{name} has been removed.\n{told}")


async def test_mistakes_are_explained(tmp_path: Path) -> None:
    command = fabric(tmp_path)
    assert (await command("users", "add", "bob", "--no-password", "--role", "operator")).code == 0
    mistakes: Mapping[tuple[str, ...], str] = {
        ("keys", "create", "x", "--expires", "soon"): "not a length of time",
        ("keys", "revoke", "nothing"): "There is no key",
        ("users", "add", "ada"): "--password-stdin",
        ("users", "set", "bob"): "nothing to change",
        ("token", "issue", "bob", "--scope", "admin"): "bob does not have: admin",
    }
    ended = await asyncio.gather(*(command(*arguments) for arguments in mistakes))
    for one, words in zip(ended, mistakes.values(), strict=True):
        assert one.code in {1, 2}
        assert words in one.err
        assert "hint:" in one.err


async def test_a_run_can_change_nobody_and_short_secrets_are_refused(tmp_path: Path) -> None:
    place = ("--workspace", str(tmp_path / ".fabric"))
    attempts = [
        ("users", "remove", "eve", *place),
        ("keys", "create", "eve", *place),
        ("token", "rotate", *place),
        ("token", "show", "--reveal", *place),
        ("login", "https://fabric.invalid"),
    ]
    for code, said in await commands_inside_a_run(tmp_path, attempts):
        assert (code, "A person does that" in said) == (1, True), said
    assert not (tmp_path / ".fabric").exists()
    short = await fabric(tmp_path, JWT_SECRET="short")("serve")
    assert (short.code, "at least 32" in short.err) == (2, True)
    same = await fabric(tmp_path, JWT_SECRET="x" * 64)("serve")
    assert (same.code, "can be guessed" in same.err) == (2, True)


async def test_two_who_want_the_same_name_at_once_get_one_key(tmp_path: Path) -> None:
    command = fabric(tmp_path)
    await command("users", "list")
    ended = await asyncio.gather(*(command("keys", "create", "ci") for _ in range(2)))
    assert sorted(each.code for each in ended) == [0, 1]
    assert next(each for each in ended if each.code).err.startswith("error: There is a live key 'ci' already")


async def test_people_and_keys_can_be_looked_after_although_the_vault_with_the_token_secret_is_down(
    tmp_path: Path,
) -> None:
    configured = settings(
        UNREACHED,
        secrets={"vault": {"url": "http://127.0.0.1:9", "timeout_s": 1}},
        identity={"jwt_secret": "vault:fabric#jwt"},
    )
    command = Fabric(tmp_path, configured, {"VAULT_TOKEN": "hvs.some-token"})
    for arguments in (
        ("users", "add", "bob", "--no-password"),
        ("users", "set", "bob", "--disable"),
        ("users", "list"),
        ("keys", "create", "ci"),
        ("keys", "revoke", "ci"),
        ("users", "set", "bob", "--enable"),
    ):
        ended = await command(*arguments)
        assert ended.code == 0, ended.err
    ended = await command("token", "issue", "bob")
    assert ended.code != 0, "without the secret there is no token"
    assert "127.0.0.1:9" in ended.err


async def test_a_role_that_there_is_not_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    code, _, err = await piped(tmp_path, PASSWORD + "\n", "users", "add", "ada", "--role", "king", "--password-stdin")
    assert code == 2
    assert "error: Invalid value for '--role': 'king' is not one of 'viewer', 'member'" in err
