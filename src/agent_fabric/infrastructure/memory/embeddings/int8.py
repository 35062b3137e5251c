"""Vectors in a quarter of their size: a byte for each number. The length is lost, which a cosine does not need."""

import math
import operator
from array import array
from collections.abc import Sequence

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.infrastructure.models.embeddings.vectors import find_numpy, unpack_vector

_LARGEST = 127


def quantize(vector: Vector) -> bytes:
    """Return a vector as signed bytes, the largest number of which is 127 or -127."""
    numbers = unpack_vector(vector)
    largest = max(map(abs, numbers), default=0.0)
    if not largest:
        return bytes(len(numbers))
    return array("b", [round(each / largest * _LARGEST) for each in numbers]).tobytes()


def int8_similarities(vectors: Sequence[bytes], question: Vector) -> list[float]:
    """Return the cosine of each quantized vector with the question; all have as many numbers as it has."""
    if not vectors:
        return []
    numpy = find_numpy()
    if numpy is not None:
        matrix = numpy.frombuffer(b"".join(vectors), dtype="i1").reshape(len(vectors), -1).astype("f4")
        lengths = numpy.sqrt(numpy.einsum("ij,ij->i", matrix, matrix))
        lengths[lengths == 0] = 1  # a vector of no length is near to nothing
        found: list[float] = (matrix @ numpy.frombuffer(question, dtype="<f4") / lengths).tolist()
        return found
    asked = unpack_vector(question)
    return [_similarity(array("b", each), asked) for each in vectors]


def _similarity(numbers: "array[int]", asked: "array[float]") -> float:
    length = math.sqrt(sum(map(operator.mul, numbers, numbers))) or 1.0
    product: float = sum(map(operator.mul, numbers, asked))
    return product / length
