"""A command line while its commands are followed: the folder that each works in, and what its variables may hold.

What a word leads to is worked out from the line alone. What cannot be worked out is UNKNOWN.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from itertools import islice, product
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.words import DECLARES, assignments
from agent_fabric.domain.policy.inline_code import GIT, vital_in
from agent_fabric.domain.policy.places import MAX_PATH_CHARS, UNKNOWN, join_path
from agent_fabric.domain.policy.protected import GIT_FOLDER

MAX_VALUES: Final = 64
"""That a word may have; if there are more, it may be anything."""
MAX_EXPANSIONS: Final = 1_000
"""In one line; after that nothing is known of what a word may be."""

_FIND_STARTS: Final = names("-L -P -H -O0 -O1 -O2 -O3 --")
_NAMES_FILES: Final = names(
    "basename cd dirname echo fd fdfind find git ls mkdir mktemp printf pwd read test [ true false : rm xargs grep rg "
    "sort uniq wc sleep"
)
"""Programs that name files of the folder they work in, or nothing; what they say is no path of the system."""
_LISTS_FILES: Final = names("-l -L --files --files-with-matches --files-without-match -rl -lr -rL")
_GIT_SAYS: Final = names("archive blame cat-file config for-each-ref grep log notes show var")
"""Actions of git that say what is in files, settings or commits."""
_LOOP: Final = re.compile(r"\b(?:for|select)\s+(?P<name>\w+)(?:\s+in\s+(?P<list>[^;\n]*)|\s*(?:;|\bdo\b))")
_ADDS: Final = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\+=(?!\()")
_CHANGES_VALUE: Final = re.compile(r"[-+]\w*[inluc]\w*")
"""Options of `declare` by which a variable holds something else than it is given: a number, another variable."""
_DATE: Final = re.compile(r"(?:\$\(|`)date \+(?P<quote>['\"]?)(?P<form>[\w%.:-]+)(?P=quote)[)`]")
_FOLDER_OPTION: Final = re.compile(r"(?:--(?:chdir|dir|directory)(?:=|$)|-[A-Za-z]*C)(?P<value>.*)", re.DOTALL)
_ARGUMENT_FILE: Final = re.compile(r"-[0rtpxo]*a.*|--a.*", re.DOTALL)
"""With it, xargs reads a file that nothing is known of."""


@dataclass(slots=True)
class FollowedLine:
    """A line, and what is known of it before its next command."""

    text: str
    found: Sequence[Invocation]
    folders: tuple[str, ...] = (".",)
    """Where the next command may work."""
    values: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What variables may hold."""
    expansions: int = 0
    current: Invocation | None = None
    """The command that is looked at; what it says itself is none of its own words."""

    def __post_init__(self) -> None:
        for loop in _LOOP.finditer(self.text):
            self._learn(loop["name"], tuple(split_words(loop["list"])) if loop["list"] else (UNKNOWN,))
        for added in _ADDS.finditer(self.text):
            self._learn(added["name"], (UNKNOWN,))

    def follow(self, invocation: Invocation) -> tuple[str, ...]:
        """Go on to the next command; return the folders that it may work in."""
        self.current = None
        for name, value in assignments(invocation):
            self._learn(name, self._assigned_values(invocation, value))
        self.current = invocation
        words, name = invocation.words, invocation.name
        if name == "set" and "--" in words:
            given = words[words.index("--") + 1 :]
            for parameter in ("@", "*", *map(str, range(1, len(given) + 1))):
                self._learn(parameter, given)
        folders = self.folders
        if name in {"cd", "pushd"}:
            self._enter(invocation)
        elif name in {"env", "git", "sudo", "tar"} and (chosen := tuple(self._chosen_folders(invocation))):
            folders = chosen
            if name in {"env", "sudo"}:
                self.folders = folders  # for the command that it starts, which comes next
        return folders

    # ── words ──

    def expand(self, word: str, *, unknown: bool) -> list[str]:
        """Return what a word may stand for."""
        if not unknown:
            return [word]
        if word == "{}":
            return self._what_find_finds()
        if word.startswith(("~+", "~-")):
            word = f".{word[2:]}" if word[1] == "+" else f"{UNKNOWN}{word[2:]}"
        variants = _with_braces(word)
        return _limit_values([each for variant in variants[: MAX_VALUES + 1] for each in self._substitute(variant)])

    def expand_at(self, invocation: Invocation, at: int) -> list[str]:
        """Return what a word of a command may stand for."""
        return self.expand(invocation.words[at], unknown=at in invocation.unknown)

    def through_link(self, word: str) -> str:
        """Return where a path leads through a link that the line makes: `ln -s / x; rm -rf x/`."""
        name, slash, rest = word.removeprefix("./").partition("/")
        for each in self.found if slash else ():
            if each.name == "ln" and each.words[-1].removeprefix("./") == name and len(each.words) > 2:
                return f"{each.words[-2]}/{rest}".replace("${HOME}", "$HOME")
        return word

    def _assigned_values(self, invocation: Invocation, value: str | None) -> tuple[str, ...]:
        """Return what a command may put into a variable."""
        if value is None:
            return self._from_others()
        if invocation.name in DECLARES and any(map(_CHANGES_VALUE.fullmatch, invocation.words)):
            return (UNKNOWN,)
        if value.startswith("("):
            return tuple(split_words(value[1:].removesuffix(")")))
        return (value,) if value else ()

    def _learn(self, name: str, values: tuple[str, ...]) -> None:
        self.values[name] = (*self.values.get(name, ()), *(value.strip("'\"") for value in values))

    def _enter(self, invocation: Invocation) -> None:
        operands = [at for at, word in enumerate(invocation.words) if at and word not in {"-L", "-P", "-e", "-@", "--"}]
        entered = tuple(self._places(invocation, operands[0])) if operands else ("~",)
        # What stands in a subshell or a condition may hold for what follows, or not.
        self.folders = tuple(dict.fromkeys((*self.folders, *entered) if invocation.nested else entered))

    def _chosen_folders(self, invocation: Invocation) -> Iterator[str]:
        """Yield where an option makes a program work: `-C x`, `-Cx`, `-xzC x`, `--directory=x`."""
        for at, word in enumerate(invocation.words[1:], start=1):
            match = _FOLDER_OPTION.fullmatch(word)
            if match is not None and match["value"]:
                yield from self._joined_to_folders(self.expand(match["value"], unknown=at in invocation.unknown))
            elif match is not None and at + 1 < len(invocation.words):
                yield from self._places(invocation, at + 1)

    def _places(self, invocation: Invocation, at: int) -> Iterator[str]:
        yield from self._joined_to_folders(self.expand_at(invocation, at))

    def _joined_to_folders(self, words: Sequence[str]) -> Iterator[str]:
        for folder in self.folders:
            for word in words:
                yield UNKNOWN if word in {"-", "+1", "-1"} else join_path(folder, word)

    def _substitute(self, word: str, depth: int = 0) -> list[str]:
        self.expansions += 1
        if self.expansions > MAX_EXPANSIONS:
            return [UNKNOWN]  # variables that hold each other many times over: not written by hand
        parts: list[tuple[str, ...]] = []
        for piece in pieces_of(word):
            parts += [(piece.literal,), *((self._value(piece.expansion, depth),) if piece.expansion else ())]
        found = ["".join(each) for each in islice(product(*parts), MAX_VALUES + 1)]
        return _limit_values(found) if all(len(each) <= MAX_PATH_CHARS for each in found) else [UNKNOWN]

    def _value(self, expansion: str, depth: int) -> tuple[str, ...]:
        if expansion.startswith(("$(mktemp", "`mktemp")):
            return ("/tmp/made",)  # noqa: S108 - a folder of the command's own
        if expansion in {"$(pwd)", "`pwd`"}:
            return self.folders
        if expansion.startswith("$(git rev-parse --show-toplevel"):
            return (".",)
        if date := _DATE.fullmatch(expansion):
            return (re.sub(r"%.", "0", date["form"]),)
        if expansion.startswith(("$(", "`")):
            return self._from_others()
        parameter = parameter_in(expansion)
        if parameter is None:
            return (UNKNOWN,)
        found = self._values_of(parameter.name, depth)
        if parameter.indirect:
            found = [
                each for name in found for each in (self._values_of(name, depth) if name.isidentifier() else [UNKNOWN])
            ]
        how = re.match(r":?[-=?+]", parameter.rest)
        other = parameter.rest[how.end() :].strip("'\"") if how else ""
        match how[0].lstrip(":") if how else "":
            case "-" | "=":
                found += self._substitute(other, depth + 1)
            case "+":
                found = [*self._substitute(other, depth + 1), ""]
            case "?":
                found = found or [UNKNOWN]
            case _ if parameter.rest:
                found = [apply_form(each, parameter.rest, every=parameter.every) for each in found]
            case _:
                pass
        return tuple(_limit_values(found)) or self._from_others(unset=parameter.name not in self._read())

    def _values_of(self, name: str, depth: int) -> list[str]:
        """Return what a variable may hold."""
        match name:
            case "HOME":
                return ["~"]
            case "PWD":
                return list(self.folders)
            case "TMPDIR":
                return ["/tmp/made"]  # noqa: S108 - a folder of the command's own
            case _:
                values = self.values.get(name, ())
                return [each for v in values for each in (self._substitute(v, depth + 1) if depth < 3 else [UNKNOWN])]

    def _read(self) -> set[str]:
        return {word for each in self.found if each.name == "read" for word in each.words[1:] if word.isidentifier()}

    def _from_others(self, *, unset: bool = False) -> tuple[str, ...]:
        """Return what other commands of the line may name: files of this folder, or anything."""
        if vital := vital_in(self.text):
            return vital
        piped = any(each.connector is Connector.PIPE for each in self.found)
        others = (each for each in self.found if each is not self.current)
        if unset or not all(_names_files_here(each, piped=piped) for each in others):
            return (UNKNOWN,)
        return ("named",)

    def _what_find_finds(self) -> list[str]:
        roots = [
            place
            for each in self.found
            if each.name == "find" and set(each.words) & {"-exec", "-execdir", "-ok", "-okdir"}
            for at in find_roots(each.words)
            for place in self.expand_at(each, at)
        ]
        # Below a root, not the root itself: `find . -name build -exec rm -rf {} +`.
        named = GIT_FOLDER if any(GIT.fullmatch(word) for each in self.found for word in each.words) else "named"
        return [f"{root}/{named}" for root in roots] if roots else list(self._from_others())


def _limit_values(values: list[str]) -> list[str]:
    return values if len(values) <= MAX_VALUES else [*values[:MAX_VALUES], UNKNOWN]


def find_roots(words: Sequence[str]) -> list[int]:
    """Return the positions of the folders that `find` begins at."""
    roots: list[int] = []
    for at, word in enumerate(words[1:], start=1):
        if word in _FIND_STARTS:
            continue
        if word.startswith(("-", "(", "!", "\\(")):
            break
        roots.append(at)
    return roots


def _names_files_here(invocation: Invocation, *, piped: bool) -> bool:
    """Tell whether what a command says, if anything, are names of files in the folder that it works in."""
    if any(redirect.operator.startswith("<") for redirect in invocation.redirects):
        return False
    name, words = invocation.name, invocation.words[1:]
    said = [word for word in words if not word.startswith("-")]
    match name:
        case "" | "rm":
            return True
        case "read" | "xargs" if not piped or (name == "xargs" and any(map(_ARGUMENT_FILE.fullmatch, words))):
            return False
        case "sort" | "uniq" if said:
            return False
        case "grep" | "rg" if not _LISTS_FILES.intersection(words) and (len(said) > 1 or name == "rg"):
            return False
        case "git" if _GIT_SAYS.intersection(said):
            return False
        case "echo" | "printf" | "find" if any("\\" in word for word in words):
            return False
        case _:
            pieces = [piece for word in words for piece in word.split()]
            return name in _NAMES_FILES and not any(
                piece.startswith(("/", "~", "$")) or ".." in piece.split("/") for piece in pieces
            )


def _with_braces(word: str) -> list[str]:
    """Return the words that `{a,b}` stands for."""
    match = re.search(r"(?<!\$)\{([^{}]*,[^{}]*)\}", word)
    if match is None:
        return [word]
    return [
        each
        for part in match[1].split(",")
        for each in _with_braces(word[: match.start()] + part + word[match.end() :])
    ][:64]


# What bash puts in place of `$x`, `${x#y}`, `$(…)` and their like: finding them in a word, and working them out.
#
# What cannot be worked out is UNKNOWN, never the text as it stands.
_NAME: Final = re.compile(r"\w+|[@*#?$!-]")
_PARAMETER: Final = re.compile(
    r"(?P<sign>[!#]?)(?P<name>\w+|[@*])(?:\[(?P<index>[^\]]*)\])?(?P<rest>.*)|(?P<special>[#?$!-])", re.DOTALL
)
_FORM: Final = re.compile(r"(?P<how>##?|%%?|//?|:)(?P<rest>.*)", re.DOTALL)
_CLOSERS: Final = {"${": "}", "$(": ")"}
_PATTERN: Final = frozenset("*?[")


MAX_FORM_CHARS: Final = 256
"""Of a value, and of what is done with it; beyond that, nothing is worked out."""


class Parameter(NamedTuple):
    """An expansion of a variable, taken apart."""

    name: str
    indirect: bool
    """The variable holds the name of another one."""
    every: bool
    """It stands for all elements of a list."""
    rest: str
    """What is done with the value: `#x`, `:-y`."""


class Piece(NamedTuple):
    """A part of a word."""

    literal: str
    expansion: str
    """What follows it; empty at the end."""


def pieces_of(word: str) -> Iterator[Piece]:
    """Take a word apart into literal text and expansions; what is not closed reaches to the end."""
    start = at = 0
    while (at := _next_sign(word, at)) >= 0:
        end = _end_of(word, at)
        if end > at + 1:
            yield Piece(word[start:at], word[at:end])
            start = end
        at = end
    yield Piece(word[start:], "")


def parameter_in(expansion: str) -> Parameter | None:
    """Take `$x` or `${…}` apart; None: it is neither, or says nothing that is known before it runs."""
    inner = expansion[1:]
    if inner.startswith("{"):
        if not inner.endswith("}"):
            return None
        inner = inner[1:-1]
    match = _PARAMETER.fullmatch(inner)
    if match is None or match["special"] or match["sign"] == "#":
        return None
    every = match["name"] in {"@", "*"} or match["index"] in {"@", "*"}
    return Parameter(match["name"], match["sign"] == "!", every, match["rest"])


def apply_form(value: str, form: str, *, every: bool) -> str:
    """Return what `#x`, `%x`, `/x/y` or `:n` makes of a value.

    The start of a path below the workspace stays there, so cutting something off its end needs no exact value.
    """
    match = _FORM.fullmatch(form)
    if match is None:
        return UNKNOWN
    how, rest = match["how"], match["rest"]
    if how == ":" and every:
        return value  # some of the elements
    home, here = value.startswith("~"), value == "." or value.startswith("./")  # `$PWD` is written so as well
    exact = not home and not here and not _PATTERN.intersection(value) and UNKNOWN not in value
    exact = exact and not set("$`\\\"'").intersection(rest) and max(len(value), len(rest)) <= MAX_FORM_CHARS
    if exact:
        return _worked_out(value, how, rest)
    if how[0] == "%" and not here and not value.startswith(("/", UNKNOWN)):
        return value if not home or "/" not in value else UNKNOWN
    return UNKNOWN


def _worked_out(value: str, how: str, rest: str) -> str:
    match how:
        case "#" | "##":
            ends = range(len(value) + 1) if how == "#" else range(len(value), -1, -1)
            return next((value[end:] for end in ends if fnmatchcase(value[:end], rest)), value)
        case "%" | "%%":
            starts = range(len(value), -1, -1) if how == "%" else range(len(value) + 1)
            return next((value[:start] for start in starts if fnmatchcase(value[start:], rest)), value)
        case "/" | "//":
            old, _, new = rest.partition("/")
            if not old or old[0] in "#%" or _PATTERN.intersection(old):
                return UNKNOWN
            return value.replace(old, new, 1 if how == "/" else -1)
        case _:
            numbers = re.fullmatch(r"\s*(-?\d{1,4})\s*(?::\s*(-?\d{1,4})\s*)?", rest)
            if numbers is None:
                return UNKNOWN
            cut = value[int(numbers[1]) :]
            return cut[: int(numbers[2])] if numbers[2] else cut


def _next_sign(word: str, at: int) -> int:
    found = [place for place in (word.find("$", at), word.find("`", at)) if place >= 0]
    return min(found, default=-1)


def _end_of(word: str, at: int) -> int:
    """Return where the expansion ends that starts here; the next place if none does."""
    if word[at] == "`":
        end = word.find("`", at + 1)
        return end + 1 if end >= 0 else len(word)
    closer = _CLOSERS.get(word[at : at + 2])
    if closer is None:
        match = _NAME.match(word, at + 1)
        return match.end() if match else at + 1
    opener, depth = word[at + 1], 0
    for place in range(at + 1, len(word)):
        depth += (word[place] == opener) - (word[place] == closer)
        if not depth:
            return place + 1
    return len(word)


def split_words(text: str) -> list[str]:
    """Split a text at blanks that stand neither in quotes nor in a substitution; quotes around a word are removed."""
    found, word, depth, quote = list[str](), "", 0, ""
    for sign in text:
        if sign.isspace() and not depth and not quote:
            found += [word] if word else []
            word = ""
            continue
        if sign in "'\"`" and quote in {"", sign}:
            quote = "" if quote else sign
        elif not quote:
            depth += (sign in "({") - (sign in ")}" and depth > 0)
        word += sign
    return [each.strip("'\"") for each in [*found, word] if each]
