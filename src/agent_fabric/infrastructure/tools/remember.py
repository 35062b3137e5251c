"""The tool that proposes a fact to remember."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.memory import Proposal, RunMemory
from agent_fabric.domain.errors import FactRefused
from agent_fabric.domain.memory.facts import MAX_QUOTE_CHARS, MAX_TEXT_CHARS, FactKind, FactStatus
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.files import text_argument

REMEMBER = ToolSpec(
    name="remember",
    description="Propose one sentence to be remembered for later runs. It must rest on a quote, copied word for word "
    "from what the user wrote in this run or from a file or page that you read. A person reviews it.",
    parameters=object_schema(
        {
            "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_CHARS, "description": "The sentence"},
            "quote": {"type": "string", "minLength": 8, "maxLength": MAX_QUOTE_CHARS, "description": "Word for word"},
            "kind": {"type": "string", "enum": [kind.value for kind in FactKind], "default": FactKind.FACT.value},
        },
        ["text", "quote"],
    ),
    effect=Effect.IDEMPOTENT,
)
_ANSWERS = {FactStatus.ACTIVE: "It is remembered.", FactStatus.PROPOSED: "A person will review it; do not rely on it."}


@dataclass(frozen=True, slots=True)
class Remember:
    """Tool: propose a fact. A fact that is known already is refused, so that proposing it twice does nothing."""

    memory: Callable[[], RunMemory]

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Propose `text`, which rests on `quote`.

        Raises:
            ValueError: an argument is wrong.
        """
        proposal = Proposal(
            run_id=context.run_id,
            quote=text_argument(args, "quote"),
            text=text_argument(args, "text"),
            kind=FactKind(args.get("kind", FactKind.FACT)),
        )
        try:
            fact = await self.memory().propose(proposal)
        except FactRefused as refused:
            return ToolResult(success=False, error=f"{refused.message}. {refused.hint}".strip())
        return ToolResult(output={"id": fact.id, "status": fact.status.value, "note": _ANSWERS[fact.status]})
