"""Tokens of ours: what they say, and that nothing else is taken for one."""

import base64
import json
import time
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.application.ports.identity import TokenPayload
from agent_fabric.domain.errors import ConfigError, Unauthenticated
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.infrastructure.identity.jwt_tokens import JwtTokens, header_of

SECRET = b"s" * 32
TOKENS = JwtTokens(SECRET, issuer="us", audience="this")
NOW = time.time()
PAYLOAD = TokenPayload(sub="ada", scopes=frozenset({Scope.RUNS, Scope.RUNS_READ}), iat=NOW, exp=float(int(NOW) + 600))
CLAIMS: dict[str, Any] = {"sub": "ada", "scopes": ["runs"], "iat": NOW, "exp": NOW + 600, "iss": "us", "aud": "this"}


def signed(secret: bytes = SECRET, algorithm: str = "HS256", **changed: Any) -> str:
    return jwt.encode(CLAIMS | changed, secret, algorithm=algorithm)


def refusal(token: str) -> str:
    with pytest.raises(Unauthenticated) as raised:
        TOKENS.read(token)
    return raised.value.message


@pytest.mark.proves("A33-012")
def test_what_is_signed_is_read_back() -> None:
    token = TOKENS.sign(PAYLOAD)
    assert TOKENS.read(token) == PAYLOAD
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    assert set(jwt.decode(token, options={"verify_signature": False})) == {"sub", "scopes", "iat", "exp", "iss", "aud"}


@pytest.mark.parametrize("size", [0, 1, 31])
def test_a_short_secret_is_refused_with_words(size: int) -> None:
    with pytest.raises(ConfigError, match="at least 32") as raised:
        JwtTokens(b"s" * size, issuer="us", audience="this")
    assert raised.value.hint


BEYOND_ALL_DATES: tuple[Any, ...] = (
    10**400,
    -(10**400),
    1e308,
    float("nan"),
    float("inf"),
    -1,
    "9" * 400,
    "",
    True,
    None,
    [],
    {},
)


@pytest.mark.proves("WA-8")
@pytest.mark.parametrize("moment", BEYOND_ALL_DATES, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("claim", ["exp", "iat", "nbf"])
def test_a_signed_time_beyond_all_dates_is_refused_as_every_wrong_token(claim: str, moment: Any) -> None:
    assert refusal(signed(**{claim: moment})).endswith("authentication credentials")


def test_only_a_genuine_token_that_is_too_old_is_called_expired() -> None:
    assert refusal(signed(exp=NOW - 60)) == "Expired authentication credentials"
    assert refusal(signed(b"x" * 32, exp=NOW - 60)) == "Invalid authentication credentials"
    TOKENS.read(signed(exp=time.time() - 1))  # clocks are not quite the same everywhere


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "them"},
        {"aud": "that"},
        {"aud": ["that"]},
        {"aud": 7},
        {"sub": ""},
        {"sub": "a" * 256},
        {"sub": "a\nb"},
        {"nbf": NOW + 600},
        {"iat": True},
        {"iat": "1"},
        {"exp": "later"},
        {"exp": None},
        {"exp": float("inf")},
        {"iat": float("nan")},
        {"scopes": "admin"},
        {"scopes": {"admin": True}},
    ],
)
def test_a_claim_that_is_not_right_makes_it_invalid(changed: dict[str, Any]) -> None:
    assert refusal(signed(**changed)) == "Invalid authentication credentials"


@pytest.mark.parametrize("missing", ["sub", "iat", "exp", "iss", "aud", "scopes"])
def test_every_claim_is_needed(missing: str) -> None:
    claims = {name: value for name, value in CLAIMS.items() if name != missing}
    assert refusal(jwt.encode(claims, SECRET, algorithm="HS256")) == "Invalid authentication credentials"


def test_no_other_algorithm_is_taken_not_even_of_the_same_secret() -> None:
    for algorithm in ("HS384", "HS512"):
        assert refusal(signed(SECRET * 2, algorithm)) == "Invalid authentication credentials"
    assert refusal(jwt.encode(CLAIMS, None, algorithm="none"))  # type: ignore[arg-type]  # the attack itself
    head, claims, signature = signed().split(".")
    for alg in ("none", "None", "NONE", "RS256", "", None, ["HS256"]):
        forged = base64.urlsafe_b64encode(json.dumps({"alg": alg, "typ": "JWT"}).encode()).decode().rstrip("=")
        assert refusal(f"{forged}.{claims}.{signature}")
        assert refusal(f"{forged}.{claims}.")
    assert TOKENS.read(f"{head}.{claims}.{signature}").sub == "ada"


def test_scopes_that_nobody_knows_allow_nothing() -> None:
    assert TOKENS.read(signed(scopes=["runs", "root", 7, None, ["admin"]])).scopes == {Scope.RUNS}


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda data: data.decode("latin-1")))
def test_whatever_comes_is_refused_and_nothing_breaks(text: str) -> None:
    assert refusal(text) == "Invalid authentication credentials"
    assert isinstance(header_of(text), dict)


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_no_changed_byte_goes_unnoticed(place: int, by: int) -> None:
    token = TOKENS.sign(PAYLOAD)
    head, claims, signature = token.split(".")
    data = bytearray(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    data[place % len(data)] ^= by
    changed = base64.urlsafe_b64encode(data).decode().rstrip("=")
    assert refusal(f"{head}.{changed}.{signature}") == "Invalid authentication credentials"


def test_a_token_of_thousands_of_brackets_is_refused() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    assert refusal(f"{deep}.{deep}.{deep}") == "Invalid authentication credentials"
