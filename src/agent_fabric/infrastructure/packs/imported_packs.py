"""Imports packs by the name `module:function` of their builder."""

import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, cast

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.errors import PackBroken
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.tools.specs import FINISH_TASK, ToolSpec
from agent_fabric.infrastructure.packs.wrapped_pack import OPTIONAL, CompletedPack

_PACK_HAS = ("system_prompt", "tool_definitions", "finish", "aopen", "aclose", "execute_tool")


def import_reference(reference: str) -> Any:
    """Return what `module:name` refers to.

    Raises:
        Exception: whatever the module raises when it is imported.
    """
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def build_imported(
    specialist_id: SpecialistId, builder: str, workspace: str, network_allowed: bool, *, sandbox: Sandbox, run_id: RunId
) -> SpecialistPack:
    """Let the function `builder` build a pack for a run.

    It is called with the workspace's path and whether the network is allowed; a third parameter named `sandbox` or
    `run_id`, and a fourth, get what their name says.

    Raises:
        PackBroken: it cannot be imported, is not declared as a builder, fails, or returns something else than a pack.
    """
    try:
        build = _declared_name(import_reference(builder))
        offered = {"sandbox": sandbox, "run_id": run_id}
        return _check_pack(build(workspace, network_allowed, **{name: offered[name] for name in _asked_for(build)}))
    except (Exception, SystemExit) as problem:
        raise PackBroken(
            f"The builder {builder!r} of pack {specialist_id!r} failed: {type(problem).__name__}: {problem}",
            hint="It must be importable and take (workspace_path, network_allowed); sandbox and run_id are optional.",
        ) from problem


def _declared_name(build: Any) -> Callable[..., Any]:
    """Return what is named as a builder if its signature says that it is one; nothing else is ever called.

    Raises:
        TypeError: it is something else, such as a function that runs commands.
    """
    if not callable(build) or not _says_that_it_builds(build):
        raise TypeError(
            "it is not declared as a builder of packs: its second parameter is not `network_allowed`, and it is not "
            "annotated to return a pack; it was not called"
        )
    return cast("Callable[..., Any]", build)


@lru_cache
def _says_that_it_builds(build: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(build)
    except ValueError:  # of built-in functions, some have none
        return False
    names = [name.strip("_") for name in signature.parameters]
    returns = signature.return_annotation
    named = returns if isinstance(returns, str) else getattr(returns, "__name__", "")
    return names[1:2] == ["network_allowed"] or "Pack" in named


@lru_cache
def _asked_for(build: Callable[..., Any]) -> tuple[str, ...]:
    """Return what a builder wants to know beside what every builder is told. Slow, and asked for in every run."""
    return tuple(name for name in list(inspect.signature(build).parameters)[2:] if name in {"sandbox", "run_id"})


def repeated_names(tools: Iterable[ToolSpec]) -> list[str]:
    """Return the names that more than one tool has; `finish_task` is taken as well."""
    names = [FINISH_TASK, *(spec.name for spec in tools)]
    if len(set(names)) == len(names):  # asked for every run
        return []
    return [name for name, times in Counter(names).items() if times > 1]


def _check_pack(pack: Any) -> SpecialistPack:
    missing = [name for name in _PACK_HAS if not hasattr(pack, name)]
    if missing:
        raise TypeError(f"{type(pack).__name__} is not a pack: it has no {', '.join(missing)}")
    twice = repeated_names(pack.tool_definitions)
    if twice:
        raise ValueError(f"more than one tool is named {', '.join(map(repr, twice))}")
    complete = all(hasattr(pack, name) for name in OPTIONAL)
    return cast("SpecialistPack", pack if complete else CompletedPack(pack))
