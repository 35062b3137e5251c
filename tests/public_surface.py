"""What other people's scripts, programs and files depend on, by name.

`python tests/public_surface.py > tests/data/public-surface.json` writes down what there is now; a test fails when any
of it is gone. Something new is allowed. Write the file anew with a release, and when something goes on purpose: the
change then names it.
"""

import dataclasses
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import agent_fabric.extend
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.events import Body
from agent_fabric.infrastructure.persistence.schema import read_steps
from config_reference import models_below
from reference_pages import cli_commands, error_classes, served_routes

FROZEN = Path(__file__).parent / "data" / "public-surface.json"


def public_surface() -> dict[str, list[str]]:
    """Return every public name, by kind."""
    return {
        "commands": sorted({line for command in cli_commands() for line in (command.words, *_options(command))}),
        "routes": sorted({f"{method} {each.path}" for each in served_routes() for method in each.methods.split(", ")}),
        "error codes": sorted(each.code for each in error_classes()),
        "configuration keys": sorted(_config_keys()),
        "event fields": sorted(_event_fields()),
        "tables": sorted(_columns()),
        "extension names": sorted(agent_fabric.extend.__all__),
    }


def _options(command: Any) -> Iterator[str]:
    yield from (f"{command.words} {parameter}" for parameter in command.parameters)


def _config_keys() -> Iterator[str]:
    for model, path in models_below(FabricConfig):
        yield from (".".join((*path, name)) for name in model.model_fields)


def _event_fields() -> Iterator[str]:
    for body in get_args(Body):
        fields = [field.name for field in dataclasses.fields(body)]
        yield from (f"{body.kind}.{name}" for name in fields or [""])


def _columns() -> Iterator[str]:
    apsw = importlib.import_module("apsw")
    connection = apsw.Connection(":memory:")
    for statements in read_steps():
        connection.execute(statements)
    for (table,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")):
        yield from (f"{table}.{row[1]}" for row in connection.execute(f"PRAGMA table_info({table})"))


def frozen_surface() -> dict[str, list[str]]:
    """Return what must not go."""
    found: dict[str, list[str]] = json.loads(FROZEN.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    json.dump(public_surface(), sys.stdout, indent=1)
    sys.stdout.write("\n")
