"""How well memory finds what was said: words, vectors, fused ranks and our weighted sum, on the same questions.

python benchmarks/bench_memory.py                       # the tables and the costs at 10,000 passages
python benchmarks/bench_memory.py --passages 10000 100000 --ingest 1000
python benchmarks/bench_memory.py --longmemeval FILE    # with your own copy of LongMemEval-S

*Ours* is the product: a store in SQLite, asked through `SearchMemory`. Its constants were chosen with the first half of
the questions (`--half 0` shows them), and the second half is reported. Needs the extra `embeddings`.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from agent_fabric.application.memory.brief_run import BriefRun
from agent_fabric.application.memory.embed_passages import EmbedPassages
from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.memory import BriefingRequest, DocumentQuery
from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.records import Records, open_records
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.ids import DocumentId, RunId
from agent_fabric.domain.memory.documents import Document, content_hash
from agent_fabric.domain.memory.passages import Passage
from agent_fabric.domain.memory.ranking import MIN_WORDS, Candidate, rank
from agent_fabric.domain.memory.terms import question_terms, terms_in
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder
from agent_fabric.infrastructure.memory.embeddings.vector_blocks import int8_similarities, quantize
from embeddings.pairs import all_pairs
from memory_sessions import Asked, make_sessions

DOCS: Final = Path(__file__).parents[1] / "docs"
FUSED: Final = 60
DEEP: Final = 10
CANDIDATES: Final = 50
ABSTENTION: Final = "abstention"
MINE: Final = DocumentQuery(viewer=Viewer(("local",), sees_all=False))


class Pool(NamedTuple):
    """Texts, what is asked about them, and the vectors of both."""

    texts: Sequence[str]
    asked: Sequence[Asked]
    vectors: Sequence[Vector]
    questions: Sequence[Vector]


class Known:
    """Embedder that knows the vectors of all questions."""

    def __init__(self, name: str, dimensions: int, pools: Sequence[Pool]) -> None:
        self.name, self.dimensions = name, dimensions
        self._vectors = {
            asked.question: vector for pool in pools for asked, vector in zip(pool.asked, pool.questions, strict=True)
        }

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        return [self._vectors[text] for text in texts]


Find = Callable[[str], Awaitable[Sequence[int]]]
"""Returns the texts that fit a question, the best first."""


class Halves:
    """The methods that ours is compared with: words alone, vectors alone, and both by their ranks."""

    def __init__(self, pool: Pool, embedder: Known) -> None:
        self._embedder = embedder
        self._texts = pool.texts
        self._terms = [frozenset(terms_in(text)) for text in pool.texts]
        self._vectors = [quantize(vector) for vector in pool.vectors]

    async def words(self, question: str) -> Sequence[int]:
        shares = self._shares(question)
        return [at for at in _descending(shares) if shares[at] >= MIN_WORDS]

    async def all_words(self, question: str) -> Sequence[int]:
        shares = self._shares(question)
        return [at for at in _descending(shares) if shares[at] > 0]

    async def vectors(self, question: str) -> Sequence[int]:
        (vector,) = await self._embedder.embed([question])
        return _descending(int8_similarities(self._vectors, vector))

    async def fused(self, question: str) -> Sequence[int]:
        score: dict[int, float] = {}
        for found in (await self.all_words(question), await self.vectors(question)):
            for place, at in enumerate(found[:100]):
                score[at] = score.get(at, 0.0) + 1 / (FUSED + place)
        return sorted(score, key=lambda at: -score[at])

    def _shares(self, question: str) -> list[float]:
        asked = question_terms(question)
        candidates = [
            Candidate(DocumentId(f"{at:016}"), 0, "", None, asked & terms) for at, terms in enumerate(self._terms)
        ]
        shares = [0.0] * len(candidates)
        for each in rank(question, candidates, min_words=0.0):
            shares[int(each.candidate.document_id)] = each.words
        return shares


def _descending(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda at: -scores[at])


async def put(storage: Storage, pool: Pool, embedder: str) -> None:
    """Make each text a document of its own, with its vector."""
    for at in range(len(pool.texts)):
        await put_one(storage, pool, embedder, at)


def ours(search: SearchMemory) -> Find:
    async def find(question: str) -> Sequence[int]:
        answer = await search(question, MINE, limit=DEEP)
        return [int(each.document.document_id) for each in answer.passages]

    return find


class Figures(NamedTuple):
    """What a method finds."""

    recall5: float
    recall10: float
    mrr: float
    silent: float
    """The share of questions about which nothing was found."""


async def measured(asked: Sequence[Asked], find: Find, same: Sequence[int]) -> Figures:
    """Ask, and count. `same` says which text each one repeats: ours shows what stands twice once."""
    hits5 = hits10 = reciprocal = silent = 0.0
    for question in asked:
        each = question._replace(answers=tuple(same[answer] for answer in question.answers))
        found = list(dict.fromkeys(same[at] for at in (await find(each.question))))[:DEEP]
        silent += not found
        if each.answers:
            hits5 += sum(answer in found[:5] for answer in each.answers) / len(each.answers)
            hits10 += sum(answer in found for answer in each.answers) / len(each.answers)
            first = min((found.index(answer) for answer in each.answers if answer in found), default=None)
            reciprocal += 0.0 if first is None else 1 / (first + 1)
    whole = max(len(asked), 1)
    return Figures(hits5 / whole, hits10 / whole, reciprocal / whole, silent / whole)


async def make_pools(encoder: SentenceEncoder, longmemeval: Path | None) -> dict[str, Pool]:
    sessions, asked = make_sessions()
    pairs = all_pairs(DOCS)
    texts = list(dict.fromkeys(pair.text for pair in pairs))
    number = {text: at for at, text in enumerate(texts)}
    older = [Asked(pair.source, pair.question, (number[pair.text],)) for pair in pairs]
    given = {"sessions": ([each.text for each in sessions], asked), "questions": (texts, older)}
    if longmemeval is not None:
        given["LongMemEval-S"] = own_copy(longmemeval)
    made: dict[str, Pool] = {}
    for name, (its_texts, its_asked) in given.items():
        before = time.process_time()
        vectors = await encoder.embed([text[:1_600] for text in its_texts])
        cpu_ms = 1_000 * (time.process_time() - before) / len(its_texts)
        print(f"{name}: {len(its_texts)} texts, {cpu_ms:.1f} ms CPU of {encoder.name} each", flush=True)
        made[name] = Pool(its_texts, its_asked, vectors, await encoder.embed([each.question for each in its_asked]))
    return made


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


def half_of(asked: Sequence[Asked], half: int) -> list[Asked]:
    numbers = list(range(len(asked)))
    random.Random(3).shuffle(numbers)
    return [asked[at] for at in numbers[half::2]]


async def quality(pools: dict[str, Pool], embedder: Known, half: int) -> None:
    """Print what each method finds, and when ours is silent."""
    silences: list[str] = []
    whole: list[tuple[int, Sequence[Figures]]] = []
    for name, pool in pools.items():
        with tempfile.TemporaryDirectory() as folder, open_records(Path(folder) / ".fabric") as records:
            await put(records.storage, pool, embedder.name)
            find = ours(SearchMemory(records.storage.memory, records.storage.clock, embedder))
            halves = Halves(pool, embedder)
            same = repeated(pool.texts)
            methods = {
                "words": halves.all_words,
                "words ≥ 0.5": halves.words,
                "vectors": halves.vectors,
                "rank fusion": halves.fused,
                "ours": find,
            }
            mine = half_of(pool.asked, half)
            answerable = [each for each in mine if each.answers]
            print(f"\n{name}: {len(pool.texts)} texts, {len(answerable)} questions of half {half}\n")
            print("| slice | n | " + " | ".join(methods) + " | ours − best |\n|---|--:|" + "--:|" * (len(methods) + 1))
            for ability in ("all", *dict.fromkeys(each.ability for each in answerable)):
                some = [each for each in answerable if ability in ("all", each.ability)]
                figures = [await measured(some, method, same) for method in methods.values()]
                best = max(figures[0].recall5, figures[2].recall5)
                whole += [(len(some), figures)] if ability == "all" else []
                shown = " | ".join(f"{each.recall5:.2f} / {each.recall10:.2f} / {each.mrr:.2f}" for each in figures)
                print(f"| {ability} | {len(some)} | {shown} | {figures[-1].recall5 - best:+.2f} |", flush=True)
            others = [half_of(pools[other].asked, half) for other in pools if other != name]
            foreign = [each._replace(answers=()) for asked in others for each in asked]
            cases: dict[str, Sequence[Asked]] = {
                "answered in memory (false silence)": answerable,
                "a name is known, what is asked about is not": [each for each in mine if not each.answers],
                "about something else altogether": foreign,
            }
            for case, theirs in cases.items():
                if theirs:
                    figures = [await measured(theirs, method, same) for method in (halves.words, find)]
                    silences.append(
                        f"| {name} | {case} | {len(theirs)} | {figures[0].silent:.2f} | {figures[1].silent:.2f} |"
                    )
            gone = 0
            for each in answerable:
                those = [at for at, one in enumerate(same) if one in {same[answer] for answer in each.answers}]
                for answer in those:
                    await records.storage.memory.documents.remove(DocumentId(f"{answer:016}"))
                gone += not await find(each.question)
                for answer in those:
                    await put_one(records.storage, pool, embedder.name, answer)
            case = "its answer was removed, all like it is there"
            silences.append(f"| {name} | {case} | {len(answerable)} | – | {gone / len(answerable):.2f} |")
    figures = [_together([(count, each[at]) for count, each in whole]) for at in range(len(whole[0][1]))]
    shown = " | ".join(f"{each.recall5:.3f} / {each.recall10:.3f} / {each.mrr:.3f}" for each in figures)
    print(f"\n| overall | {sum(count for count, _ in whole)} | {shown} |")
    by_words, by_ours = figures[0].recall5, figures[-1].recall5
    print(f"\nours − words, overall: {by_ours - by_words:+.3f}")
    print("\nrecall@5 / recall@10 / MRR\n\n| pool | questions | n | words ≥ 0.5: silent | ours: silent |")
    print("|---|---|--:|--:|--:|")
    print("\n".join(silences))


def repeated(texts: Sequence[str]) -> list[int]:
    """Return for each text the first one that says the same."""
    first = {text.strip(): at for at, text in reversed(list(enumerate(texts)))}
    return [first[text.strip()] for text in texts]


def _together(parts: Sequence[tuple[int, Figures]]) -> Figures:
    """Return the figures of all questions, from those of some."""
    count = sum(each for each, _ in parts)
    return Figures(*(sum(many * figures[at] for many, figures in parts) / count for at in range(len(Figures._fields))))


async def put_one(storage: Storage, pool: Pool, embedder: str, at: int) -> None:
    document = Document(
        document_id=DocumentId(f"{at:016}"), owner="local", title="", source=f"/{at}", content_hash=str(at)
    )
    text = pool.texts[at]
    passage = Passage(ordinal=0, start=0, end=len(text), text=text)
    await storage.memory.documents.put(document)
    await storage.memory.passages.replace(document, [passage])
    await storage.memory.passages.keep(embedder, [(passage.hash(""), pool.vectors[at])])


async def query_costs(encoder: SentenceEncoder, counts: Sequence[int]) -> None:
    """Ask a store with so many passages, on SQLite, as runs do. Every passage has words of every question."""
    filler = await encoder.embed([f"Passage about topic {number} and its many remarks." for number in range(200)])
    print(
        "\n| passages | first query, CPU ms | query, CPU ms | query, wall ms | added before the model is asked, CPU ms"
        " | the same, wall ms |\n|--:|--:|--:|--:|--:|--:|"
    )
    for count in counts:
        with tempfile.TemporaryDirectory() as folder, open_records(Path(folder) / ".fabric") as records:
            memory, per = records.storage.memory, 1_000
            for book in range(count // per):
                document = Document(
                    document_id=DocumentId(f"{book:016}"),
                    owner="local",
                    title=f"Book {book}",
                    source=f"/{book}",
                    content_hash=content_hash(b"x"),
                )
                await memory.documents.put(document)
                texts = [
                    f"Passage {book * per + at} about topic {at % 200} and its many remarks. " * 20 for at in range(per)
                ]
                parts = [Passage(ordinal=at, start=at, end=at + 1, text=text) for at, text in enumerate(texts)]
                await memory.passages.replace(document, parts)
                pairs = [(each.hash(document.title), filler[at % 200]) for at, each in enumerate(parts)]
                await memory.passages.keep(encoder.name, pairs)
            search = SearchMemory(memory, records.storage.clock, encoder)
            before = time.process_time()
            await search("What is said about topic 3?", MINE)
            first_ms = 1_000 * (time.process_time() - before)
            before, wall, asked = time.process_time(), time.perf_counter(), 20
            for number in range(asked):
                await search(f"What is said about topic {number * 17}?", MINE)
            cpu_ms = 1_000 * (time.process_time() - before) / asked
            wall_ms = 1_000 * (time.perf_counter() - wall) / asked
            told = await briefing_costs(records, search, asked)
            print(f"| {count:,} | {first_ms:.0f} | {cpu_ms:.0f} | {wall_ms:.0f} | {told} |", flush=True)


async def briefing_costs(records: Records, search: SearchMemory, asked: int) -> str:
    """Return what a run waits for before its model is asked: median and worst, in milliseconds of CPU and wall time.

    It is all that `ContextSource` does: the vector of the question, the search, the passages that are read, their
    snapshots in the folder of the run, and the note of which run was told what.
    """
    memory, clock = records.storage.memory, records.storage.clock
    brief = BriefRun(memory, search, SearchMemory(memory, clock), records.snapshots_for, clock)
    spent: list[tuple[float, float]] = []
    for number in range(asked):
        wish = BriefingRequest(
            run_id=RunId(f"run-{number}"), owner="local", question=f"What is said about topic {number * 13}?"
        )
        records.layout.snapshots(wish.run_id).parent.mkdir(parents=True)  # as a run has it when it begins
        cpu, wall = time.process_time(), time.perf_counter()
        briefing = await brief(wish)
        spent.append((1_000 * (time.process_time() - cpu), 1_000 * (time.perf_counter() - wall)))
        if briefing.knowledge is None or not briefing.knowledge.passages:
            raise SystemExit("nothing was told: the figures would be of something else")
    cpus, walls = (sorted(each) for each in zip(*spent, strict=True))
    return f"{cpus[asked // 2]:.0f} (worst {cpus[-1]:.0f}) | {walls[asked // 2]:.0f} (worst {walls[-1]:.0f})"


async def ingest_costs(encoder: SentenceEncoder, count: int) -> None:
    """Compare adding passages with the bare encoder, in CPU seconds."""
    chance = random.Random(1)
    words = [f"word{number}" for number in range(2_000)]
    texts = [" ".join(chance.choices(words, k=200)) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder, open_records(Path(folder) / ".fabric") as records:
        memory = records.storage.memory
        before = time.process_time()
        for start in range(0, count, 100):
            document = Document(
                document_id=DocumentId(f"{start:016}"), owner="local", title="", source=f"/{start}", content_hash=""
            )
            await memory.documents.put(document)
            some = texts[start : start + 100]
            parts = [Passage(ordinal=at, start=at, end=at + 1, text=text) for at, text in enumerate(some)]
            await memory.passages.replace(document, parts)
        await EmbedPassages(memory.passages, encoder)()
        ours_s = time.process_time() - before
    before = time.process_time()
    for start in range(0, count, 32):
        await encoder.embed(texts[start : start + 32])
    bare_s = time.process_time() - before
    ratio = ours_s / bare_s
    print(f"\ningestion of {count:,} passages: {ours_s:.1f} s CPU, the bare encoder {bare_s:.1f}: {ratio:.2f} times")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longmemeval", type=Path, help="your own copy of LongMemEval-S")
    parser.add_argument("--half", type=int, choices=(0, 1), default=1, help="which half of the questions is asked")
    parser.add_argument("--passages", type=int, nargs="*", default=[10_000], help="sizes of stores that are asked")
    parser.add_argument("--ingest", type=int, default=200, help="passages that are added")
    parser.add_argument("--costs-only", action="store_true", help="leave out the questions")
    wanted = parser.parse_args()
    encoder = SentenceEncoder()
    if not wanted.costs_only:
        pools = await make_pools(encoder, wanted.longmemeval)
        await quality(pools, Known(encoder.name, encoder.dimensions, list(pools.values())), wanted.half)
    await query_costs(encoder, wanted.passages)
    if wanted.ingest:
        await ingest_costs(encoder, wanted.ingest)


if __name__ == "__main__":
    asyncio.run(main())
