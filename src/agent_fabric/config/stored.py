"""Settings that were changed on the page: a layer between the files and the environment."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from agent_fabric.config.files import read_text
from agent_fabric.config.formats.json_text import parse_json
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.config.plain import plain_mapping
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.structure import core_type, type_at

STORED: Final = "stored"
"""The origin of such a setting."""
NAME: Final = "stored-settings"
"""Without a suffix: it is no configuration file of the project, which a person would have to trust anew."""
EDITABLE: Final[Mapping[str, str]] = {
    "default_model_key": "The model that works when none is named.",
    "routing_model_key": "The model that decides which specialist does a task.",
    "auto_pull_if_missing": "Whether a model that is missing is downloaded by itself.",
    "chat.max_turns": "Model answers of one turn of a chat, tool calls included.",
    "chat.pack": "The specialist of chats that name none.",
    "chat.title_model_key": "The model that names chats; none: their first words do.",
    "budget.max_steps": "Model answers in one task.",
    "budget.max_tokens": "Tokens that one run may read and write.",
    "budget.max_seconds": "Seconds that one run may spend in model and tool calls; waiting is free.",
    "budget.max_cost": "What the answers of models in one run may cost, as their prices say.",
    "require_proof": "Whether a task fails where nothing bears its result out.",
    "identity.visibility": "Who sees a run that does not say so itself.",
    "retention.older_than_days": "Runs that settled longer ago are removed once a day.",
    "log.level": "The least important lines of the server's log.",
}
"""What may be changed there, in words. What the policy, the box and the network allow is decided in files, and not by
anyone at an open browser."""


class EditableSetting(NamedTuple):
    """A setting that may be changed on the page."""

    path: str
    about: str
    kind: Literal["text", "number", "boolean", "choice"]
    choices: tuple[str, ...]
    optional: bool
    """Whether there may be no value: no limit, or none of the choices."""


def stored_file(fabric_folder: Path) -> Path:
    """Return where the settings of a fabric folder lie that were changed on the page."""
    return fabric_folder / NAME


def read_stored(fabric_folder: Path) -> Mapping[str, Any]:
    """Return the settings that were changed on the page.

    Raises:
        ConfigProblem: the file is damaged.
    """
    path = stored_file(fabric_folder)
    if not path.is_file():
        return {}
    try:
        found = parse_json(read_text(path))
        if not isinstance(found, dict):
            raise SyntaxProblem("this is not an object")
    except SyntaxProblem as problem:
        hint = "Delete it: what the page had changed is then undone."
        raise ConfigProblem(f"{path}: {problem.message}", hint=hint) from None
    if foreign := [name for name in _leaves(found) if name not in EDITABLE]:
        raise ConfigProblem(
            f"{path}: {foreign[0]} cannot be changed on the page", hint="Take it out; the file is written by the page."
        )
    return plain_mapping(found, source=f"file {path}")


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def editable_settings(config: FabricConfig) -> list[EditableSetting]:
    """Return what may be changed."""
    choices = {
        "default_model_key": tuple(sorted(config.models)),
        "routing_model_key": tuple(sorted(config.models)),
        "chat.pack": ("", *sorted(config.specialists)),
        "chat.title_model_key": ("", *sorted(config.models)),
    }
    return [_describe(path, choices.get(path, ())) for path in EDITABLE]


def _describe(path: str, choices: tuple[str, ...]) -> EditableSetting:
    *parents, name = path.split(".")
    annotation = type_at(parents).model_fields[name].annotation
    value = core_type(annotation)
    if get_origin(value) is Literal:
        choices = choices or tuple(map(str, get_args(value)))
    kind: Literal["text", "number", "boolean", "choice"] = (
        "choice" if choices else "boolean" if value is bool else "number" if value in {int, float} else "text"
    )
    return EditableSetting(path, EDITABLE[path], kind, choices, optional=type(None) in get_args(annotation))
