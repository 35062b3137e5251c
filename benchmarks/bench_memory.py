"""How well memory finds what was said: words, vectors, fused ranks and our weighted sum, on the same questions.

python benchmarks/bench_memory.py            # the table and the costs
python benchmarks/bench_memory.py --longmemeval FILE    # with your own copy of LongMemEval-S

Half of the questions choose weight and threshold, the other half is reported. Needs the extra `embeddings`.
"""

import argparse
import asyncio
import functools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.memory import DocumentQuery
from agent_fabric.bootstrap.records import open_records
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory import ranking
from agent_fabric.domain.memory.documents import Document, content_hash
from agent_fabric.domain.memory.passages import Passage
from agent_fabric.domain.memory.ranking import MIN_SCORE, MIN_WORDS, WORDS_WEIGHT, Candidate, rank
from agent_fabric.domain.memory.terms import terms_in
from agent_fabric.domain.ownership import Viewer
from agent_fabric.infrastructure.embeddings.int8 import int8_similarities, quantized
from agent_fabric.infrastructure.embeddings.sentence_encoder import SentenceEncoder
from embeddings.pairs import all_pairs
from memory_sessions import Asked, make_sessions

vars(ranking)["terms_in"] = functools.cache(terms_in)  # the same texts are ranked for every question
DOCS: Final = Path(__file__).parents[1] / "docs"
FUSED: Final = 60
WEIGHTS: Final = (0.0, 0.1, 0.25, 0.5, 1.0)
THRESHOLDS: Final = (0.0, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4)
DEEP: Final = 10


class Pool(NamedTuple):
    """Texts, what is asked about them, and how near each text is to each question."""

    texts: Sequence[str]
    asked: Sequence[Asked]
    near: Sequence[Sequence[float]]
    shares: Sequence[Sequence[float]]
    """How much of each question stands in each text."""


Method = Callable[[Pool, int], Sequence[int]]
"""Returns the texts that fit a question, the best first."""


def shares_of(texts: Sequence[str], question: str) -> list[float]:
    """Return how much of a question stands in each text, as the product counts it."""
    shares = [0.0] * len(texts)
    candidates = [Candidate(DocumentId(f"{at:06}"), 0, text) for at, text in enumerate(texts)]
    for each in rank(question, candidates, min_words=0.0):
        shares[int(each.candidate.document_id)] = each.words
    return shares


def words(pool: Pool, number: int) -> Sequence[int]:
    shares = pool.shares[number]
    return [at for at in sorted(range(len(shares)), key=lambda at: -shares[at]) if shares[at] >= MIN_WORDS]


def vectors(threshold: float) -> Method:
    def find(pool: Pool, number: int) -> Sequence[int]:
        near = pool.near[number]
        return [at for at in sorted(range(len(near)), key=lambda at: -near[at]) if near[at] >= threshold]

    return find


def fused(threshold: float) -> Method:
    def find(pool: Pool, number: int) -> Sequence[int]:
        score: dict[int, float] = {}
        for found in (words(pool, number), vectors(threshold)(pool, number)):
            for place, at in enumerate(found[:100]):
                score[at] = score.get(at, 0.0) + 1 / (FUSED + place)
        return sorted(score, key=lambda at: -score[at])

    return find


def ours(weight: float, threshold: float) -> Method:
    def find(pool: Pool, number: int) -> Sequence[int]:
        pairs = zip(pool.near[number], pool.shares[number], strict=True)
        scores = [(max(near, 0.0) + weight * share) / (1 + weight) for near, share in pairs]
        return [at for at in sorted(range(len(scores)), key=lambda at: -scores[at]) if scores[at] >= threshold]

    return find


class Figures(NamedTuple):
    """What a method finds."""

    recall5: float
    recall10: float
    mrr: float
    abstained: float | None
    asked: int


def measured(pool: Pool, numbers: Sequence[int], method: Method) -> Figures:
    hits5 = hits10 = reciprocal = 0.0
    silent = unanswerable = answerable = 0
    for number in numbers:
        asked = pool.asked[number]
        found = list(method(pool, number)[:DEEP])
        if not asked.answers:
            unanswerable += 1
            silent += not found
            continue
        answerable += 1
        hits5 += sum(each in found[:5] for each in asked.answers) / len(asked.answers)
        hits10 += sum(each in found for each in asked.answers) / len(asked.answers)
        first = min((found.index(each) for each in asked.answers if each in found), default=None)
        reciprocal += 0.0 if first is None else 1 / (first + 1)
    whole = max(answerable, 1)
    return Figures(
        hits5 / whole, hits10 / whole, reciprocal / whole, silent / unanswerable if unanswerable else None, len(numbers)
    )


def goodness(figures: Figures) -> float:
    return figures.recall5 + 0.5 * figures.mrr + (0.0 if figures.abstained is None else 0.25 * figures.abstained)


async def pools(encoder: SentenceEncoder, longmemeval: Path | None) -> tuple[dict[str, Pool], float, float]:
    sessions, asked = make_sessions()
    pairs = all_pairs(DOCS)
    texts = list(dict.fromkeys(pair.text for pair in pairs))
    number = {text: at for at, text in enumerate(texts)}
    older = [Asked(pair.source, pair.question, (number[pair.text],)) for pair in pairs]
    given = {"sessions": ([each.text for each in sessions], asked), "questions": (texts, older)}
    if longmemeval is not None:
        given["LongMemEval-S"] = own_copy(longmemeval)
    made: dict[str, Pool] = {}
    count, cpu = 0, 0.0
    for name, (its_texts, its_asked) in given.items():
        before = time.process_time()
        known = [quantized(each) for each in await encoder.embed([text[:1_600] for text in its_texts])]
        cpu += time.process_time() - before
        count += len(its_texts)
        questions = await encoder.embed([each.question for each in its_asked])
        near = [int8_similarities(known, question) for question in questions]
        made[name] = Pool(its_texts, its_asked, near, [shares_of(its_texts, each.question) for each in its_asked])
    return made, count, cpu


def own_copy(path: Path) -> tuple[list[str], list[Asked]]:
    """Return the sessions and questions of a LongMemEval-S file."""
    texts: dict[str, int] = {}
    asked: list[Asked] = []
    for entry in json.loads(path.read_text()):
        for name, turns in zip(entry["haystack_session_ids"], entry["haystack_sessions"], strict=True):
            texts.setdefault(f"{name}\n" + "\n".join(turn["content"] for turn in turns), len(texts))
        known = {text.partition("\n")[0]: at for text, at in texts.items()}
        answers = (
            () if entry["question_id"].endswith("_abs") else tuple(known[each] for each in entry["answer_session_ids"])
        )
        asked.append(Asked(entry["question_type"], entry["question"], answers))
    return list(texts), asked


async def query_costs(encoder: SentenceEncoder, counts: Sequence[int]) -> list[str]:
    """Ask a store with so many passages, on SQLite, as runs do."""
    lines: list[str] = []
    filler = await encoder.embed([f"Passage about topic {number} and its many remarks." for number in range(200)])
    for count in counts:
        with tempfile.TemporaryDirectory() as folder, open_records(Path(folder) / ".fabric") as records:
            memory, passages = records.storage.memory, records.storage.memory.passages
            per = 1_000
            for book in range(count // per):
                document = Document(
                    document_id=DocumentId(f"{book:016}"),
                    owner="local",
                    title=f"Book {book}",
                    source=f"/{book}",
                    content_hash=content_hash(b"x"),
                )
                await memory.documents.put(document)
                parts = [
                    Passage(
                        ordinal=at,
                        start=at,
                        end=at + 1,
                        text=f"Passage {book * per + at} about topic {at % 200} and its many remarks. " * 20,
                    )
                    for at in range(per)
                ]
                await passages.replace(document, parts)
                pairs = [(each.hash(document.title), filler[at % 200]) for at, each in enumerate(parts)]
                await passages.keep(encoder.name, pairs)
            search = SearchMemory(memory, records.storage.clock, encoder)
            wanted = DocumentQuery(viewer=Viewer(("local",), sees_all=False))
            await search("warm up", wanted)
            before, wall = time.process_time(), time.perf_counter()
            asked = 10
            for number in range(asked):
                await search(f"What is said about topic {number * 17}?", wanted)
            cpu_ms = 1_000 * (time.process_time() - before) / asked
            wall_ms = 1_000 * (time.perf_counter() - wall) / asked
            lines.append(f"| {count:,} | {cpu_ms:.0f} | {wall_ms:.0f} |")
    return lines


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longmemeval", type=Path, help="your own copy of LongMemEval-S")
    parser.add_argument("--passages", type=int, nargs="*", default=[10_000], help="sizes of stores that are asked")
    wanted = parser.parse_args()
    encoder = SentenceEncoder()
    made, count, cpu = await pools(encoder, wanted.longmemeval)
    print(f"encoder {encoder.name}: {count} texts, {1_000 * cpu / count:.1f} ms CPU each\n")
    for name, pool in made.items():
        numbers = list(range(len(pool.asked)))
        random.Random(3).shuffle(numbers)
        halves = [numbers[start::2] for start in (0, 1)]
        weight, threshold = max(
            ((weight, threshold) for weight in WEIGHTS for threshold in THRESHOLDS),
            key=lambda pair: goodness(measured(pool, halves[0], ours(*pair))),
        )
        bare = max(THRESHOLDS, key=lambda each: goodness(measured(pool, halves[0], vectors(each))))
        methods: dict[str, Method] = {
            "words": words,
            f"vectors ≥ {bare}": vectors(bare),
            "rank fusion": fused(bare),
            f"ours, as shipped ({WORDS_WEIGHT}, ≥ {MIN_SCORE})": ours(WORDS_WEIGHT, MIN_SCORE),
            f"ours, chosen here ({weight}, ≥ {threshold})": ours(weight, threshold),
        }
        slices = ["all", *dict.fromkeys(each.ability for each in pool.asked)]
        print(f"{name}: {len(pool.texts)} texts, {len(pool.asked)} questions; the second half of them:\n")
        print("| slice | n | " + " | ".join(methods) + " |\n|---|---|" + "---|" * len(methods))
        for ability in slices:
            numbers = [at for at in halves[1] if ability in ("all", pool.asked[at].ability)]
            shown = []
            for method in methods.values():
                figures = measured(pool, numbers, method)
                silent = "" if figures.abstained is None else f", silent {figures.abstained:.2f}"
                found = f"{figures.recall5:.2f} / {figures.recall10:.2f} / {figures.mrr:.2f}"
                answerable = any(pool.asked[at].answers for at in numbers)
                shown.append(f"{found}{silent}" if answerable else silent.removeprefix(", "))
            print(f"| {ability} | {len(numbers)} | " + " | ".join(shown) + " |")
        print("\nrecall@5 / recall@10 / MRR\n")
    print("| passages | CPU of a query, ms | wall, ms |\n|---|---|---|")
    print("\n".join(await query_costs(encoder, wanted.passages)))


if __name__ == "__main__":
    asyncio.run(main())
