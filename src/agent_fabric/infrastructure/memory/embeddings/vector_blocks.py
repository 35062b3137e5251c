"""The vectors of documents as one array in this process, so that a question is compared with all of them at once.

Reading every vector from the database for every question costs far more than comparing them. Each document is a block
of rows with a revision; the caller says which revisions it may see now, and only blocks that have changed are read.
"""

import math
import operator
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.infrastructure.models.embeddings.vectors import find_numpy, unpack_vector

_LARGEST = 127


def quantize(vector: Vector) -> bytes:
    """Return a vector as signed bytes, the largest number of which is 127 or -127: a quarter of its size.

    The length is lost, which a cosine does not need.
    """
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


MAX_BYTES: Final = 256_000_000
"""What is kept of all embedders; above it, only what the newest question needs."""
_FIRST_ROWS: Final = 1_024
_ROWS_AT_ONCE: Final = 2_048
"""So many vectors are unpacked at a time: as many as stay in the processor's cache."""


class Near(NamedTuple):
    """A passage, and the cosine of its vector with the question."""

    number: int
    cosine: float


Row = tuple[int, int, bytes]
"""Number of a document, number of a passage, and its vector of signed bytes."""
Load = Callable[[Sequence[int]], Sequence[Row]]
"""Reads the vectors of documents."""


class _Block(NamedTuple):
    revision: int
    start: int
    stop: int


class _Rows(NamedTuple):
    """The arrays of one embedder. They only grow at their end, so that a reader may go on with them."""

    vectors: Any
    lengths: Any
    numbers: Any


class _Matrix:
    """The vectors of one embedder."""

    def __init__(self, numpy: Any, dimensions: int) -> None:
        self._numpy = numpy
        self._dimensions = dimensions
        self._blocks: dict[int, _Block] = {}
        self._end = 0
        self._used = 0
        """Rows that belong to a block; the others are of blocks that were replaced."""
        self._rows = self._empty(_FIRST_ROWS)

    @property
    def bytes(self) -> int:
        return int(self._rows.vectors.shape[0]) * self._dimensions

    def stale(self, revisions: Mapping[int, int]) -> list[int]:
        """Return the documents that have to be read."""
        blocks = self._blocks
        return [
            each
            for each, revision in revisions.items()
            if (known := blocks.get(each)) is None or known.revision != revision
        ]

    def put(self, documents: Sequence[int], revisions: Mapping[int, int], rows: Sequence[Row]) -> None:
        """Replace the blocks of documents. `rows` are in the order of the documents."""
        for document in documents:
            self._drop(document)
        self._make_room(len(rows))
        vectors, lengths, numbers = self._rows
        if rows:
            data = self._numpy.frombuffer(b"".join([vector for _, _, vector in rows]), dtype="i1")
            part = data.reshape(len(rows), self._dimensions)
            stop = self._end + len(rows)
            vectors[self._end : stop] = part
            lengths[self._end : stop] = _lengths(self._numpy, part)
            numbers[self._end : stop] = [number for _, number, _ in rows]
        sizes: dict[int, int] = {}
        for document, _, _ in rows:
            sizes[document] = sizes.get(document, 0) + 1
        for document in sorted(documents):
            count = sizes.get(document, 0)
            self._blocks[document] = _Block(revisions[document], self._end, self._end + count)
            self._end += count
            self._used += count

    def erase(self, document: int) -> None:
        """Overwrite the block of a document, and forget it."""
        known = self._blocks.get(document)
        if known is not None:
            self._rows.vectors[known.start : known.stop] = 0
            self._drop(document)

    def keep_only(self, documents: Mapping[int, int]) -> None:
        """Forget all other documents."""
        for document in [each for each in self._blocks if each not in documents]:
            self._drop(document)
        self._compact(self._used)

    def choose(self, documents: Mapping[int, int]) -> "tuple[_Rows, Any]":
        """Return the arrays, and the places in them that belong to these documents."""
        numpy = self._numpy
        spans = [self._blocks[each] for each in documents]
        starts = numpy.array([span.start for span in spans], dtype="i8")
        counts = numpy.array([span.stop - span.start for span in spans], dtype="i8")
        before = numpy.cumsum(counts) - counts
        return self._rows, numpy.repeat(starts - before, counts) + numpy.arange(int(counts.sum()))

    def _drop(self, document: int) -> None:
        known = self._blocks.pop(document, None)
        if known is not None:
            self._used -= known.stop - known.start

    def _make_room(self, count: int) -> None:
        room = self._rows.vectors.shape[0]
        if self._end + count <= room:
            return
        wanted = self._used + count
        self._compact(max(wanted + wanted // 4, _FIRST_ROWS))

    def _compact(self, size: int) -> None:
        """Move all blocks together into new arrays."""
        new, end = self._empty(max(size, _FIRST_ROWS)), 0
        blocks: dict[int, _Block] = {}
        for document, (revision, start, stop) in self._blocks.items():
            count = stop - start
            for old, moved in zip(self._rows, new, strict=True):
                moved[end : end + count] = old[start:stop]
            blocks[document] = _Block(revision, end, end + count)
            end += count
        self._rows, self._blocks, self._end = new, blocks, end

    def _empty(self, size: int) -> _Rows:
        numpy = self._numpy
        return _Rows(numpy.empty((size, self._dimensions), "i1"), numpy.empty(size, "f4"), numpy.empty(size, "i8"))


class VectorBlocks:
    """Finds the passages nearest to a question. Any thread may ask."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy
        self._lock = threading.Lock()
        self._matrices: dict[tuple[str, int], _Matrix] = {}

    def nearest(
        self, embedder: str, question: Vector, revisions: Mapping[int, int], load: Load, *, limit: int
    ) -> list[Near]:
        """Return the nearest passages of these documents, the best first.

        Args:
            embedder: Whose vectors they are.
            question: The question's vector.
            revisions: The documents that may be found, by number, and what changes whenever their vectors do.
            load: Reads the vectors of documents that have changed.
            limit: At most so many are returned.
        """
        numpy = self._numpy
        asked = numpy.frombuffer(question, dtype="<f4")
        with self._lock:
            rows, places = self._current((embedder, asked.size), revisions, load)
        if not places.size:
            return []
        scores = numpy.empty(places.size, "f4")
        for start in range(0, places.size, _ROWS_AT_ONCE):
            part = places[start : start + _ROWS_AT_ONCE]
            scores[start : start + part.size] = rows.vectors[part].astype("f4") @ asked / rows.lengths[part]
        best = numpy.argpartition(-scores, limit)[:limit] if scores.size > limit else numpy.arange(scores.size)
        best = best[numpy.argsort(-scores[best], kind="stable")]
        return [Near(int(rows.numbers[places[at]]), float(scores[at])) for at in best]

    def forget(self, document: int) -> None:
        """Overwrite the vectors of a document that was erased."""
        with self._lock:
            for matrix in self._matrices.values():
                matrix.erase(document)

    def _current(self, key: tuple[str, int], revisions: Mapping[int, int], load: Load) -> "tuple[_Rows, Any]":
        matrix = self._matrices.get(key)
        if matrix is None:
            matrix = self._matrices[key] = _Matrix(self._numpy, key[1])
        stale = matrix.stale(revisions)
        if stale:
            matrix.put(stale, revisions, load(stale))
            if sum(each.bytes for each in self._matrices.values()) > MAX_BYTES:
                self._matrices = {key: matrix}
                matrix.keep_only(revisions)
        return matrix.choose(revisions)


def _lengths(numpy: Any, part: Any) -> Any:
    wide = part.astype("f4")
    lengths = numpy.sqrt(numpy.einsum("ij,ij->i", wide, wide))
    lengths[lengths == 0] = 1  # a vector of no length is near to nothing
    return lengths
