"""Ten questions to the embedded model about this documentation: how many answers quote the passage they rest on.

python benchmarks/bench_documentation.py              # adds docs/ to a fresh folder, asks, and prints a table
python benchmarks/bench_documentation.py --only 3     # the third question

Everything goes through the command line, as a person would do it: `fabric memory add docs`, then `fabric chat`. Needs
the extras `embedded` and `embeddings`; the model is fetched if it is not here.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

DOCS: Final = Path(__file__).parents[1] / "docs"
MODEL: Final = {"backend": "embedded", "temperature": 0.0, "timeout_s": 1_800}
CONFIG: Final = {"models": {"quality": MODEL, "fast": MODEL}, "embedded": {"idle_s": 300}}
QUOTED_WORDS: Final = 5
"""So many words in a row that stand in a passage are a quote of it."""
TIMEOUT_S: Final = 3_600.0


class Question(NamedTuple):
    """What is asked, and the sentence of the documentation that answers it."""

    text: str
    page: str
    sentence: str
    """Stands in the page, word for word."""
    answer: str
    """A pattern that a right answer fits."""


QUESTIONS: Final = (
    Question(
        "After how many days is a fact no longer used if nobody confirms it?",
        "guides/memory.md",
        "is no longer used after 180 days",
        r"\b180\b",
    ),
    Question(
        "How many random bytes must the secret of a webhook have at least?",
        "guides/webhooks.md",
        "It has at least 16 random bytes",
        r"\b16\b",
    ),
    Question(
        "How many runs may one user have in progress at the same time by default?",
        "operate/limits.md",
        "runs in progress at the same time",
        r"\b16\b",
    ),
    Question(
        "Which files are not part of a backup because they are keys?",
        "operate/backup.md",
        "`audit.key`, `encryption.keys`, `jwt.key`, `identity.key`",
        r"audit\.key|encryption\.keys",
    ),
    Question(
        "How long does a login last?",
        "operate/upgrade.md",
        "last 12 hours",
        r"\b12 hours\b|\btwelve hours\b",
    ),
    Question(
        "With which command do I create an API key for a CI program?",
        "guides/people-and-keys.md",
        "`fabric keys create`",
        r"fabric keys create",
    ),
    Question(
        "What does the status interrupted of a run mean?",
        "guides/resume-and-cancel.md",
        "no process drives it",
        r"no process|crash|kill|reboot",
    ),
    Question(
        "Can a failed run be resumed?",
        "guides/resume-and-cancel.md",
        "A `failed` run cannot be resumed",
        r"\bcannot\b|\bno\b|\bnot\b",
    ),
    Question(
        "Where does the sealed file keep secrets, and with which command is one set?",
        "guides/secrets.md",
        "`fabric secrets set OPENAI_API_KEY`",
        r"fabric secrets set",
    ),
    Question(
        "How many characters may all pinned facts take together?",
        "guides/memory.md",
        "Pinned facts together take at most 2,200 characters",
        r"2[,.]?200",
    ),
)


class Answered(NamedTuple):
    """What came of a question."""

    told: bool
    """The model was told the sentence that answers it."""
    quotes: bool
    """The answer repeats words of a passage that holds the sentence."""
    right: bool
    seconds: float
    content: str


def judge(question: Question, answer: dict[str, Any], seconds: float) -> Answered:
    """Compare an answer with what stands in the documentation."""
    content = str(answer["content"])
    passages = ((answer.get("message") or {}).get("metadata") or {}).get("passages") or []
    holding = [str(each["text"]) for each in passages if _words(question.sentence) in _words(str(each["text"]))]
    return Answered(
        told=bool(holding),
        quotes=any(_quotes(content, each) for each in holding),
        right=re.search(question.answer, content, re.IGNORECASE) is not None,
        seconds=seconds,
        content=" ".join(content.split()),
    )


def _quotes(content: str, passage: str) -> bool:
    said, known = _words(content).split(), f" {_words(passage)} "
    spans = range(len(said) - QUOTED_WORDS + 1)
    return any(f" {' '.join(said[at : at + QUOTED_WORDS])} " in known for at in spans)


def _words(text: str) -> str:
    return " ".join(re.findall(r"[\w.,]*\w", text.lower()))


def fabric(folder: Path, *arguments: str, said: str = "") -> Any:
    """Run a command in a folder and return its JSON."""
    environment = {**os.environ, "FABRIC_CONFIG_PATH": str(folder / "config.json")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ended = subprocess.run(
        [sys.executable, "-m", "agent_fabric", *arguments, "--json"],
        cwd=folder,
        env=environment,
        input=said,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if ended.returncode:
        sys.exit(f"fabric {' '.join(arguments)}: {ended.stdout}{ended.stderr}")
    return json.loads(ended.stdout)


def main() -> None:
    """Add the documentation, ask, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, help="the number of one question, from 1")
    parser.add_argument("--folder", type=Path, help="where the documentation is kept, to be asked again")
    parser.add_argument("--search", action="store_true", help="ask no model: only say what memory finds")
    wanted = parser.parse_args()
    chosen = QUESTIONS if wanted.only is None else QUESTIONS[wanted.only - 1 : wanted.only]
    for each in QUESTIONS:
        if each.sentence not in " ".join((DOCS / each.page).read_text(encoding="utf-8").split()):
            sys.exit(f"{each.page} no longer says: {each.sentence}")
    with tempfile.TemporaryDirectory() as made:
        folder = wanted.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        before = time.perf_counter()
        added = fabric(folder, "memory", "add", str(DOCS))
        took = time.perf_counter() - before
        passages = sum(each["passages"] for each in added["added"])
        print(f"{len(added['added'])} documents, {passages} passages, added in {took:.0f} s\n", flush=True)
        if wanted.search:
            for each in chosen:
                found = [str(one["passage"]) for one in fabric(folder, "memory", "search", each.text)]
                places = [at for at, text in enumerate(found, 1) if _words(each.sentence) in _words(text)]
                print(f"{each.text} → place {places[:1]} of {len(found)}", flush=True)
            return
        print("| question | sentence told | quoted | right | s | answer |\n|---|---|---|---|--:|---|", flush=True)
        done: list[Answered] = []
        for each in chosen:
            before = time.perf_counter()
            answer = fabric(folder, "chat", "--pack", "assistant", said=each.text)
            judged = judge(each, answer, time.perf_counter() - before)
            done.append(judged)
            marks = " | ".join("yes" if mark else "no" for mark in (judged.told, judged.quotes, judged.right))
            print(f"| {each.text} | {marks} | {judged.seconds:.0f} | {judged.content[:200]} |", flush=True)
        counts = [sum(getattr(each, name) for each in done) for name in ("told", "quotes", "right")]
        print(f"\nof {len(done)}: sentence told {counts[0]}, quoted {counts[1]}, right {counts[2]}")


if __name__ == "__main__":
    main()
