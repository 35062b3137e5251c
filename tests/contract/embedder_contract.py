"""What every Embedder promises, whatever makes its vectors."""

import math
from array import array

from agent_fabric.application.ports.embeddings import Embedder, Vector


def numbers(vector: Vector) -> list[float]:
    return list(array("f", vector))


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(numbers(one), numbers(other), strict=True))


class EmbedderContract:
    """Subclasses give the fixture `embedder`."""

    async def test_each_text_gets_a_vector_of_length_one_and_the_promised_size(self, embedder: Embedder) -> None:
        vectors = await embedder.embed(["the cat sleeps", "stock prices fell", "the cat sleeps"])
        assert len(vectors) == 3
        assert {len(numbers(each)) for each in vectors} == {embedder.dimensions}
        assert all(math.isclose(sum(x * x for x in numbers(each)), 1, abs_tol=1e-4) for each in vectors)

    async def test_the_same_text_has_the_same_place_whatever_stands_beside_it(self, embedder: Embedder) -> None:
        (alone,) = await embedder.embed(["the cat sleeps"])
        among = await embedder.embed(["stock prices fell", "the cat sleeps"])
        assert cosine(alone, among[1]) > 0.999
        assert cosine(alone, among[0]) < 0.9

    async def test_no_texts_have_no_vectors(self, embedder: Embedder) -> None:
        assert list(await embedder.embed([])) == []

    async def test_any_text_is_taken(self, embedder: Embedder) -> None:
        odd = ["", "   ", "x" * 300_000, "half \ud800 a character", "\x00\x1b[2J", "日本語 🎉", "\n" * 1000]
        vectors = await embedder.embed(odd)
        assert {len(numbers(each)) for each in vectors} == {embedder.dimensions}
        assert all(math.isfinite(x) for each in vectors for x in numbers(each))

    async def test_its_name_is_there_and_stays(self, embedder: Embedder) -> None:
        before = embedder.name
        await embedder.embed(["anything"])
        assert before == embedder.name
        assert before.strip()
