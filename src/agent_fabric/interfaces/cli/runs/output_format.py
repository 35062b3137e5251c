"""How commands that drive a run print it: text, one JSON value, or a line of JSON for each event."""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from agent_fabric.domain.errors import FabricError
from agent_fabric.interfaces.cli.invocation import USAGE_ERRORS
from agent_fabric.interfaces.cli.main import FAILED, USAGE
from agent_fabric.interfaces.cli.place import Place, refuse_if


class OutputFormat(StrEnum):
    """How a run is printed."""

    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


Output = Annotated[
    OutputFormat | None,
    typer.Option("--output", help="Text, json as --json, or stream-json: a line for each event, then one result."),
]


def with_output(at: Place, output: OutputFormat | None) -> Place:
    """Return the place with what --output says about how results are printed."""
    contradiction = at.as_json and output not in (None, OutputFormat.JSON)
    refuse_if(contradiction, f"--json and --output {output} contradict each other", hint="Give one of them.")
    as_json = at.as_json or output in (OutputFormat.JSON, OutputFormat.STREAM_JSON)
    return replace(at, as_json=as_json, streams=output is OutputFormat.STREAM_JSON)


def print_errors(at: Place, work: Callable[[], int]) -> int:
    """Do some work; where --output asks for JSON, an error is printed as such."""
    try:
        return work()
    except FabricError as problem:
        if not at.as_json:
            raise
        from agent_fabric.wire.results import error_object  # noqa: PLC0415 - its shapes take their time

        at.print(error_object(problem), "")
        return USAGE if isinstance(problem, USAGE_ERRORS) else FAILED
