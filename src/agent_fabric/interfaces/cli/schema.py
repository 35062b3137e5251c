"""`fabric schema`: the form of definition files, for editors."""

from typing import Annotated

import typer

from agent_fabric.domain.agents.check import agent_schema
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.evals.check import eval_schema
from agent_fabric.domain.workflows.checks.shape import workflow_schema
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.output import print_json

app = new_app("Print the JSON Schema of definition files.")

_SCHEMAS = {"agent": agent_schema, "workflow": workflow_schema, "eval": eval_schema}


@app.command()
def schema(kind: Annotated[str, typer.Argument(metavar="workflow|agent|eval", help="Which kind of file.")]) -> None:
    """Print the JSON Schema of a kind of file, so that editors complete and check it.

    Example: fabric schema agent > agent.schema.json
    """
    make = _SCHEMAS.get(kind)
    if make is None:
        raise ConfigError(f"There is no schema {kind!r}", hint=f"There are: {', '.join(_SCHEMAS)}.")
    print_json(make())
