"""People and keys over HTTP: who comes in, what they may, and that what is taken from them is gone at once."""

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from agent_fabric.bootstrap.records import owner_here
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.infrastructure.identity.local_token import rotate_local_token
from agent_fabric.infrastructure.identity.own_secrets import PepperedHash, jwt_secret
from integration.http.served import Served, bearer, served
from integration.persistence.opened_store import rows_of

PASSWORD = "correct horse battery staple"
OTHER = "a quite different phrase"
INVALID = "Invalid authentication credentials"
EXPIRED = "Expired authentication credentials"
PERSON = {"username": "ada", "password": PASSWORD}


@asynccontextmanager
async def with_ada(tmp_path: Path, role: str = "member") -> AsyncIterator[tuple[Served, dict[str, str]]]:
    """Serve, with a user who has a password and has logged in."""
    async with served(tmp_path) as server:
        added = await server.client.post("/api/v1/users", json={"name": "ada", "password": PASSWORD, "role": role})
        assert added.status_code == 201, added.text
        yield server, await logged_in(server)


@asynccontextmanager
async def with_token(tmp_path: Path, role: str = "member") -> AsyncIterator[tuple[Served, dict[str, str]]]:
    """Serve, with a user who has a token, but no password: those take their time."""
    async with served(tmp_path) as server:
        added = await server.client.post("/api/v1/users", json={"name": "ada", "role": role})
        assert added.status_code == 201, added.text
        yield server, bearer((await server.fabric.identity.issue("ada", by=owner_here())).token)


async def logged_in(server: Served, **person: str) -> dict[str, str]:
    answer = await server.client.post("/api/v1/login", json=PERSON | person, headers={"Authorization": ""})
    assert answer.status_code == 200, answer.text
    return bearer(answer.json()["access_token"])


async def refused(server: Served, headers: dict[str, str], detail: str = INVALID) -> None:
    answer = await server.client.get("/api/v1/me", headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (401, detail)
    assert answer.headers["www-authenticate"] == "Bearer"


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.proves("A33-011", "A33-012")
async def test_a_person_logs_in_and_is_known_by_the_token(tmp_path: Path) -> None:
    async with with_ada(tmp_path) as (server, ada):
        answer = await server.client.post("/api/v1/login", json=PERSON, headers={"Authorization": ""})
        body = answer.json()
        assert (body["token_type"], body["expires_in"]) == ("bearer", 3600)
        assert body["scopes"] == ["runs", "runs:read", "workflows"]
        assert answer.headers["cache-control"] == "no-store"
        claims = jwt.decode(body["access_token"], options={"verify_signature": False})
        assert claims["sub"] == "ada"
        assert claims["scopes"] == body["scopes"]
        assert claims["exp"] - claims["iat"] == pytest.approx(3600, abs=1.1)
        me = (await server.client.get("/api/v1/me", headers=ada)).json()
        assert me.pop("expires_at") == pytest.approx(time.time() + 3600, abs=60)
        assert me == {"name": "ada", "kind": "user", "scopes": ["runs", "runs:read", "workflows"]}
        shown = await server.client.get("/api/v1/users/ada")
        assert shown.json()["has_password"]
        assert "argon2" not in shown.text
        forbidden = await server.client.get("/api/v1/users", headers=ada)
        assert (forbidden.status_code, forbidden.json()["code"]) == (403, "forbidden")


@pytest.mark.proves("DU-7")
async def test_a_login_is_renewed_over_http_and_what_renews_it_opens_nothing(tmp_path: Path) -> None:
    async with with_ada(tmp_path) as (server, ada):
        login = (await server.client.post("/api/v1/login", json=PERSON, headers={"Authorization": ""})).json()
        assert login["refresh_expires_in"] == 12 * 3600
        await refused(server, bearer(login["refresh_token"]))

        async def renew(token: str) -> Any:
            wish = {"refresh_token": token}
            return await server.client.post("/api/v1/login/renew", json=wish, headers={"Authorization": ""})

        answer = await renew(login["refresh_token"])
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        assert answer.json().keys() == {"access_token", "token_type", "expires_in", "scopes"}
        me = await server.client.get("/api/v1/me", headers=bearer(answer.json()["access_token"]))
        assert me.json()["name"] == "ada"
        for wrong in (login["access_token"], "x", login["refresh_token"][:-2] + "xx"):
            assert ((await renew(wrong)).status_code, (await renew(wrong)).json()["detail"]) == (401, INVALID)
        assert (await server.client.post("/api/v1/me/logout", headers=ada)).status_code == 204
        assert (await renew(login["refresh_token"])).status_code == 401


@pytest.mark.proves("DU-7")
async def test_one_login_is_ended_with_all_of_its_tokens(tmp_path: Path) -> None:
    async with with_ada(tmp_path) as (server, _):
        here, there = [(await server.client.post("/api/v1/login", json=PERSON)).json() for _ in range(2)]
        ended = {"refresh_token": here["refresh_token"]}
        for _ in range(2):
            answer = await server.client.post("/api/v1/login/end", json=ended, headers={"Authorization": ""})
            assert answer.status_code == 204
        await refused(server, bearer(here["access_token"]))
        assert (await server.client.post("/api/v1/login/renew", json=ended)).status_code == 401
        me = await server.client.get("/api/v1/me", headers=bearer(there["access_token"]))
        assert me.status_code == 200
        wrong = {"refresh_token": there["access_token"]}
        assert (await server.client.post("/api/v1/login/end", json=wrong)).status_code == 401


async def test_whatever_is_wrong_with_a_login_the_answer_is_the_same(tmp_path: Path) -> None:
    async with with_ada(tmp_path) as (server, _):
        for wrong in (
            {"password": "wrong horse battery staple"},
            {"username": "nobody"},
            {"username": "ada\0"},
            {"password": ""},
            {"password": PASSWORD + "x" * 900},
        ):
            answer = await server.client.post("/api/v1/login", json=PERSON | wrong, headers={"Authorization": ""})
            assert (answer.status_code, answer.json()["detail"]) == (401, INVALID), wrong
            assert "horse" not in answer.text


@pytest.mark.proves("A33-012")
async def test_tokens_that_were_tampered_with_are_refused(tmp_path: Path) -> None:
    async with with_token(tmp_path) as (server, ada):
        head, claims, signature = ada["Authorization"].removeprefix("Bearer ").split(".")
        said = json.loads(base64.urlsafe_b64decode(claims + "=="))
        admin = part({**said, "scopes": ["admin"]})
        for token in (
            f"{head}.{admin}.{signature}",
            f"{part({'alg': 'none', 'typ': 'JWT'})}.{admin}.",
            f"{part({'alg': 'None'})}.{claims}.{signature}",
            f"{part({'alg': 'HS512', 'typ': 'JWT'})}.{claims}.{signature}",
            f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{claims}.{signature}",
            f"{head}.{claims}.",
            f"{head}.{claims}.{signature[:-4]}AAAA",
            f"{head}.{claims}",
            "..",
            "a.b.c",
            "x" * 20_000,
        ):
            await refused(server, bearer(token))


@pytest.mark.proves("A33-012")
async def test_tokens_with_our_signature_that_are_not_meant_for_us_are_refused(tmp_path: Path) -> None:
    async with with_token(tmp_path) as (server, _):
        secret = jwt_secret(tmp_path / ".fabric", os.environ, shared=bool(server.fabric.config.store.url))
        now = time.time()
        good = {"sub": "ada", "scopes": ["runs:read"], "iat": now, "exp": now + 60}
        good |= {"iss": "agent-fabric", "aud": "agent-fabric"}

        def signed(algorithm: str = "HS256", **changed: Any) -> dict[str, str]:
            claims = {name: value for name, value in {**good, **changed}.items() if value is not None}
            return bearer(jwt.encode(claims, secret, algorithm=algorithm))

        assert (await server.client.get("/api/v1/me", headers=signed())).json()["scopes"] == ["runs:read"]
        for headers in (
            signed(iss="somebody else"),
            signed(aud="somebody else"),
            signed(sub="bob"),
            signed(sub=None),
            signed(exp=None),
            signed(iat=None),
            signed(aud=None),
            signed(iss=None),
            signed(scopes=None),
            signed(scopes="admin"),
            signed(nbf=now + 600),
            signed(iat="now"),
        ):
            await refused(server, headers)
        await refused(server, signed(exp=now - 60), EXPIRED)
        wide = await server.client.get("/api/v1/me", headers=signed(scopes=["admin", "everything", 7]))
        assert wide.json()["scopes"] == ["runs", "runs:read", "workflows"], "never more than the user may"
        forged = jwt.encode({**good, "exp": now - 60}, b"x" * 32, algorithm="HS256")
        await refused(server, bearer(forged))


@pytest.mark.proves("A33-013")
async def test_a_key_is_shown_once_scoped_expiring_and_revocable(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        made = await server.client.post("/api/v1/keys", json={"name": "ci"})
        assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
        body = made.json()
        assert body["key"].startswith(f"a33_{body['id']}_")
        assert len(body["key"].split("_", 2)[2]) >= 43
        assert (body["scopes"], body["status"]) == (["runs:read"], "live")
        assert body["expires_at"] - body["created_at"] == 90 * 86_400
        for headers in ({"X-API-Key": body["key"]}, bearer(body["key"])):
            async with httpx2.AsyncClient(base_url=server.client.base_url, headers=headers) as client:
                me = await client.get("/api/v1/me")
            expected = {"name": "ci", "kind": "key", "scopes": ["runs:read"], "expires_at": body["expires_at"]}
            assert me.json() == expected
        listed = (await server.client.get("/api/v1/keys")).json()["keys"]
        assert [key["name"] for key in listed] == ["ci"]
        assert body["key"] not in json.dumps(listed)
        (row,) = await rows_of(server.fabric.records, "SELECT * FROM api_keys WHERE id = ?", body["id"])
        assert body["key"].encode() not in repr(row).encode()
        (kept,) = (bytes(value) for value in row if isinstance(value, bytes))
        assert len(kept) == 4 + hashlib.sha256().digest_size, "an HMAC with SHA-256, and which secret made it"
        await refused(server, bearer(body["key"][:-1] + ("A" if body["key"][-1] != "A" else "B")))
        await refused(server, bearer(f"a33_{body['id']}_"))
        await refused(server, bearer("a33_"))
        revoked = await server.client.delete(f"/api/v1/keys/{body['id']}")
        assert (revoked.status_code, revoked.json()["status"]) == (200, "revoked")
        await refused(server, bearer(body["key"]))
        assert (await server.client.get("/api/v1/keys")).json()["keys"] == []
        everything = (await server.client.get("/api/v1/keys?all=true")).json()["keys"]
        assert everything[0]["last_used_at"] is not None
        assert (await server.client.delete("/api/v1/keys/nothing")).json()["code"] == "account_not_found"


async def test_keys_have_names_of_their_own_and_say_so_if_they_never_expire(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = await server.client.post("/api/v1/keys", json={"name": "ci", "expires_in_s": "never"})
        assert first.json()["expires_at"] is None
        again = await server.client.post("/api/v1/keys", json={"name": "ci"})
        assert (again.status_code, again.json()["code"]) == (409, "name_taken")
        wrongs: list[dict[str, Any]] = [{"expires_in_s": None}, {"expires_in_s": 0}, {"scopes": []}, {"more": 1}]
        for wrong in (*wrongs, {"scopes": ["root"]}, {"expires_in_s": 1e300}):
            answer = await server.client.post("/api/v1/keys", json={"name": "other", **wrong})
            assert answer.status_code == 422, wrong
        for name in ("", "a b", "x" * 65, "../..", "é"):
            answer = await server.client.post("/api/v1/keys", json={"name": name})
            assert answer.status_code == 422, name
        brief = (await server.client.post("/api/v1/keys", json={"name": "brief", "expires_in_s": 0.001})).json()
        await refused(server, bearer(brief["key"]), EXPIRED)
        await refused(server, bearer(brief["key"][:-1] + "~"))


async def test_what_is_taken_from_somebody_is_gone_at_once(tmp_path: Path) -> None:
    async with with_ada(tmp_path) as (server, first):
        ada = first

        async def patch(**change: Any) -> None:
            answer = await server.client.patch("/api/v1/users/ada", json=change)
            assert answer.status_code == 200, answer.text

        await patch(role="viewer", scopes=["approvals"])
        await refused(server, ada)
        ada = await logged_in(server)
        assert (await server.client.get("/api/v1/me", headers=ada)).json()["scopes"] == ["approvals", "runs:read"]
        await patch(disabled=True)
        await refused(server, ada)
        assert (await server.client.post("/api/v1/login", json=PERSON)).status_code == 401
        await patch(disabled=False)
        await refused(server, ada)
        ada = await logged_in(server)
        assert (await server.client.post("/api/v1/me/logout", headers=ada)).status_code == 204
        await refused(server, ada)
        ada = await logged_in(server)
        answer = await server.client.post("/api/v1/users/ada/password", json={"password": OTHER})
        assert answer.status_code == 204
        await refused(server, ada)
        assert (await server.client.post("/api/v1/login", json=PERSON)).status_code == 401
        ada = await logged_in(server, password=OTHER)
        assert (await server.client.delete("/api/v1/users/ada")).status_code == 200
        await refused(server, ada)
        await server.client.post("/api/v1/users", json={"name": "ada", "password": PASSWORD})
        await refused(server, ada)


async def test_people_choose_their_own_password_with_the_old_one(tmp_path: Path) -> None:
    async with with_ada(tmp_path) as (server, ada):

        async def change(old: str, new: str, headers: dict[str, str] = ada) -> int:
            body = {"old_password": old, "new_password": new}
            return (await server.client.put("/api/v1/me/password", json=body, headers=headers)).status_code

        assert await change("not the right one", OTHER) == 401
        assert await change(PASSWORD, "short") == 422
        assert await change(PASSWORD, OTHER, bearer(server.token)) == 403, "the folder's owner has no password"
        assert await change(PASSWORD, OTHER) == 204
        await refused(server, ada)
        await logged_in(server, password=OTHER)


async def test_the_last_admin_stays_unless_the_machine_itself_says_otherwise(tmp_path: Path) -> None:
    async with with_token(tmp_path, role="admin") as (server, ada):
        for method, path, body in (
            ("DELETE", "/api/v1/users/ada", None),
            ("PATCH", "/api/v1/users/ada", {"role": "viewer"}),
            ("PATCH", "/api/v1/users/ada", {"disabled": True}),
        ):
            answer = await server.client.request(method, path, json=body, headers=ada)
            assert (answer.status_code, answer.json()["code"]) == (409, "last_admin")
        other = {"name": "bob", "scopes": ["admin"]}
        assert (await server.client.post("/api/v1/users", json=other, headers=ada)).status_code == 201
        assert (await server.client.delete("/api/v1/users/ada", headers=ada)).status_code == 200
        assert (await server.client.delete("/api/v1/users/bob")).status_code == 200


async def test_whoever_removes_somebody_learns_which_of_their_keys_still_work(tmp_path: Path) -> None:
    async with with_token(tmp_path, role="admin") as (server, ada):
        for name, headers in (("ci", ada), ("old", ada), ("mine", bearer(server.token))):
            made = await server.client.post("/api/v1/keys", json={"name": name}, headers=headers)
            assert made.status_code == 201
        await server.client.delete("/api/v1/keys/old")
        removed = (await server.client.delete("/api/v1/users/ada")).json()
        assert (removed["name"], removed["removed"]) == ("ada", True)
        assert [(key["name"], key["created_by"], key["status"]) for key in removed["keys"]] == [("ci", "ada", "live")]


async def test_users_are_listed_shown_and_checked(tmp_path: Path) -> None:
    async with with_token(tmp_path) as (server, _):
        ada = (await server.client.get("/api/v1/users/ada")).json()
        assert (ada["role"], ada["extra_scopes"], ada["has_password"]) == ("member", [], False)
        assert (await server.client.get("/api/v1/users")).json() == {"users": [ada]}
        again = await server.client.post("/api/v1/users", json={"name": "ada"})
        assert (again.status_code, again.json()["code"]) == (409, "name_taken")
        for wrong in (
            {"name": "Bob"},
            {"name": "b/ob"},
            {"name": "bob", "password": "short"},
            {"name": "bob", "password": "bob is my name"},
            {"name": "bob", "password": "aaaaaaaaaaaaaaaa"},
            {"name": "bob", "role": "god"},
            {"name": "bob", "scopes": ["god"]},
            {"name": "bob", "passwort": "x"},
        ):
            answer = await server.client.post("/api/v1/users", json=wrong)
            assert answer.status_code == 422, wrong
        for name in ("nobody", "%00", "%ff", "a%20b", "x" * 500):
            assert (await server.client.get(f"/api/v1/users/{name}")).status_code == 404, name


@pytest.mark.proves("A33-017")
async def test_nobody_gives_what_they_do_not_have(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        made = await server.client.post("/api/v1/keys", json={"name": "ops", "scopes": ["runs", "nodes"]})
        ops = bearer(made.json()["key"])
        assert (await server.client.get("/api/v1/me", headers=ops)).json()["scopes"] == ["nodes", "runs", "runs:read"]
        for path, body in (("/api/v1/keys", {"name": "more"}), ("/api/v1/users", {"name": "eve", "role": "admin"})):
            assert (await server.client.post(path, json=body, headers=ops)).status_code == 403


async def test_a_new_local_token_counts_at_once_and_the_old_one_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        assert (await server.client.get("/api/v1/me")).json()["scopes"] == sorted(Scope)
        fresh = rotate_local_token(tmp_path / ".fabric")
        await refused(server, bearer(server.token))
        assert (await server.client.get("/api/v1/me", headers=bearer(fresh))).json()["kind"] == "local"
        (tmp_path / ".fabric" / "token").chmod(0o644)
        await refused(server, bearer(fresh))


@pytest.mark.sqlite
async def test_a_token_of_another_folder_of_the_same_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with with_token(tmp_path / "one") as (_, ada), with_token(tmp_path / "two") as (second, _):
        await refused(second, ada)


def test_what_recognises_a_key_is_no_plain_hash() -> None:
    hashed = PepperedHash(b"p" * 32).hash("a33_x_y")
    assert hashed[4:] == hmac.digest(b"p" * 32, b"a33_x_y", "sha256")
    assert hashlib.sha256(b"a33_x_y").digest() not in hashed
