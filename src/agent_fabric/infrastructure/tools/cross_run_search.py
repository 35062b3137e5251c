"""The tool that searches earlier runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import RunCatalogue, RunRecord
from agent_fabric.application.ports.sources import Snapshots
from agent_fabric.application.ports.web import Page
from agent_fabric.domain.evidence.research_tables import moment
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.policy.labels import OTHER_RUNS
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.files import text_argument

USUAL_RUNS, MAX_RUNS = 5, 20
_PROMPT_CHARS, _SUMMARY_CHARS = 400, 2_000

CROSS_RUN_SEARCH = ToolSpec(
    name="cross_run_search",
    description="Search the tasks and results of earlier runs. Cite one with the url that it has here.",
    parameters=object_schema(
        {
            "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "A few words"},
            "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_RUNS, "default": USUAL_RUNS},
        },
        ["query"],
    ),
    effect=Effect.IDEMPOTENT,
)


@dataclass(frozen=True, slots=True)
class CrossRunSearch:
    """Tool: find earlier runs by words. What a run says can be cited like a page, as `run:<id>`."""

    catalogue: RunCatalogue
    snapshots: Snapshots
    clock: Clock

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Search for `query` in what the owner of the run that asks may see, leaving out that run."""
        query = text_argument(args, "query")
        limit = min(int(args.get("max_results", USUAL_RUNS)), MAX_RUNS)
        viewer = Viewer.of_run((await self.catalogue.locate(context.run_id)).owner)
        found = await self.catalogue.search(query, limit=limit + 1, viewer=viewer)
        records = [record for record in found if record.run_id != context.run_id][:limit]
        at = self.clock.now()
        sources = [await self.snapshots.keep(_page(record), fetched_at=at) for record in records]
        return ToolResult(
            output={"query": query, "runs": [_render(each) for each in records]},
            sources=tuple(sources),
            exposes=OTHER_RUNS if records else "",
            private=OTHER_RUNS if records else "",
        )


def _render(record: RunRecord) -> dict[str, Any]:
    return {
        "run_id": record.run_id,
        "url": _address(record),
        "created_at": moment(record.created_at),
        "status": record.status.value,
        "specialist_ids": list(record.specialist_ids),
        "prompt": record.prompt[:_PROMPT_CHARS],
        "summary": record.summary[:_SUMMARY_CHARS],
    }


def _page(record: RunRecord) -> Page:
    text = f"{record.prompt}\n\n{record.summary}\n"
    return Page(
        url=_address(record),
        final_url=_address(record),
        status=200,
        content_type="text/plain",
        body=text.encode("utf-8", "replace"),
        title=" ".join(record.prompt.split())[:200],
        text=text,
        cut=False,
    )


def _address(record: RunRecord) -> str:
    return f"run:{record.run_id}"
