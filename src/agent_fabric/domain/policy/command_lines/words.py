"""Words: quotes, escapes and expansions. The commands inside of substitutions are read on the way."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from agent_fabric.domain.policy.command_lines.invocation import Invocation, UnfinishedCommand, UnparsableCommand
from agent_fabric.domain.policy.command_lines.source import Source

ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<index>\[[^\]]*\])?\+?=", re.DOTALL)

_ENDS = frozenset(" \t\n;&|()<>")
"""What ends a word unless it is quoted."""
_WHOLE = re.compile(r"[A-Za-z0-9_./:=,@%+-]+(?=[ \t\n;|)]|\Z)")
"""Most words: nothing in them is special, so there is nothing to look at piece by piece."""
_PLAIN = re.compile(r"[^ \t\n;&|()<>\\'\"$`]+")
_PLAIN_QUOTED = re.compile(r"[^\"\\$`]+")
_PLAIN_PARAMETER = re.compile(r"[^}'\"\\$`<>]+")
_PLAIN_ARITHMETIC = re.compile(r"[^()'\"\\$`]+")
_NUMBERS = re.compile(r"[0-9 \t+*/%()<>=!&|-]*")
_WORKED_OUT = re.compile(r"\$\{[!#]?[A-Za-z0-9_@*]+(?:\[(?![0-9@*]+\])|:(?![-=+?]))|\$\{!")
"""An index or a place in a text that is not a plain number, or a name that another variable holds."""
_CODE = re.compile(r"\$[\\'\"]*\(|`")
"""A command substitution; arithmetic sees it also behind quotes."""
_PATTERN = re.compile(r"[*?\[{~]")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_BACKTICKED = re.compile(r"`([^`\\]*(?:\\.[^`\\]*)*)`", re.DOTALL)
_ANSI_C = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Word(NamedTuple):
    """A word without its quotes."""

    text: str
    plain: int
    """How many characters at the start are neither quoted nor expanded."""
    unknown: bool
    """Its value is only known at run time."""
    quoted: bool
    """Some part of it stands in quotes or behind a backslash."""
    splits: bool = False
    """It may turn out to be several words, or none."""
    code: bool = False
    """It holds, as mere text, what would be a command substitution: `'$(x)'`."""

    def assigns(self) -> re.Match[str] | None:
        """Match the name and sign of an assignment, if in front of a program this word is one."""
        match = ASSIGNMENT.match(self.text)
        if match and self.plain > match.end("name") and (match["index"] or self.plain >= match.end()):
            return match
        return None


class _Piece(NamedTuple):
    text: str
    expanded: bool


def required_word(source: Source, what: str) -> Word:
    """Read a word that has to stand here; what it would be is told if there is none."""
    sign = source.sign()
    if not sign or (sign in _ENDS and not source.sees_process()):
        raise UnparsableCommand(f"{what} is missing")
    if sign == "#":
        raise UnparsableCommand(f"a comment stands where {what} should")
    return read_word(source)


def read_word(source: Source) -> Word:
    """Read the word that starts here."""
    if whole := source.match(_WHOLE):
        return Word(whole[0], len(whole[0]), unknown=False, quoted=False)
    start = source.at
    pieces: list[str] = []
    plain = size = 0
    unknown = quoted = patterned = splits = code = False
    while source.at < len(source.text):
        if match := source.match(_PLAIN):
            text, expanded, literal = match[0], False, True
            patterned = patterned or _PATTERN.search(text) is not None
        else:
            sign = source.text[source.at]
            if sign in "<>" and source.sees_process():
                text, expanded = _substitution(source)
            elif sign == "(" and not quoted and not unknown and ASSIGNMENT.fullmatch("".join(pieces)):
                text, expanded = _array(source)
            elif sign in _ENDS:
                break
            else:
                text, expanded = _special(source, sign, quoted=False)
            literal = not text and sign == "\\"  # a backslash that only joins two lines
            quoted = quoted or (not literal and not expanded)
            splits = splits or (expanded and _may_split(sign, text))
            code = code or (not expanded and holds_code(text))
        plain += len(text) if literal and plain == size else 0
        size += len(text)
        pieces.append(text)
        unknown = unknown or expanded
    if source.at == start:
        raise source.refusal()
    word = "".join(pieces)
    source.seen.code = source.seen.code or code
    patterned = patterned and is_pattern(word)
    return Word(word, plain, unknown or patterned, quoted, splits or (patterned and not word.startswith("~")), code)


def holds_code(text: str) -> bool:
    """Tell whether a text would be a command substitution if bash looked at it again."""
    return _CODE.search(text) is not None


def _may_split(sign: str, text: str) -> bool:
    """Tell whether what starts with a sign can turn out to be another number of words than one."""
    if sign in "<>(":
        return False
    if sign == '"':
        return "@" in text
    return not text.startswith("$((") and text not in {"$#", "$?", "$$", "$!", "$-"}


def is_pattern(word: str) -> bool:
    """Tell whether unquoted signs in a word make bash replace it: a glob, braces or a home folder."""
    if word in {"[", "[["}:
        return False
    braces = "{" in word and ("," in word or ".." in word)
    return braces or word.startswith("~") or any(sign in word for sign in "*?[")


def expands(source: Source) -> bool:
    """Read the whole text as the body of a heredoc; tell whether there is anything to expand."""
    return _double_quoted(source, closed=False).expanded


# ── quotes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _special(source: Source, sign: str, *, quoted: bool) -> _Piece:
    """Read what starts with a quote, a backslash, a dollar or a backtick."""
    match sign:
        case "\\":
            return _Piece(_read_escape(source), expanded=False)
        case "'":
            return _Piece(_single_quoted(source), expanded=False)
        case '"':
            source.at += 1
            return _double_quoted(source, closed=True)
        case "$":
            return _dollar(source, quoted=quoted)
        case _:
            return _read_backticks(source, quoted=False)


def _read_escape(source: Source) -> str:
    source.at += 2
    if source.at > len(source.text):
        raise UnfinishedCommand("it ends with a backslash")
    sign = source.text[source.at - 1]
    return "" if sign == "\n" else sign


def _single_quoted(source: Source) -> str:
    start = source.at + 1
    end = source.text.find("'", start)
    if end < 0:
        raise UnfinishedCommand("a single quote is not closed")
    source.at = end + 1
    return source.text[start:end]


def _double_quoted(source: Source, *, closed: bool) -> _Piece:
    """Read up to the closing quote, or a heredoc's body to its end."""
    pieces: list[str] = []
    unknown = False
    while source.at < len(source.text):
        if match := source.match(_PLAIN_QUOTED):
            pieces.append(match[0])
            continue
        text, expanded = "", False
        match source.text[source.at]:
            case '"':
                source.at += 1
                if closed:
                    return _Piece("".join(pieces), unknown)
                text = '"'
            case "\\":
                text = _escaped_in_quotes(source, '$`\\\n"' if closed else "$`\\\n")
            case "$":
                text, expanded = _dollar(source, quoted=True)
            case _:
                text, expanded = _read_backticks(source, quoted=closed)
        pieces.append(text)
        unknown = unknown or expanded
    if closed:
        raise UnfinishedCommand("a double quote is not closed")
    return _Piece("".join(pieces), unknown)


def _escaped_in_quotes(source: Source, escapable: str) -> str:
    following = source.text[source.at + 1 : source.at + 2]
    source.at += 1 + len(following)
    if following and following in escapable:
        return following.strip("\n")
    return "\\" + following


def _ansi_c(source: Source) -> str:
    match = source.match(_ANSI_C)
    if not match:
        raise UnfinishedCommand("a $' quote is not closed")
    text = _ANSI_ESCAPE.sub(_ansi_character, match[1])
    if "\0" in text:
        raise UnparsableCommand("a $' quote contains a NUL character")
    return text


def _ansi_character(match: re.Match[str]) -> str:
    two, four, eight, octal, control, letter = match.groups()
    if digits := two or four or eight:
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise UnparsableCommand("a $' quote contains an impossible character")
        return chr(code)
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control) & 0x1F)
    return _ANSI_LETTERS.get(letter, letter if letter in "\\'\"?" else "\\" + letter)


# ── expansions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _dollar(source: Source, *, quoted: bool) -> _Piece:
    start = source.at
    if source.skip("$(("):
        read_arithmetic(source)
        return _Piece(source.text[start : source.at], expanded=True)
    match source.text[start + 1 : start + 2]:
        case "(":
            return _substitution(source)
        case "{":
            return _parameter(source, quoted=quoted)
        case "[":
            raise UnparsableCommand("$[ is not supported; use $((…)), or quote it")
        case "\\" if source.sees("$\\\n"):
            raise UnparsableCommand("a line ends between $ and what belongs to it")
        case "'" if not quoted:
            return _Piece(_ansi_c(source), expanded=False)
        case '"' if not quoted:
            source.at += 2
            return _double_quoted(source, closed=True)
        case _:
            if variable := source.match(_VARIABLE):
                return _Piece(variable[0], expanded=True)
            source.at += 1
            return _Piece("$", expanded=False)


def _substitution(source: Source) -> _Piece:
    """Read `$(…)`, `<(…)` or `>(…)`."""
    start = source.at
    source.at += 2
    with source.apart():
        source.read_commands(source)
        source.take(")")
    return _Piece(source.text[start : source.at], expanded=True)


def _read_backticks(source: Source, *, quoted: bool) -> _Piece:
    match = source.match(_BACKTICKED)
    if not match:
        raise UnfinishedCommand("a backtick is not closed")
    if "#" in match[1] or (quoted and '\\"' in match[1]):
        raise UnparsableCommand("what stands in backticks is too involved; use $(…)")
    source.inside(re.sub(r"\\([$`\\])", r"\1", match[1])).read_all()
    return _Piece(match[0], expanded=True)


def _parameter(source: Source, *, quoted: bool) -> _Piece:
    start = source.at
    source.at += 2
    if source.sign() in {"", " ", "\t", "\n", "|"}:
        raise UnparsableCommand("${ is followed by no name")
    with source.deeper():
        while not source.skip("}"):
            if source.at >= len(source.text):
                raise UnparsableCommand("${ is not closed")
            if not source.match(_PLAIN_PARAMETER):
                _parameter_sign(source, source.text[source.at], quoted=quoted)
    if _WORKED_OUT.match(source.text, start, source.at):
        source.seen.arithmetic = True
    if source.text.endswith("@P}", start, source.at):
        raise UnparsableCommand("${…@P} runs what a variable holds")
    return _Piece(source.text[start : source.at], expanded=True)


def _parameter_sign(source: Source, sign: str, *, quoted: bool) -> None:
    if sign in "<>":
        if source.sees_process():
            raise UnparsableCommand("a process substitution stands in ${…}")
        source.at += 1
    elif sign == "'" and quoted:
        raise UnparsableCommand("a single quote stands in a quoted ${…}")
    else:
        _refuse_late(_special(source, sign, quoted=quoted))


def _refuse_late(piece: _Piece) -> None:
    """Refuse text that arithmetic would read once more: an index such as `'a[$(x)]'` runs `x`."""
    if not piece.expanded and holds_code(piece.text):
        raise UnparsableCommand("what looks like a substitution is only text, but may be run")


def read_arithmetic(source: Source) -> None:
    """Read up to the closing `))`; parentheses that are nested subshells instead are refused."""
    start, opened = source.at, 0
    with source.apart():
        while source.at < len(source.text):
            if source.match(_PLAIN_ARITHMETIC):
                continue
            sign = source.text[source.at]
            if sign == "'":
                raise UnparsableCommand("a single quote stands in ((…))")
            if sign == "\\" and not source.sees("\\\n"):
                raise UnparsableCommand("a backslash stands in ((…))")
            if sign not in "()":
                _refuse_late(_special(source, sign, quoted=True))
                continue
            source.at += 1
            if sign == ")" and not opened:
                if not source.skip(")"):
                    raise UnparsableCommand("(( opens two subshells; put a space between the parentheses")
                source.seen.arithmetic = source.seen.arithmetic or not _NUMBERS.fullmatch(source.text, start, source.at)
                return
            opened += 1 if sign == "(" else -1
    raise UnparsableCommand("(( is not closed")


def _array(source: Source) -> _Piece:
    start = source.at
    source.at += 1
    with source.apart():
        source.skip_lines()
        while not source.skip(")"):
            required_word(source, "the end of an array")
            source.skip_lines()
    return _Piece(source.text[start : source.at], expanded=True)


# Variables that a command sets, in whichever way.
DECLARES = frozenset({"declare", "export", "local", "readonly", "typeset"})
_FILLS = {
    "read": "",
    "mapfile": "",
    "readarray": "",
    "getopts": "",
    "printf": "-v",
    "let": "",
    "unset": "",
    "wait": "-p",
}
"""Builtins that put a value into a variable they name, and the option behind which they name it."""


def assignments(invocation: Invocation) -> Iterator[tuple[str, str | None]]:
    """Yield the variables that a command sets, with their values where they can be read."""
    yield from invocation.assignments
    name, words = invocation.name, invocation.words
    if name in DECLARES or name in {"env", "sudo", "doas"}:
        for at, word in enumerate(words[1:], start=1):
            if match := ASSIGNMENT.match(word):
                yield match["name"], word[match.end() :]
            elif at in invocation.unknown and name in DECLARES:
                yield "", None
            elif name in DECLARES and not word.startswith("-"):
                yield word, ""
    elif name in _FILLS:
        option = _FILLS[name]
        for at, word in enumerate(words[1:], start=1):
            if not option or words[at - 1] == option or (word.startswith(option) and word != option):
                target = word.removeprefix(option) if option else word
                yield re.split(r"[\[=+]", target, maxsplit=1)[0], None
