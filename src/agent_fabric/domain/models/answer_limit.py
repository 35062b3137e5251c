"""How long an answer of a model may be, and what is left of one that is longer."""

from dataclasses import replace
from typing import Final

from agent_fabric.domain.models.messages import LLMResponse

SHOWN_OF_CUT: Final = 2_000
"""Characters of a cut answer that the model sees again: a text that did not end would fill its window."""


def cut_answer(answer: LLMResponse, most: int) -> LLMResponse:
    """Return an answer of at most `most` characters, the very same one if it has no more.

    Nothing that a cut answer asks for is done: its calls are not whole, and what follows them is not known.
    """
    if not answer.cut and len(answer.content) + sum(len(call.arguments) for call in answer.tool_calls) <= most:
        return answer
    return replace(
        answer,
        content=answer.content[:most],
        tool_calls=(),
        finish_reason="length",
        recovered=False,
        cut=most,
        problem=f"Your answer was cut after {most:,} characters, and nothing that it asked for was done. An answer may "
        f"have at most {most:,} characters, thoughts and the arguments of calls included. Answer again, shorter; write "
        "long files in parts.",
    )


def shown_of_cut(content: str, cut: int) -> str:
    """Return a cut answer as the conversation keeps it."""
    if len(content) <= SHOWN_OF_CUT:
        return content
    return f"{content[:SHOWN_OF_CUT]}\n[… the rest of this answer, cut after {cut:,} characters, is left out]"
