"""What the routes of the page take and give."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field, SecretStr, StringConstraints

from agent_fabric.domain.identity.accounts import LONGEST_PASSWORD
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.wire.shape import Shape


class PageLoginRequest(RequestBody, strict=False, json_schema_extra={"examples": [{"code": "Zl5o0m1vC2n3b4V5c6X7zQ"}]}):
    """A code of `fabric web`, or a name and a password."""

    code: Annotated[str, StringConstraints(max_length=128)] = ""
    username: Annotated[str, StringConstraints(max_length=255)] = ""
    password: Annotated[SecretStr, Field(max_length=LONGEST_PASSWORD)] = SecretStr("")


class PageOpened(NamedTuple):
    """A login of the page. The cookie comes beside it."""

    page_token: str
    """Sent with every request as `X-Fabric-Page`; without the cookie it opens nothing."""
    name: str
    scopes: Sequence[str]
    expires_at: float


class LoginCode(NamedTuple):
    """A code that opens the page once."""

    code: str
    """Append it to the address of the page: `/#login=CODE`."""
    expires_in: int
    """Seconds."""


class PageStart(NamedTuple):
    """What the page shows first."""

    name: str
    kind: str
    scopes: Sequence[str]
    expires_at: float | None
    version: str
    build: str
    """Which version of the page this server has; a page of another one offers to reload."""
    sandbox: str
    policy_profile: str
    default_model_key: str
    model_keys: Sequence[str]
    packs: Sequence[str]
    features: Mapping[str, Any]
    """What this server can do that not every server can."""


PAGE_OPENED = Shape(PageOpened)
LOGIN_CODE = Shape(LoginCode)
PAGE_START = Shape(PageStart)
