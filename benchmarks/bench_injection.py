"""How many attacks the injection scan notices, how often it is wrong, and what it costs.

    python benchmarks/bench_injection.py [--rounds 7] [--files FOLDER ...]

Texts: `tests/data/injection`, attacks and benign look-alikes of many kinds and languages, split by hash; rules were
tuned on the development half only. `--files` scans all text files below folders of your own as well, in which no attack
is expected, and names those in which signs are seen. Time is that of this process, beside `text.lower()` as the floor.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from agent_fabric.domain.policy.injection.scan import signals_in

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data" / "injection"
HALVES = ("development", "held_out")
KIB = 1024


class Scanned(NamedTuple):
    half: str
    attack: bool
    group: str
    language: str
    seen: bool


def scanned() -> Iterator[Scanned]:
    for half in HALVES:
        for line in (DATA / f"{half}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            yield Scanned(half, row["label"] == "attack", row["class"], row["language"], bool(signals_in(row["text"])))


def share(texts: Iterable[Scanned]) -> str:
    seen = [text.seen for text in texts]
    return f"{sum(seen):4}/{len(seen):<4}{sum(seen) / len(seen):5.2f}" if seen else f"{'-':>14}"


def table(texts: list[Scanned], title: str, kind: Callable[[Scanned], str]) -> None:
    print(f"\n{title:24}{'development':>16}{'held out':>16}")
    for name in sorted({kind(text) for text in texts}):
        halves = (share(text for text in texts if kind(text) == name and text.half == half) for half in HALVES)
        print(f"{name:24}" + "".join(f"{half:>16}" for half in halves))


def microseconds_per_kib(work: Callable[[str], object], text: str, rounds: int) -> float:
    def once() -> float:
        begun = time.process_time()
        work(text)
        return time.process_time() - begun

    return min(once() for _ in range(rounds)) / len(text) * KIB * 1e6


def costs(rounds: int) -> None:
    """Ordinary text of three kinds, each of about 100,000 characters, that holds no attack."""
    prose = (ROOT / "docs" / "operate" / "troubleshooting.md").read_text(encoding="utf-8")
    code = (ROOT / "src" / "agent_fabric" / "domain" / "tools.py").read_text(encoding="utf-8")
    rows = [json.loads(line) for half in HALVES for line in (DATA / f"{half}.jsonl").read_text("utf-8").splitlines()]
    many = "\n".join(row["text"] for row in rows if row["label"] == "benign" and row["language"] not in ("en", "xx"))
    print(f"\n{'µs per 1,024 characters':24}{'lower()':>16}{'scan':>16}")
    for name, text in (("prose", prose), ("Python", code), ("fourteen languages", many)):
        long = (text * (100_000 // len(text) + 1))[:100_000]
        floor, scan = (microseconds_per_kib(work, long, rounds) for work in (str.lower, signals_in))
        print(f"{name:24}{floor:16.1f}{scan:16.1f}")
    short = "The weather is fine today, and the report will be sent tomorrow morning as agreed. "
    print(
        f"{'one sentence, µs in all':24}{'':16}{microseconds_per_kib(signals_in, short, 200) * len(short) / KIB:16.1f}"
    )


def look_through(folders: list[Path]) -> None:
    files = seen = characters = 0
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            try:
                text = file.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            signs = signals_in(text)
            files, seen, characters = files + 1, seen + bool(signs), characters + len(text)
            if signs:
                print(f"{', '.join(signs):32} {file}")
    print(f"\nsigns in {seen} of {files} files, {characters:,} characters")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--files", type=Path, nargs="*", default=[])
    arguments = parser.parse_args()
    texts = list(scanned())
    attacks = [text for text in texts if text.attack]
    table(texts, "all", lambda text: "attacks noticed" if text.attack else "false alarms")
    table(attacks, "attacks by class", lambda text: text.group)
    table(attacks, "attacks by language", lambda text: text.language)
    table([text for text in texts if not text.attack], "false alarms by kind", lambda text: text.group)
    print(f"\n{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    costs(arguments.rounds)
    if arguments.files:
        look_through(arguments.files)


if __name__ == "__main__":
    main()
