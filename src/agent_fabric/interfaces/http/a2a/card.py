"""The agent card: who we are, where to call, and what we can do. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_fabric import __version__
from agent_fabric.interfaces.http.a2a.calls import VERSION
from agent_fabric.interfaces.http.a2a.error_shape import PATH
from agent_fabric.interfaces.http.openai.models import AGENT, CHOOSES, PACK, WORKFLOW, Offered

CARD_PATH = "/.well-known/agent-card.json"
_TEXT, _JSON = "text/plain", "application/json"
_KINDS: Mapping[str, str] = {PACK: "pack", AGENT: "agent", WORKFLOW: "workflow"}
_SCHEMES: Mapping[str, Any] = {
    "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "A token, or an API key."}},
    "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key", "description": "An API key."}},
}


def card(base_url: str, offered: Iterable[Offered]) -> dict[str, Any]:
    """Return the card of a server that is called at a URL, with a skill for each who does tasks."""
    return {
        "name": "agent-fabric",
        "description": "Specialists, agents and workflows that do tasks: durably, with tools, and with proof.",
        "version": __version__,
        "supportedInterfaces": [{"url": f"{base_url}{PATH}", "protocolBinding": "JSONRPC", "protocolVersion": VERSION}],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": [_TEXT, _JSON],
        "defaultOutputModes": [_TEXT, _JSON],
        "securitySchemes": {name: dict(scheme) for name, scheme in _SCHEMES.items()},
        "securityRequirements": [{"schemes": {name: {"list": []}}} for name in _SCHEMES],
        "skills": [skill(each) for each in offered],
    }


def skill(offered: Offered) -> dict[str, Any]:
    """Return a pack, an agent or a workflow as a skill."""
    if offered.id == CHOOSES:
        return {"id": CHOOSES, "name": CHOOSES, "description": offered.description, "tags": ["recruitment"]}
    prefix = next(each for each in _KINDS if offered.id.startswith(each))
    name = offered.id.removeprefix(prefix)
    return {
        "id": offered.id,
        "name": name,
        "description": offered.description or f"The {_KINDS[prefix]} {name}.",
        "tags": [_KINDS[prefix]],
    }
