"""Resolves the secrets that a call names, right before it runs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_fabric.application.ports.secrets import SecretSource
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.secret_words import variable_names, with_variables
from agent_fabric.domain.secrets.references import SHORTEST_NAMED, fill, secrets_in
from agent_fabric.domain.tools.specs import ToolContext, ToolSpec


class SecretMissing(LookupError):
    """A call names a secret that cannot be used; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Revealed:
    """A call as its tool gets it. It is never recorded."""

    args: Mapping[str, Any]
    context: ToolContext


async def values_of(names: frozenset[str], source: SecretSource) -> dict[str, str]:
    """Return the values of secrets.

    Raises:
        SecretMissing: there is none of a name, or it is too short to be kept out of the log.
    """
    values: dict[str, str] = {}
    for name in sorted(names):
        value = await source.get(name)
        if not value:
            raise SecretMissing(f"there is no secret {name!r}. {source.how_to_set(name)}")
        if len(value.strip()) < SHORTEST_NAMED:
            raise SecretMissing(
                f"the secret {name!r} is too short to be kept out of the log: use one of at least {SHORTEST_NAMED} "
                "characters"
            )
        values[name] = value
    return values


def reveal(args: Mapping[str, Any], spec: ToolSpec, context: ToolContext, values: Mapping[str, str]) -> Revealed:
    """Return a call with the values of its secrets; into a command line they go as variables.

    Raises:
        ValueError: a secret stands in a place of the command where it cannot be told from the command.
    """
    command = args.get(spec.command_argument) if spec.command_argument else None
    if not isinstance(command, str) or not (named := secrets_in(command) & values.keys()):
        return Revealed(fill(args, values), context)
    variables = variable_names(frozenset(named))
    rest = {name: value for name, value in args.items() if name != spec.command_argument}
    return Revealed(
        {**fill(rest, values), spec.command_argument: with_variables(command, variables)},
        replace(context, environment={variables[name]: values[name] for name in named}),
    )
