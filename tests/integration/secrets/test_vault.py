"""Secrets in a vault.

There is no Vault here: a stand-in on a real socket speaks the documented wire format of the engine KV, version 2:
`GET /v1/<mount>/data/<path>` with `X-Vault-Token` and `X-Vault-Namespace`; 200 with `data.data` and `data.metadata`;
404 with no errors for what is not there, and with `data.data: null` for what was deleted; 403 and 503 with `errors`.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent_fabric.config.schema.secrets import VaultConfig
from agent_fabric.domain.errors import ConfigError, FabricError, StoreUnavailable
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.secrets.vault import VaultSecrets
from agent_fabric.testing.fakes import FrozenClock

TOKEN = "hvs.CAESIJ-the-token"
METADATA = {"created_time": "2026-01-01T00:00:00Z", "custom_metadata": None, "deletion_time": "", "destroyed": False}


@dataclass
class StandIn:
    """A vault with one engine, mounted at `secret`."""

    port: int = 0
    secrets: dict[str, Any] = field(default_factory=dict)
    """By path; None: deleted."""
    failures: list[web.Response] = field(default_factory=list)
    """What it answers first."""
    silent_until: asyncio.Event | None = None
    requests: list[web.Request] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.silent_until is not None:
            await self.silent_until.wait()
        if self.failures:
            return self.failures.pop(0)
        if request.headers.get("X-Vault-Token") != TOKEN:
            return web.json_response({"errors": ["permission denied"]}, status=403)
        if not request.path.startswith("/v1/secret/data/"):
            return web.json_response({"errors": ["no handler for route"]}, status=404)
        path = request.path.removeprefix("/v1/secret/data/")
        if path not in self.secrets:
            return web.json_response({"errors": []}, status=404)
        found = self.secrets[path]
        body = {
            "request_id": "8f1c0a5e",
            "lease_id": "",
            "renewable": False,
            "lease_duration": 0,
            "data": {"data": found, "metadata": {**METADATA, "version": 3}},
            "wrap_info": None,
            "warnings": None,
            "auth": None,
        }
        return web.json_response(body, status=404 if found is None else 200)


@asynccontextmanager
async def standing_in(tls: ssl.SSLContext | None = None) -> AsyncIterator[StandIn]:
    vault = StandIn()
    app = web.Application()
    app.router.add_get("/{path:.*}", vault.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    vault.port = runner.addresses[0][1]
    try:
        yield vault
    finally:
        await runner.cleanup()


@pytest.fixture
async def vault() -> AsyncIterator[StandIn]:
    async with standing_in() as found:
        found.secrets = {
            "agent-fabric": {"GITHUB_TOKEN": "gh-value", "PORT": 5432, "FLAG": True, "NESTED": {"a": 1}},
            "team/blue": {"key": "blue-value"},
            "gone": None,
        }
        yield found


def secrets_of(vault: StandIn, clock: Any = None, token: str = TOKEN, **settings: Any) -> VaultSecrets:
    config = VaultConfig.model_validate({"url": f"http://127.0.0.1:{vault.port}", "timeout_s": 10.0, **settings})

    async def give_token(reference: str) -> str:
        assert reference == "env:VAULT_TOKEN"
        return token

    return VaultSecrets(config, give_token, clock or SystemClock())


@pytest.mark.proves("A33-121")
async def test_a_name_is_a_field_of_the_configured_path_and_a_reference_names_both(vault: StandIn) -> None:
    secrets = secrets_of(vault, namespace="team-a")
    assert await secrets.get("GITHUB_TOKEN") == "gh-value"
    assert await secrets.get("team/blue#key") == "blue-value"
    assert [request.path for request in vault.requests] == [
        "/v1/secret/data/agent-fabric",
        "/v1/secret/data/team/blue",
    ]
    headers = vault.requests[0].headers
    assert (headers["X-Vault-Token"], headers["X-Vault-Namespace"], headers["X-Vault-Request"]) == (
        TOKEN,
        "team-a",
        "true",
    )


async def test_what_is_not_there_or_was_deleted_is_no_secret(vault: StandIn) -> None:
    secrets = secrets_of(vault)
    assert [await secrets.get(name) for name in ("NONE", "nowhere#key", "gone#key")] == [None, None, None]
    assert secrets.how_to_set("gone#key").endswith("vault kv patch -mount=secret gone key=…")


async def test_numbers_are_text_and_structures_are_refused(vault: StandIn) -> None:
    secrets = secrets_of(vault)
    assert [await secrets.get("PORT"), await secrets.get("FLAG")] == ["5432", "true"]
    with pytest.raises(ConfigError, match="neither text nor a number"):
        await secrets.get("NESTED")


async def test_an_answer_is_used_for_a_while_and_then_asked_for_again(vault: StandIn) -> None:
    clock = FrozenClock()
    secrets = secrets_of(vault, clock, cache_s=60)
    await secrets.get("GITHUB_TOKEN")
    vault.secrets["agent-fabric"] = {"GITHUB_TOKEN": "rotated"}
    assert await secrets.get("GITHUB_TOKEN") == "gh-value"
    clock.time += 61
    assert await secrets.get("GITHUB_TOKEN") == "rotated"
    assert len(vault.requests) == 2


async def test_many_who_want_the_same_at_once_ask_once(vault: StandIn) -> None:
    secrets = secrets_of(vault)
    values = await asyncio.gather(*(secrets.get("GITHUB_TOKEN") for _ in range(50)))
    assert set(values) == {"gh-value"}
    assert len(vault.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 412])
async def test_what_fails_for_a_moment_is_tried_again(vault: StandIn, status: int) -> None:
    vault.failures = [web.json_response({"errors": ["busy"]}, status=status)]
    assert await secrets_of(vault).get("GITHUB_TOKEN") == "gh-value"
    assert len(vault.requests) == 2


@pytest.mark.parametrize(
    ("status", "body", "times", "kind", "message", "hint"),
    [
        (403, {"errors": ["permission denied"]}, 1, ConfigError, "does not let us read", "capabilities"),
        (404, {"errors": ["no handler"]}, 1, ConfigError, "no such place", "mount"),
        (503, {"errors": ["Vault is sealed"]}, 3, StoreUnavailable, "Vault is sealed", "unseal"),
        (429, {"errors": ["quota"]}, 3, StoreUnavailable, "too often: quota", "later"),
        (500, {"errors": []}, 3, StoreUnavailable, "answered 500", "log"),
        (307, {}, 1, ConfigError, "another server", "url"),
        (200, {"data": {"key": "of version 1"}}, 1, StoreUnavailable, "KV, version 2", "mount"),
        (200, [1], 1, StoreUnavailable, "KV, version 2", "mount"),
        (200, "no object", 1, StoreUnavailable, "KV, version 2", "mount"),
    ],
)
async def test_each_refusal_says_what_it_means_and_what_to_do(
    vault: StandIn, status: int, body: Any, times: int, kind: type[FabricError], message: str, hint: str
) -> None:
    vault.failures = [
        web.json_response(body, status=status, headers={"location": "http://127.0.0.1:1/"}) for _ in range(times)
    ]
    with pytest.raises(kind, match=message) as caught:
        await secrets_of(vault).get("GITHUB_TOKEN")
    assert hint in caught.value.hint
    assert TOKEN not in caught.value.message + caught.value.hint
    assert len(vault.requests) == times


async def test_a_wrong_token_is_refused_by_the_vault(vault: StandIn) -> None:
    with pytest.raises(ConfigError, match="permission denied") as caught:
        await secrets_of(vault, token="hvs.wrong").get("GITHUB_TOKEN")
    assert "env:VAULT_TOKEN" in caught.value.hint
    assert "hvs.wrong" not in caught.value.message + caught.value.hint


async def test_a_server_that_asks_for_much_patience_is_not_waited_for(vault: StandIn) -> None:
    vault.failures = [web.json_response({"errors": []}, status=429, headers={"retry-after": "3600"}) for _ in range(3)]
    async with asyncio.timeout(60):
        with pytest.raises(StoreUnavailable, match="too often"):
            await secrets_of(vault).get("GITHUB_TOKEN")


async def test_a_server_that_says_nothing_is_given_up(vault: StandIn) -> None:
    vault.silent_until = asyncio.Event()
    async with asyncio.timeout(15):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await secrets_of(vault, timeout_s=0.1).get("GITHUB_TOKEN")
    vault.silent_until.set()


async def test_nobody_at_the_address_is_told(vault: StandIn) -> None:
    async with standing_in() as other:
        config = {"url": f"http://127.0.0.1:{other.port}"}
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await secrets_of(vault, **config).get("GITHUB_TOKEN")


async def test_only_a_certificate_that_is_vouched_for_is_trusted(vault: StandIn, tmp_path: Path) -> None:
    certificate, key = _self_signed(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    async with standing_in(tls) as secure:
        secure.secrets = vault.secrets
        url = {"url": f"https://127.0.0.1:{secure.port}"}
        with pytest.raises(StoreUnavailable, match="not trusted"):
            await secrets_of(secure, **url).get("GITHUB_TOKEN")
        assert secure.requests == []
        assert await secrets_of(secure, **url, ca_file=str(certificate)).get("GITHUB_TOKEN") == "gh-value"


def _self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "vault")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "vault.crt", folder / "vault.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths
