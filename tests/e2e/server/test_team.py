"""A team on one server: who one is, logins that last a day, results to be had from anywhere, and who may answer."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from e2e.cli.test_approvals import at_a_terminal, waiting_fabric
from e2e.fabric_process import Fabric, settings
from e2e.server.test_login import PASSWORD, Person, ada_at_a_server
from e2e.server_process import Serving, serving

pytestmark = pytest.mark.proves("DU-7")
DAY_S = 12 * 3600


async def logged_in(person: Person) -> dict[str, Any]:
    said = await person("login", "--user", "ada", "--password-stdin", "--json", sends=PASSWORD + "\n")
    assert said.code == 0, said.err
    return said.json


def kept(person: Person) -> Path:
    return person.home / ".local/share/agent-fabric/logins.json"


def change_login(person: Person, **changes: Any) -> None:
    found = json.loads(kept(person).read_text())
    (login,) = found["servers"].values()
    login.update(changes)
    kept(person).write_text(json.dumps(found))


async def test_whoami_tells_name_scopes_how_and_until_when(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, server):
        nobody = await ada("whoami")
        assert nobody.code == 1
        assert nobody.err.startswith("error: You are not logged in. Run `fabric login`.\n")
        ends_at = (await logged_in(ada))["expires_at"]
        assert abs(ends_at - time.time() - DAY_S) < 60, "a login lasts a working day"
        said = (await ada("whoami", "--json")).json
        assert said == {
            "name": "ada",
            "kind": "user",
            "scopes": ["runs", "runs:read", "workflows"],
            "server": server.url,
            "credential": "the login as ada",
            "expires_at": ends_at,
        }
        shown = (await ada("whoami")).out
        assert shown.startswith("ada (user)\n")
        assert "logged in by: the login as ada\n" in shown
        assert f"valid until:  {time.strftime('%Y-%m-%d %H:%M', time.localtime(ends_at))}\n" in shown
        wish = {"name": "ci", "scopes": ["runs"], "expires_in_s": 600}
        key = (await server.client.post("/api/v1/keys", json=wish)).json()["key"]
        program = (await ada("whoami", "--json", FABRIC_API_KEY=key)).json
        assert (program["name"], program["kind"], program["credential"]) == ("ci", "key", "FABRIC_API_KEY")
        assert abs(program["expires_at"] - time.time() - 600) < 60
        me = (await server.client.get("/api/v1/me")).json()
        assert (me["kind"], me["expires_at"]) == ("local", None)


async def test_whoami_in_a_folder_is_its_owner(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    said = (await fabric("whoami", "--json")).json
    assert (said["kind"], said["server"], said["expires_at"]) == ("local", None, None)
    assert "admin" in said["scopes"]
    assert not fabric.root.exists(), "it only looks"
    assert "no login is needed" in (await fabric("whoami")).out


async def test_a_login_renews_its_token_by_itself_until_it_ends(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, _server):
        await logged_in(ada)
        (first,) = json.loads(kept(ada).read_text())["servers"].values()
        change_login(ada, token="an.expired.token", expires_at=1.0)
        assert (await ada("logs", "list", "--json")).code == 0
        (second,) = json.loads(kept(ada).read_text())["servers"].values()
        assert second["token"].count(".") == 2
        assert second["expires_at"] > time.time()
        assert (second["refresh_token"], second["renewable_until"]) == (
            first["refresh_token"],
            first["renewable_until"],
        )
        change_login(ada, token=second["refresh_token"])
        assert (await ada("logs", "list")).code == 0, "what renews a login opens nothing, so it was renewed"

        change_login(ada, token="an.expired.token", refresh_token=first["token"])
        ended = await ada("logs", "list")
        assert ended.code == 1
        assert ended.err.startswith("error: You are not logged in. Run `fabric login`.\n")
        assert "Your login has ended" in ended.err


async def test_logging_out_everywhere_ends_logins_that_could_be_renewed(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, server):
        (tmp_path / "laptop").mkdir()
        laptop = Person(tmp_path / "laptop", server.url)
        await logged_in(ada)
        await logged_in(laptop)
        change_login(ada, token="an.expired.token", expires_at=1.0)
        assert (await ada("logout", "--everywhere")).code == 0, "its token has expired, but the login has not"
        ended = await laptop("logs", "list")
        assert (ended.code, "You are not logged in." in ended.err) == (1, True)


async def test_logging_out_ends_this_login_at_the_server_and_no_other(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, server):
        (tmp_path / "laptop").mkdir()
        laptop = Person(tmp_path / "laptop", server.url)
        await logged_in(ada)
        await logged_in(laptop)
        copied = kept(ada).read_text()
        assert (await ada("logout")).code == 0
        kept(ada).write_text(copied)
        ended = await ada("logs", "list")
        assert (ended.code, "You are not logged in." in ended.err) == (1, True)
        assert (await laptop("logs", "list")).code == 0
        await server.kill()
        offline = await laptop("logout")
        assert (offline.code, "The server was not informed" in offline.err) == (0, True)
        assert json.loads(kept(laptop).read_text())["servers"] == {}


async def member_of(server: Serving, folder: Path, role: str = "member") -> Fabric:
    """Return a person with a home of their own who has logged in to a server."""
    wish = {"name": "ada", "password": PASSWORD, "role": role}
    assert (await server.client.post("/api/v1/users", json=wish)).status_code == 201
    folder.mkdir()
    await logged_in(Person(folder, server.url))
    return Fabric(folder, {}, server=server.url)


async def test_a_member_who_may_not_answer_is_not_asked_and_told_who_may(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric, serving(fabric) as server:
        ada = await member_of(server, tmp_path / "ada")
        ended, screen = await at_a_terminal(ada, "o\n")
        assert ended == 3, screen
        assert "approval needed" not in screen
        said = (
            "ada may not answer: it takes the scope `approvals`, which users with the role approver, operator or admin"
        )
        assert said in screen.replace("\r\n", "\n")
        assert "approvals approve" not in screen
        (card,) = (await server.client.get("/approvals")).json()["approvals"]
        assert f"files: fabric files {card['run_id']}" in screen
        assert str(fabric.root) not in screen, "no path of the server is named"


async def test_exit_3_when_a_run_waits_whoever_may_answer(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric, serving(fabric) as server:
        ada = await member_of(server, tmp_path / "ada")
        waits = await ada("run", "push it")
        assert (waits.code, "ada may not answer" in waits.out) == (3, True), waits.err
        as_json = await ada("run", "push it", "--json")
        assert (as_json.code, as_json.json["_meta"]["status"]) == (3, "waiting")
        owner = await Fabric(fabric.folder, fabric.configured, server=server.url)("run", "push it")
        assert (owner.code, "fabric approvals approve|deny" in owner.out.replace("then ", "")) == (3, True)


async def test_the_files_of_a_remote_run_are_had_by_the_command_that_its_result_names(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric, serving(fabric) as server:
        ada = await member_of(server, tmp_path / "ada", role="operator")
        waits = await ada("run", "push it")
        (line,) = [line for line in waits.out.splitlines() if line.startswith("files: ")]
        command = line.removeprefix("files: fabric ").split()
        assert str(fabric.root) not in waits.out
        assert (await ada(*command)).code == 0
