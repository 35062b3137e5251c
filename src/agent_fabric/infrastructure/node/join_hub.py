"""Enrols this machine at a hub: makes a key, shows the token once, and pins the hub's key."""

import hashlib
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from agent_fabric.application.ports.node import JoinRefused
from agent_fabric.domain.fleet.protocol import JOIN_PATH, join_message
from agent_fabric.infrastructure.fleet.signing import fingerprint, is_signed
from agent_fabric.infrastructure.node.floor_file import DEFAULT_TEXT, FILE
from agent_fabric.infrastructure.node.machine_facts import os_info
from agent_fabric.infrastructure.node.node_folder import Enrolment, NodeFolder
from agent_fabric.infrastructure.node.websocket import LOOPBACK

TIMEOUT_S: Final = 30.0
PENDING_S: Final = 3600.0
ASK_AGAIN_S: Final = 2.0
_MAX_ANSWER_BYTES: Final = 100_000


def join(
    folder: NodeFolder, url: str, *, token: str, hub_key: str, name: str, tell: Callable[[str], None]
) -> Enrolment:
    """Enrol this machine.

    Raises:
        JoinRefused: the hub refuses it, is another one than its key says, or cannot be reached.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise JoinRefused(f"{url!r} is no address of a hub; write https://HOST[:PORT]")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise JoinRefused(f"{parts.hostname} is another machine, so the connection must be encrypted: use https://")
    if folder.is_enrolled:
        known = folder.enrolment()
        raise JoinRefused(f"{folder.path} is the node {known.name} of {known.url} already; leave it first")
    folder.make()
    key = folder.key()
    base, until = url.rstrip("/"), time.monotonic() + PENDING_S
    body = {"token": token, "public_key": key.public, "name": name, "os_info": os_info()}
    told = _post(f"{base}{JOIN_PATH}", body)
    if told.get("status") == "pending":
        tell(f"Waits for a person at the hub, who compares this code: {told.get('code', '')}")
        while told.get("status") == "pending":
            if time.monotonic() > until:
                raise JoinRefused("nobody at the hub has confirmed it in time")
            time.sleep(ASK_AGAIN_S)
            told = _post(f"{base}{JOIN_PATH}", body)
    hub = str(told.get("hub_key", ""))
    if hub_key and fingerprint_of(hub) != hub_key:
        raise JoinRefused(f"the hub's key is {fingerprint_of(hub)}, and not {hub_key}: this is another hub")
    signed = join_message(hashlib.sha256(token.encode()).hexdigest(), key.public)
    if not is_signed(hub, signed, str(told.get("hub_signature", ""))):
        raise JoinRefused("the hub does not hold the key that it shows")
    enrolment = Enrolment(
        agent_id=str(told["agent_id"]), name=str(told["name"]), url=base, hub_key=hub, state=str(told.get("state", ""))
    )
    if not (folder.path / FILE).exists():
        (folder.path / FILE).touch(0o600)
        (folder.path / FILE).write_text(DEFAULT_TEXT)
    folder.write_enrolment(enrolment)
    return enrolment


def fingerprint_of(public: str) -> str:
    """Return the fingerprint of what may be a key."""
    try:
        return fingerprint(public)
    except ValueError:
        return "no key"


def _post(url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        url, json.dumps(body).encode(), {"content-type": "application/json", "accept": "application/json"}
    )
    try:
        with open_url(request, TIMEOUT_S) as answer:
            found = json.loads(answer.read(_MAX_ANSWER_BYTES))
    except urllib.error.HTTPError as problem:
        raise JoinRefused(f"the hub refuses it: {_detail(problem)}") from None
    except (OSError, ValueError) as problem:
        raise JoinRefused(f"the hub cannot be reached: {problem}") from None
    if not isinstance(found, dict):
        raise JoinRefused("the hub's answer cannot be read")
    return found


def open_url(request: urllib.request.Request | str, timeout_s: float) -> Any:
    """Open an address. No proxy stands between a machine and itself."""
    handlers: list[Any] = [urllib.request.HTTPSHandler(context=ssl.create_default_context())]
    if urlsplit(request if isinstance(request, str) else request.full_url).hostname in LOOPBACK:
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers).open(request, timeout=timeout_s)


def _detail(problem: urllib.error.HTTPError) -> str:
    try:
        told = json.loads(problem.read(_MAX_ANSWER_BYTES))
        return f"{told['detail']} ({problem.code})"
    except (ValueError, KeyError, TypeError, OSError):
        return f"{problem.code} {problem.reason}"
