"""Tokens that we sign ourselves: JWT with HS256, and with nothing else."""

import math
from typing import Any, Final

import jwt

from agent_fabric.application.ports.identity import TokenPayload, expired_credentials, invalid_credentials
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.principals import known_scopes
from agent_fabric.infrastructure.identity.own_secrets import SHORTEST

ALGORITHM: Final = "HS256"
LEEWAY_S: Final = 5.0
"""How far two clocks may be apart: a token counts so much longer."""
LAST_MOMENT: Final = 253_402_300_799
"""The end of the year 9999, in seconds; no date is later."""
RENEWAL: Final = "#login-renewal"
"""Behind the audience of tokens that renew a login."""
NEEDED: Final = ("sub", "iat", "exp", "aud", "iss")


class JwtTokens:
    """TokenSigner. What a token says about its own algorithm is compared, never followed."""

    def __init__(self, secret: bytes, *, issuer: str, audience: str) -> None:
        if len(secret) < SHORTEST:
            raise ConfigError(
                f"The secret for tokens has {len(secret)} bytes: at least {SHORTEST} are needed",
                hint="Set JWT_SECRET to a random value, such as that of: openssl rand -base64 48",
            )
        self._secret = secret
        self._issuer = issuer
        self._audience = audience

    def sign(self, payload: TokenPayload, *, renews: bool = False) -> str:
        claims: dict[str, Any] = {
            "sub": payload.sub,
            "scopes": sorted(payload.scopes),
            "iat": payload.iat,
            "exp": math.ceil(payload.exp),
            "iss": self._issuer,
            "aud": self._audience_of(renews=renews),
            **({"sid": payload.login} if payload.login else {}),
        }
        return jwt.encode(claims, self._secret, algorithm=ALGORITHM)

    def read(self, token: str, *, renews: bool = False) -> TokenPayload:
        audience = self._audience_of(renews=renews)
        claims = checked_claims(token, self._secret, (ALGORITHM,), issuer=self._issuer, audience=audience)
        scopes = claims.get("scopes")
        if not isinstance(scopes, list):
            raise invalid_credentials()
        return TokenPayload(
            sub=claims["sub"],
            scopes=known_scopes(scopes),
            iat=float(claims["iat"]),
            exp=float(claims["exp"]),
            login=str(claims.get("sid", "")),
        )

    def _audience_of(self, *, renews: bool) -> str:
        return f"{self._audience}{RENEWAL}" if renews else self._audience


def checked_claims(
    token: str, key: bytes | jwt.PyJWK, algorithms: tuple[str, ...], *, issuer: str, audience: str
) -> dict[str, Any]:
    """Return what a token says, once everything about it is right.

    Raises:
        Unauthenticated: something is not; that it is too old is said only about one that is genuine.
    """
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=list(algorithms),
            issuer=issuer,
            audience=audience,
            leeway=LEEWAY_S,
            # When it was issued is compared with when tokens were last voided, and not with a clock.
            options={"require": list(NEEDED), "verify_iat": False, "enforce_minimum_key_length": True},
        )
    except jwt.ExpiredSignatureError:
        raise expired_credentials() from None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
        raise invalid_credentials() from None
    if not _is_name(claims["sub"]) or not all(_is_moment(claims.get(name, 0)) for name in ("iat", "exp", "nbf")):
        raise invalid_credentials()
    return claims


def header_of(token: str) -> dict[str, Any]:
    """Return what a token says about how it is signed; empty if it is none. Nothing of it can be believed."""
    try:
        return jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return {}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 255 and value.isprintable()


def _is_moment(value: object) -> bool:
    # Compared before it is converted: an integer of a token may have thousands of digits.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LAST_MOMENT
