"""Tokens of another identity provider, checked with keys that a real server on this machine publishes."""

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.warnings import InsecureKeyLengthWarning

from agent_fabric.application.identity.authenticate import Authenticate
from agent_fabric.config.schema.identity import ProviderConfig
from agent_fabric.domain.errors import Unauthenticated
from agent_fabric.domain.identity.principals import AnyScope, Kind, Principal, Scope
from agent_fabric.infrastructure.identity.jwks import (
    FRESH_S,
    MAX_BYTES,
    REFETCH_S,
    STALE_S,
    ProviderTokens,
    key_set_source,
)
from agent_fabric.infrastructure.identity.jwt_tokens import JwtTokens
from agent_fabric.infrastructure.identity.own_secrets import PepperedHash
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryEndedLogins, MemoryKeys, MemoryUsers

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WEAK_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def published(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, kid: str, **more: Any) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        value = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        value = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**value, "kid": kid, "use": "sig", **more}


@dataclass
class Site:
    """A provider: what it answers, and how often it was asked."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    asked: int = 0
    url: str = ""

    def publish(self, *keys: dict[str, Any]) -> None:
        self.body = json.dumps({"keys": keys}).encode()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked += 1
            self.send_response(site.status)
            for name, value in site.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(site.body)))
            self.end_headers()
            self.wfile.write(site.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}/keys"
    site.publish(published(RSA_KEY, "r1"), published(EC_KEY, "e1"))
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


def provider(location: str, clock: FrozenClock | None = None, **more: Any) -> ProviderTokens:
    config = ProviderConfig(
        issuer="https://id.example.org",
        audience="fabric",
        jwks=location,
        scopes={"fabric-run": "runs", "fabric-admin": "admin"},
        **more,
    )
    return ProviderTokens(config, key_set_source(location, timeout_s=5), clock or FrozenClock())


def token(
    key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "r1", headers: Any = None, **changed: Any
) -> str:
    now = time.time()
    claims = {"iss": "https://id.example.org", "aud": "fabric", "sub": "u-1", "iat": now, "exp": now + 60} | changed
    named = {} if kid is None else {"kid": kid}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm=algorithm, headers={**named, **(headers or {})})


async def refusal(tokens: ProviderTokens, shown: str) -> str:
    with pytest.raises(Unauthenticated) as raised:
        await tokens.read(shown)
    return raised.value.message


@pytest.mark.proves("A33-011")
async def test_rs256_and_es256_are_read_with_the_keys_that_are_published(site: Site) -> None:
    tokens = provider(site.url)
    who = Principal("u-1", Kind.EXTERNAL, frozenset({Scope.RUNS_READ}))
    assert await tokens.read(token()) == who
    assert await tokens.read(token(EC_KEY, "ES256", "e1")) == who
    assert await tokens.read(token(kid=None)) == who, "the only key of its kind needs no name"
    assert await tokens.read(token(aud=["other", "fabric"])) == who
    assert site.asked == 1


async def test_words_of_the_provider_mean_only_what_the_configuration_says(site: Site) -> None:
    tokens = provider(site.url)

    async def scopes(**claims: Any) -> frozenset[AnyScope]:
        return (await tokens.read(token(**claims))).scopes

    assert await scopes(scope="openid fabric-run profile") == {Scope.RUNS, Scope.RUNS_READ}
    assert await scopes(scope=["fabric-run"]) == {Scope.RUNS, Scope.RUNS_READ}
    assert await scopes(scope="fabric-admin") == set(Scope)
    for nothing in ("admin", "runs", "", ["admin", 7, None], {"fabric-admin": True}, 7):
        assert await scopes(scope=nothing) == {Scope.RUNS_READ}
    strict = provider(site.url, default_scopes=(), scope_claim="groups")
    assert (await strict.read(token(scope="fabric-admin"))).scopes == set()
    assert (await strict.read(token(groups=["fabric-run"]))).scopes == {Scope.RUNS, Scope.RUNS_READ}


async def test_tokens_that_are_not_genuine_or_not_for_us_are_refused(site: Site) -> None:
    tokens = provider(site.url)
    invalid = "Invalid authentication credentials"
    for shown in (
        token(OTHER_RSA_KEY),
        token(EC_KEY, "ES256", "r1"),
        token(kid="e1"),
        token(RSA_KEY, "RS384"),
        token(RSA_KEY, "PS256"),
        token(iss="https://evil.example.org"),
        token(aud="other"),
        token(sub=None),
        token(exp=None),
        token(iat=None),
        token(sub=""),
        token(nbf=time.time() + 600),
        token()[:-4] + "AAAA",
    ):
        assert await refusal(tokens, shown) == invalid
    assert await refusal(tokens, token(exp=time.time() - 60)) == "Expired authentication credentials"
    assert await refusal(tokens, token(OTHER_RSA_KEY, exp=time.time() - 60)) == invalid


async def test_a_key_that_is_too_short_is_not_used_although_it_is_published(site: Site) -> None:
    site.publish(published(WEAK_RSA_KEY, "weak"))
    with pytest.warns(InsecureKeyLengthWarning):
        shown = token(WEAK_RSA_KEY, kid="weak")
    assert await refusal(provider(site.url), shown) == "Invalid authentication credentials"


async def test_a_key_in_the_token_itself_or_behind_its_address_is_never_used(site: Site) -> None:
    tokens = provider(site.url)
    own = published(OTHER_RSA_KEY, "mine")
    for headers in ({"jwk": own}, {"jku": "http://127.0.0.1:1/keys"}, {"x5u": "http://127.0.0.1:1/"}):
        assert await refusal(tokens, token(OTHER_RSA_KEY, kid="mine", headers=headers))
        assert await refusal(tokens, token(OTHER_RSA_KEY, kid=None, headers=headers))


async def test_a_public_key_is_no_secret_to_sign_with(site: Site) -> None:
    """The old attack: HS256, with the public RSA key as the secret."""
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    now = time.time()
    claims = {"iss": "https://id.example.org", "aud": "fabric", "sub": "u-1", "iat": now, "exp": now + 60}
    head = _part({"alg": "HS256", "typ": "JWT", "kid": "r1"})
    for secret in (pem, pem.strip(), json.dumps(published(RSA_KEY, "r1")).encode()):
        body = f"{head}.{_part(claims | {'scopes': ['admin']})}"
        forged = f"{body}.{_b64(hmac.digest(secret, body.encode(), 'sha256'))}"
        tokens = provider(site.url)
        assert await refusal(tokens, forged) == "Invalid authentication credentials"
        whole = Authenticate(
            local_token=lambda: None,
            local_name="me",
            users=MemoryUsers(),
            ended_logins=MemoryEndedLogins(),
            keys=MemoryKeys(),
            hasher=PepperedHash(b"p" * 32),
            tokens=JwtTokens(b"s" * 32, issuer="https://id.example.org", audience="fabric"),
            provider=tokens,
            clock=FrozenClock(),
        )
        with pytest.raises(Unauthenticated):
            await whole(forged, is_key=False, from_here=True)
        assert (await whole(token(), is_key=False, from_here=False)).kind is Kind.EXTERNAL


async def test_new_keys_are_found_and_invented_names_do_not_make_us_ask_again_and_again(site: Site) -> None:
    clock = FrozenClock()
    tokens = provider(site.url, clock)
    await tokens.read(token())
    for number in range(50):
        await refusal(tokens, token(kid=f"invented-{number}"))
    assert site.asked == 1
    site.publish(published(OTHER_RSA_KEY, "r2"))
    assert await refusal(tokens, token(OTHER_RSA_KEY, kid="r2")), "asked only just now"
    clock.time += REFETCH_S
    await asyncio.gather(*(tokens.read(token(OTHER_RSA_KEY, kid="r2")) for _ in range(20)))
    assert site.asked == 2
    assert await refusal(tokens, token()), "a key that is not published any more counts no more"


async def test_keys_are_fetched_again_in_time_and_a_provider_that_is_down_locks_nobody_out(site: Site) -> None:
    clock = FrozenClock()
    tokens = provider(site.url, clock)
    await tokens.read(token())
    clock.time += FRESH_S + 1
    await tokens.read(token())
    assert site.asked == 2
    site.status = 500
    clock.time += FRESH_S + 1
    await tokens.read(token())
    assert site.asked == 3
    clock.time += STALE_S
    assert await refusal(tokens, token()), "but not for ever"
    site.status = 200
    clock.time += REFETCH_S
    await tokens.read(token())


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (302, b"", {"Location": "/elsewhere"}),
        (404, b"{}", {}),
        (200, b"", {}),
        (200, b"not json", {}),
        (200, b"[]", {}),
        (200, b'{"keys": {}}', {}),
        (200, b'{"keys": [7, null, {}, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": ["RSA"]}, {"kty": "RSA"}]}', {}),
        (200, b"\xff\xfe", {}),
        (200, b"x" * (MAX_BYTES + 1), {}),
        (200, b"[" * 100_000, {}),
    ],
)
async def test_whatever_a_provider_answers_nobody_comes_in_by_it(
    site: Site, status: int, body: bytes, headers: Mapping[str, str]
) -> None:
    site.status, site.body, site.headers = status, body, headers
    assert await refusal(provider(site.url), token()) == "Invalid authentication credentials"
    assert site.asked == 1, "and we are not sent on"


async def test_keys_for_other_purposes_and_secret_ones_are_not_used(site: Site) -> None:
    site.publish(published(RSA_KEY, "r1", use="enc"), published(EC_KEY, "e1", alg="ES384"))
    tokens = provider(site.url)
    assert await refusal(tokens, token())
    assert await refusal(tokens, token(EC_KEY, "ES256", "e1"))


async def test_keys_may_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    clock = FrozenClock()
    tokens = provider(str(path), clock)
    assert await refusal(tokens, token())
    path.write_text(json.dumps({"keys": [published(RSA_KEY, "r1")]}))
    clock.time += REFETCH_S
    assert (await tokens.read(token())).name == "u-1"


async def test_a_provider_that_nobody_answers_at_is_not_waited_for_long() -> None:
    assert await refusal(provider("http://127.0.0.1:1/keys"), token())


def _part(value: object) -> str:
    return _b64(json.dumps(value).encode())


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
