"""The page in the browser: its files, and how one logs in to it."""

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import Request
from pydantic import Field, SecretStr, StringConstraints
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from agent_fabric import __version__
from agent_fabric.application.identity.page_logins import CODE_LIFETIME_S, PageLogin
from agent_fabric.bootstrap.identity import Identity
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import Unauthenticated
from agent_fabric.domain.identity.accounts import MAX_PASSWORD_CHARS
from agent_fabric.domain.identity.principals import Kind, Principal, Scope
from agent_fabric.interfaces.http.addresses import Addresses
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import LenientBody
from agent_fabric.interfaces.http.errors import refusal
from agent_fabric.interfaces.http.gate import MISSING, PAGE_HEADER, PAGE_LOGIN, PAGE_SOCKET, page_cookies
from agent_fabric.interfaces.http.page.assets import HEADERS, Asset, Assets, load_assets
from agent_fabric.interfaces.http.page.socket import PageDoor
from agent_fabric.interfaces.http.page.sockets import Sockets
from agent_fabric.interfaces.http.routing import HIDDEN, Answerer, Open, Routes
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.wire.shape import Shape


class PageLoginRequest(LenientBody, example={"code": "Zl5o0m1vC2n3b4V5c6X7zQ"}):
    """A code of `fabric web`, or a name and a password."""

    code: Annotated[str, StringConstraints(max_length=128)] = ""
    username: Annotated[str, StringConstraints(max_length=255)] = ""
    password: Annotated[SecretStr, Field(max_length=MAX_PASSWORD_CHARS)] = SecretStr("")


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


SECURE_COOKIE = "__Host-fabric"
"""Under TLS; otherwise the name has the port in it, because cookies ignore ports."""
FOR_EVER = "public, max-age=31536000, immutable"
_NOT_KEPT = {"cache-control": "no-store"}


_log = logging.getLogger(__name__)


def add_page(
    routes: Routes, fabric: ServerFabric, live: LiveRuns, *, sockets: Sockets, addresses: Addresses, port: int
) -> None:
    """Add the page and its routes; `port` tells its cookie from those of other servers on this machine."""
    assets = load_assets()
    cookie_name = f"fabric_{port}"
    _add_files(routes, assets, cookie_name)
    _add_login(routes, fabric.identity, addresses, cookie_name)
    runs, execute = fabric.runs, fabric.runs.execute_task
    door = PageDoor(runs, fabric.chat.chat, live, sockets, assets.digest)
    live.on_news = sockets.wake

    async def socket(websocket: WebSocket) -> None:
        await door(websocket)

    routes.add(WebSocketRoute(PAGE_SOCKET, socket))

    @routes.get("/api/v1/web/start", Scope.RUNS_READ, "Get what the page shows first", PAGE_START, fails=[401])
    async def start(by: Principal) -> PageStart:
        """One answer instead of several, so that the page is there at once."""
        config = fabric.config
        return PageStart(
            name=by.name,
            kind=by.kind.value,
            scopes=sorted(str(scope) for scope in by.scopes),
            expires_at=by.expires_at,
            version=__version__,
            build=assets.digest,
            sandbox=execute.sandbox_level,
            policy_profile=execute.policy_profile,
            default_model_key=config.default_model_key,
            model_keys=sorted(config.models),
            packs=sorted(config.specialists),
            features={"managed_model": config.managed_llama is not None},
        )


def _add_files(routes: Routes, assets: Assets, cookie_name: str) -> None:
    async def page(request: Request) -> Response:
        """A browser with a cookie is probably logged in, and can write at once; it is not checked here."""
        known = cookie_name in request.cookies or SECURE_COOKIE in request.cookies
        answer = _send_asset(request, assets.shell if known else assets.index, cached="no-cache")
        answer.headers["vary"] = "Accept-Encoding, Cookie"
        return answer

    async def file(request: Request) -> Response:
        found = assets.files.get(request.path_params["path"])
        if found is None or request.path_params["digest"] != assets.digest:
            refused = refusal(404, "There is no such file", hint="The page has changed: load it again.")
            refused.headers.update(HEADERS)
            return refused
        return _send_asset(request, found, cached=FOR_EVER)

    doors = {"/": page, "/s/{session_id}": page, "/r/{run_id}": page, "/app/{digest}/{path:path}": file}
    for path, endpoint in doors.items():
        routes.get(path, Open.PUBLIC, HIDDEN, head=True)(endpoint)


def _send_asset(request: Request, asset: Asset, *, cached: str) -> Response:
    headers = {**HEADERS, "cache-control": cached, "vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(asset.compressed, headers=headers, media_type=asset.media_type)
    return Response(asset.content, headers=headers, media_type=asset.media_type)


def _add_login(routes: Routes, identity: Identity, addresses: Addresses, cookie_name: str) -> None:
    async def find_principal(wish: PageLoginRequest) -> Principal:
        if wish.code:
            return identity.login_codes.redeem(wish.code)
        access = (await identity.login(wish.username, wish.password.get_secret_value())).access
        return Principal(access.name, Kind.USER, access.scopes)

    @routes.post(PAGE_LOGIN, Open.PUBLIC, "Log in to the page", PAGE_OPENED, fails=[401, 429, 503])
    async def log_in(wish: PageLoginRequest, request: Request) -> Response:
        """Answer with a page token, and with a cookie. Each login has a new id; either half alone opens nothing."""
        principal = await find_principal(wish)
        if principal.kind is Kind.LOCAL and addresses.source(request.scope):
            raise Unauthenticated("Invalid authentication credentials", hint="Open the page on the server's machine.")
        login = identity.page_logins.begin(principal)
        _log.info("%s has opened the page", principal.name)
        scopes = sorted(str(scope) for scope in principal.scopes)
        answer = json_answer(
            PAGE_OPENED.dump(PageOpened(login.page_token, principal.name, scopes, login.expires_at)), headers=_NOT_KEPT
        )
        _set_cookie(answer, request, cookie_name, login, lasts_s=int(identity.page_logins.lifetime_s))
        return answer

    @routes.post("/api/v1/web/logout", Scope.RUNS_READ, "Log out of the page", status=204, fails=[401, 503])
    async def log_out(request: Request) -> Response:
        """End this login; its sockets close within seconds."""
        token = request.headers.get(PAGE_HEADER)
        if token is None:
            raise Unauthenticated(MISSING, hint=f"Send the cookie and `{PAGE_HEADER}`.")
        cookies = page_cookies(value for name, value in request.scope["headers"] if name == b"cookie")
        from_here = not addresses.source(request.scope)
        principal = await identity.page_logins.end(cookies, token, from_here=from_here)
        _log.info("%s has left the page", principal.name)
        answer = Response(status_code=204)
        _set_cookie(answer, request, cookie_name, None, lasts_s=0)
        return answer

    @routes.post(
        "/api/v1/web/codes", Scope.RUNS_READ, "Get a code that opens the page", LOGIN_CODE, status=201, fails=[401]
    )
    async def issue_code(by: Answerer) -> Response:
        """The code counts once, for a minute, and opens the page as the caller. Runs and keys get none."""
        code = identity.login_codes.issue(by)
        return json_answer(LOGIN_CODE.dump(LoginCode(code, int(CODE_LIFETIME_S))), 201, _NOT_KEPT)


def _set_cookie(answer: Response, request: Request, name: str, login: PageLogin | None, *, lasts_s: int) -> None:
    """Set or remove the cookie. Whether the browser came over TLS, it says itself: a proxy may stand between."""
    secure = request.headers.get("origin", "").startswith("https://") or request.url.scheme == "https"
    answer.set_cookie(
        SECURE_COOKIE if secure else name,
        "" if login is None else login.cookie,
        max_age=lasts_s,
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
