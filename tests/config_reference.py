"""Writes the reference page of the configuration from the schema.

`python tests/config_reference.py > docs/reference/configuration.md` updates the page.
"""

import json
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, Union, get_args, get_origin

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.loader import variable_name
from agent_fabric.config.schema.declared import DeclaredField, Settings
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.structure import core_type, is_model
from agent_fabric.config.variable_names import RESERVED
from agent_fabric.wire.description import field_docs

_INTRODUCTION: Final = """\
# Configuration

Everything has a default: with no configuration at all, runs use a local Ollama server. `fabric config show` prints
what is in force and `fabric config show --origin` says where each setting came from.

## Where settings come from

The later wins:

1. what is built in;
2. packs of installed packages (entry points `agent_fabric.packs`);
3. your own file, `$XDG_CONFIG_HOME/agent-fabric/config.json` (`~/.config/agent-fabric/config.json` by default);
4. the project's file, `config.json` in the fabric folder (`.fabric`, or what `--workspace` names);
5. instead of both, the file that `FABRIC_CONFIG_PATH` names;
6. what was changed on [the page](../guides/web-page.md), kept as `stored-settings` in the fabric folder: some everyday
   settings, and nothing that the policy, the box or the network decide;
7. variables that start with `FABRIC_` in the project's `.env`, the file beside the folder `.fabric`;
8. environment variables that start with `FABRIC_`;
9. flags on the command line.

A file may be JSON (`.json`), YAML (`.yaml`, `.yml`; without aliases) or TOML (`.toml`), at most 1 MiB of UTF-8. A
folder may hold only one of them. Each file must be valid together with what comes before it in this list.

Groups are merged key by key; lists and single values are replaced. So this file changes one model and leaves the
other one, and everything it does not mention, as built in:

```json
{"models": {"quality": {"base_url": "http://localhost:8000/v1", "model": "my-model", "backend": "generic"}}}
```

An entry under a new key must be complete on its own.

## Environment variables

Write `FABRIC_`, then the path to the setting in capitals with `__` between its parts:
`FABRIC_DEFAULT_MODEL_KEY=fast`, `FABRIC_BUDGET__MAX_STEPS=20`, `FABRIC_MODELS__FAST__BASE_URL=http://gpu:8000/v1`.
A `-` in a key is written as `_`. Text is taken as it is; everything else is JSON, such as
`FABRIC_LOCAL_LLM_START_CMD='["ollama", "serve"]'`. Headers and lists are set as a whole. An empty variable counts as
not set; one that names no setting is an error, so that a typing mistake does not go unnoticed.

A project may keep such variables in its `.env`, beside the folder `.fabric`, at most 1 MiB of UTF-8:

```sh
# comments and blank lines are skipped, `export` is allowed
FABRIC_BUDGET__MAX_STEPS=20
export FABRIC_LOCAL_LLM_START_CMD='["ollama", "serve"]'   # in single quotes, everything is text
FABRIC_MODELS__FAST__MODEL="qwen2.5:7b"                    # in double quotes, \\n, \\t, \\" and \\\\ are escapes
```

One variable for each line; nothing is executed or expanded. Variables with other names belong to other programs and are
not read. Secrets do not belong there, since a run that works on the project can read the file: keep them with
`fabric secrets set`. A `.env` counts like the project's own configuration: before `fabric config trust`, and after its
`FABRIC_` lines have changed, nothing is done in that project. `fabric config show --origin` shows what came from it.

Not settings, and not allowed in `.env`: """

_LIMITS: Final = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def render_reference() -> str:
    """Return the page as Markdown."""
    reserved = [f"`{name}`" for name in sorted(RESERVED)]
    sections = [_INTRODUCTION + ", ".join(reserved) + ",\nand variables that a setting refers to as `env:NAME`.\n"]
    sections += [_section(model, path) for model, path in models_below(FabricConfig)]
    sections.append(_built_in())
    return "\n".join(sections)


def _section(model: type[Settings], path: tuple[str, ...]) -> str:
    title = f"`{'.'.join(path).replace('.<item>', '[]')}`" if path else "Top level"
    lines = [f"## {title}", "", (model.__doc__ or "").strip(), ""]
    if path and "<item>" not in path:
        lines += [f"Variables: `{variable_name(path)}__…`", ""]
    lines += ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
    described: type = model  # mypy takes the hash of settings for that of their class
    docs = field_docs(described)
    lines += [f"| `{name}` | {_type(field)} | {_default(field)} | {docs[name]} |" for name, field in _rows(model)]
    return "\n".join(lines) + "\n"


def _rows(model: type[Settings]) -> Iterator[tuple[str, DeclaredField]]:
    yield from model.model_fields.items()


def _type(field: DeclaredField) -> str:
    optional = NoneType in get_args(field.annotation)
    words = _kind(core_type(field.annotation))
    if limits := _limits(field):
        words += f" ({', '.join(limits)})"
    return f"{words}, or null" if optional else words


def _limits(field: DeclaredField) -> list[str]:
    found = [(words, getattr(item, name, None)) for item in field.metadata for name, words in _LIMITS.items()]
    return [f"{words} {value}" for words, value in found if value is not None]


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return f"list of {_several(core_type(get_args(kind)[0]))}"
    if get_origin(kind) is Mapping:
        return f"{_several(core_type(get_args(kind)[1]))} by name"
    if get_origin(kind) in {Union, types.UnionType}:
        return " or ".join(_kind(core_type(part)) for part in get_args(kind) if part is not NoneType)
    if is_model(kind):
        return "group"
    return {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}[kind]


def _several(kind: Any) -> str:
    if is_model(kind):
        return "groups"
    kinds = _kind(kind)
    # A choice among values, and a list of lists, have no plural of their own.
    return f"{kinds}s" if kinds in {"text", "whole number", "number", "path"} else kinds


def _default(field: DeclaredField) -> str:
    if field.is_required():
        return "see the end" if _is_built_in(field) else "required"
    if field.default_factory is dict:
        return "see its section"
    return f"`{json.dumps(field.default)}`"


def _is_built_in(field: DeclaredField) -> bool:
    return any(FabricConfig.model_fields[name] is field for name in default_settings())


def _built_in() -> str:
    return f"## Built in\n\n```json\n{json.dumps(default_settings(), indent=2)}\n```\n"


def models_below(model: type[Settings], path: tuple[str, ...] = ()) -> Iterator[tuple[type[Settings], tuple[str, ...]]]:
    """Yield a model and every model in it, each with its path."""
    yield model, path
    for name, field in model.model_fields.items():
        kind = core_type(field.annotation)
        if is_model(kind):
            yield from models_below(kind, (*path, name))
        elif get_origin(kind) is Mapping and is_model(inner := core_type(get_args(kind)[1])):
            yield from models_below(inner, (*path, name, "<key>"))
        elif get_origin(kind) is tuple and is_model(inner := core_type(get_args(kind)[0])):
            yield from models_below(inner, (*path, name, "<item>"))


if __name__ == "__main__":
    sys.stdout.write(render_reference())
