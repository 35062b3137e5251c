"""A small part of the evaluation of memory with its vectors, so that tests ask it without an encoder.

python benchmarks/memory_frozen.py     # writes memory_frozen.json again: after a change of encoder or questions

Only questions of the second half are in it, with which nothing was chosen. All in other words or another language are
there: nearly all that was ever lost to vectors was lost in those. The texts are those that answer any of the questions,
and of the sessions those next to them, which are like them.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder
from agent_fabric.infrastructure.memory.embeddings.vector_blocks import quantize
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector
from bench_memory import Pool, half_of, make_pools
from memory_sessions import Asked

FROZEN: Final = Path(__file__).with_name("memory_frozen.json")
EACH: Final = 4
"""Questions of a slice."""
WHOLE: Final = ("other words", "other language")
"""Slices that are taken whole."""


def thaw(text: str) -> tuple[str, dict[str, Pool]]:
    """Return the name of the encoder, and the pools."""
    frozen = json.loads(text)
    return frozen["embedder"], {name: _pool(pool) for name, pool in frozen["pools"].items()}


def freeze(embedder: str, pools: Mapping[str, Pool]) -> str:
    """Return a part of the pools as text."""
    parts = {name: _part(pool) for name, pool in pools.items()}
    return json.dumps({"embedder": embedder, "pools": parts}, ensure_ascii=False, indent=0) + "\n"


def _part(pool: Pool) -> dict[str, Any]:
    taken: dict[str, list[Asked]] = {}
    for each in half_of(pool.asked, 1):
        slice_ = taken.setdefault(each.ability, [])
        if each.ability in WHOLE or len(slice_) < EACH:
            slice_.append(each)
    asked = [each for some in taken.values() for each in some]
    answers = {answer for each in asked for answer in each.answers}
    if any(each.ability == "several sessions" for each in asked):
        answers |= {answer + 1 for answer in answers if answer + 1 < len(pool.texts)}
    kept = sorted(answers)
    place = {at: number for number, at in enumerate(kept)}
    vectors = dict(zip((each.question for each in pool.asked), pool.questions, strict=True))
    return {
        "texts": [[pool.texts[at], _short(pool.vectors[at])] for at in kept],
        "asked": [
            [each.ability, each.question, [place[answer] for answer in each.answers], _short(vectors[each.question])]
            for each in asked
        ],
    }


def _pool(part: Mapping[str, Sequence[Sequence[Any]]]) -> Pool:
    return Pool(
        [text for text, _ in part["texts"]],
        [Asked(ability, question, tuple(answers)) for ability, question, answers, _ in part["asked"]],
        [_long(vector) for _, vector in part["texts"]],
        [_long(vector) for *_, vector in part["asked"]],
    )


def _short(vector: Vector) -> str:
    return b64encode(quantize(vector)).decode()


def _long(vector: str) -> Vector:
    return pack_vector(memoryview(b64decode(vector)).cast("b"))


async def main() -> None:
    encoder = SentenceEncoder()
    FROZEN.write_text(freeze(encoder.name, await make_pools(encoder, None)), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
