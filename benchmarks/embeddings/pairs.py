"""Questions with the text that answers each, made when the benchmark runs.

Three sources: the docstrings of the standard library (first line → the rest; name in words → docstring), the headings
of this repository's documentation (heading → section), and tasks as people give them, asked for again in other words,
also in German. Every text of every source is in one pool, so each question has hundreds of wrong answers.
"""

import importlib
import inspect
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MODULES = [
    "argparse",
    "asyncio",
    "base64",
    "bisect",
    "calendar",
    "codecs",
    "collections",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "datetime",
    "decimal",
    "difflib",
    "email.message",
    "fileinput",
    "fnmatch",
    "fractions",
    "functools",
    "gettext",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http.client",
    "imaplib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "linecache",
    "locale",
    "logging",
    "mailbox",
    "mimetypes",
    "os",
    "pathlib",
    "pickle",
    "platform",
    "plistlib",
    "pprint",
    "queue",
    "random",
    "re",
    "sched",
    "secrets",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "tokenize",
    "traceback",
    "types",
    "unittest",
    "urllib.parse",
    "urllib.request",
    "uuid",
    "venv",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "xml.dom.minidom",
    "zipfile",
]
TASKS = Path(__file__).with_name("tasks.txt")
"""Task, summary, question in English, question in German."""
EACH = 150
"""Most pairs of one source."""
LONGEST = 1_500
"""Characters of a text: as long as a task with its summary."""


class Pair(NamedTuple):
    """A question and the text that should be found."""

    source: str
    question: str
    text: str


def all_pairs(docs: Path) -> list[Pair]:
    """Return the same pairs every time, for the same Python and the same documentation."""
    pairs: list[Pair] = []
    for source in (_summaries(), _names(), _sections(docs), _tasks()):
        found = list({pair.text: pair for pair in source}.values())
        random.Random(7).shuffle(found)
        pairs += found[:EACH]
    return pairs


def _documented() -> Iterator[tuple[str, str]]:
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in sorted(vars(module)):
            value = getattr(module, attribute)
            if attribute.startswith("_") or getattr(value, "__module__", None) != name:
                continue
            members = [(attribute, value)]
            if inspect.isclass(value):
                members += [(f"{attribute} {key}", each) for key, each in sorted(vars(value).items()) if key[0] != "_"]
            for spoken, member in members:
                text = inspect.cleandoc(getattr(member, "__doc__", None) or "")
                if inspect.isroutine(member) or inspect.isclass(member):
                    yield spoken, text


def _summaries() -> Iterator[Pair]:
    for _, text in _documented():
        first, _, rest = text.partition("\n")
        if len(first.split()) >= 5 and len(rest.strip()) >= 150:
            yield Pair("summaries", first.strip(), rest.strip()[:LONGEST])


def _names() -> Iterator[Pair]:
    for name, text in _documented():
        words = re.sub(r"(?<=[a-z])(?=[A-Z])|[_ ]", " ", name).lower()
        if len(words.split()) >= 3 and len(text) >= 80 and name.split()[-1] not in text:
            yield Pair("names", words, text[:LONGEST])


def _sections(docs: Path) -> Iterator[Pair]:
    for path in sorted(docs.rglob("*.md")):
        title = ""
        for part in re.split(r"^(?=#{1,3} )", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            heading, _, text = part.partition("\n")
            heading = heading.lstrip("# ").strip()
            title = title or heading
            if heading and len(text.strip()) >= 120:
                yield Pair("sections", heading if heading == title else f"{title}: {heading}", text.strip()[:LONGEST])


def _tasks() -> Iterator[Pair]:
    for line in TASKS.read_text(encoding="utf-8").splitlines():
        task, summary, english, german = (part.strip() for part in line.split("|"))
        yield Pair("other words", english, f"{task}\n{summary}")
        yield Pair("other language", german, f"{task}\n{summary} ")  # the same text, kept apart by its last blank
