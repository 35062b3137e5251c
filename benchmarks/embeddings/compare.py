"""Compare ways to find a text by a question: words, embeddings, and both.

python -m embeddings.compare words
python -m embeddings.compare use --json OUT

Run it in `benchmarks/` with the Python that has the candidate; see `candidates.py`. Needs nothing else.
"""

import argparse
import json
import operator
import re
import resource
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path

from embeddings.candidates import CANDIDATES
from embeddings.pairs import Pair, all_pairs

DOCS = Path(__file__).parents[2] / "docs"
FUSED = 60
"""How much the first ranks count beside the later ones, in reciprocal rank fusion."""

WORDS_WEIGHT = 0.1
"""What the best match by words adds to its cosine, as in `run_vectors`."""

Ranking = Callable[[str], Sequence[int]]
"""Gives the texts that fit a question, the best first."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("candidate", choices=["words", *CANDIDATES])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    wanted = parser.parse_args()
    pairs = all_pairs(DOCS)
    texts = list(dict.fromkeys(pair.text for pair in pairs))
    by_words = full_text(texts)
    figures: dict[str, object] = {"candidate": wanted.candidate, "pairs": len(pairs), "texts": len(texts)}
    if wanted.candidate == "words":
        figures["most words"] = scores(pairs, texts, most_words(texts))
        figures["fts5 bm25"] = scores(pairs, texts, by_words)
    else:
        by_meaning, by_both, cost = meaning(wanted.candidate, pairs, texts, by_words)
        figures |= cost
        figures["vectors"] = scores(pairs, texts, by_meaning)
        figures["vectors + fts5, rank fusion"] = scores(pairs, texts, fused(by_meaning, by_words))
        figures["vectors + a little of fts5"] = scores(pairs, texts, by_both)
    print(json.dumps(figures, indent=2))
    if wanted.json:
        wanted.json.write_text(json.dumps(figures))


def scores(pairs: Sequence[Pair], texts: Sequence[str], ranking: Ranking) -> dict[str, dict[str, float]]:
    """Return hit@1, hit@5 and mean reciprocal rank, for each source and for all."""
    number = {text: index for index, text in enumerate(texts)}
    twins = {
        index: {index, number.get(text.rstrip(), index), number.get(f"{text} ", index)}
        for text, index in number.items()
    }
    ranks: dict[str, list[float]] = {}
    for pair in pairs:
        right = twins[number[pair.text]]
        found = list(ranking(pair.question))
        rank = next((place for place, index in enumerate(found, 1) if index in right), None)
        for source in (pair.source, "all"):
            ranks.setdefault(source, []).append(0 if rank is None else 1 / rank)
    return {
        source: {
            "hit@1": round(statistics.mean(value == 1 for value in values), 3),
            "hit@5": round(statistics.mean(value >= 1 / 5 for value in values), 3),
            "mrr": round(statistics.mean(values), 3),
        }
        for source, values in ranks.items()
    }


def most_words(texts: Sequence[str]) -> Ranking:
    """Return the texts with most of the words, as `fabric logs search` without --semantic does it."""

    def rank(question: str) -> list[int]:
        words = set(question.lower().split())
        found = {index: sum(word in text.lower() for word in words) for index, text in enumerate(texts)}
        return [index for index in sorted(found, key=lambda one: -found[one]) if found[index]]

    return rank


def full_text(texts: Sequence[str]) -> Ranking:
    """Return the texts by SQLite's full text search, any of the words."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize='porter unicode61')")
    database.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))

    def rank(question: str) -> list[int]:
        query = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        found = database.execute("SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 100", (query,))
        return [row[0] for row in found]

    return rank


def meaning(
    name: str, pairs: Sequence[Pair], texts: Sequence[str], by_words: Ranking
) -> tuple[Ranking, Ranking, dict[str, object]]:
    """Return the texts by cosine, by cosine with a bonus for words, and what that costs."""
    opening, distributions = CANDIDATES[name]
    started = time.perf_counter()
    embed = opening()
    embed(["warm"], False)
    opened_s = time.perf_counter() - started
    started, cpu = time.perf_counter(), time.process_time()
    vectors = embed(texts, False)
    took_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    questions = list({pair.question for pair in pairs})
    embedded = dict(zip(questions, embed(questions, True), strict=True))
    one = [_timed(lambda text=text: embed([text], True)) for text in questions[:20]]  # type: ignore[misc]  # bound in time

    def similarities(question: str) -> list[float]:
        asked = embedded[question]
        return [sum(map(operator.mul, asked, vector)) for vector in vectors]

    def rank(question: str) -> list[int]:
        return _best(similarities(question))

    def rank_both(question: str) -> list[int]:
        near = similarities(question)
        for place, index in enumerate(by_words(question), 1):
            near[index] += WORDS_WEIGHT / place
        return _best(near)

    return (
        rank,
        rank_both,
        {
            "dimensions": len(vectors[0]),
            "open_s": round(opened_s, 2),
            "texts_per_s": round(len(texts) / took_s, 1),
            "texts_per_cpu_s": round(len(texts) / cpu_s, 1),
            "one_question_ms": round(1000 * statistics.median(one), 1),
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "installed_mb": {each: round(_size(each) / 1e6, 1) for each in distributions},
        },
    )


def fused(*rankings: Ranking) -> Ranking:
    """Return the texts by reciprocal rank fusion of several rankings."""

    def rank(question: str) -> list[int]:
        found: dict[int, float] = {}
        for ranking in rankings:
            for place, index in enumerate(ranking(question), 1):
                found[index] = found.get(index, 0) + 1 / (FUSED + place)
        return sorted(found, key=lambda index: -found[index])

    return rank


def _best(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda index: -scores[index])[:100]


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _size(name: str) -> int:
    found = distribution(name)
    return sum(path.stat().st_size for each in found.files or () if (path := Path(str(each.locate()))).exists())


if __name__ == "__main__":
    main()
