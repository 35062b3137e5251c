"""Commands that run what their line downloads: from a pipe, in a substitution, or as a file that was just saved."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names

_DOWNLOADS: Final = names(
    "curl wget aria2c axel lynx w3m links http https xh httpie fetch nc ncat netcat socat ftp lftp tftp scp sftp"
)
_RUNS_CODE: Final = re.compile(
    r"(?:ba|da|z|k|mk|a|c|tc|fi)?sh|source|\.|eval|(?:python|pypy|ipython|perl|ruby|irb|node|deno|bun|php|lua|tclsh|julia"
    r"|pwsh|R|Rscript|osascript|groovy|elixir|swift|scala)[0-9.]*"
)
_CODE_OPTION: Final = re.compile(r"-[A-Za-z]*[cepr]|--(?:eval|print|command|run)|eval")
_DATA_OPTION: Final = re.compile(r"-m|-[A-Za-z]*[cepn]|--(?:eval|print|command|version|help)|eval")
"""With it the input is no code."""
_SUBSTITUTION: Final = ("$(", "`", "<(", "/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_SAVES: Final = re.compile(r"-[A-Za-z]*[oO](?P<value>.*)|--output(?:-document)?(?:=(?P<long>.*))?", re.DOTALL)


def downloads_in(found: Sequence[Invocation]) -> list[Invocation]:
    """Return the commands of a line that download something."""
    return [each for each in found if each.name in _DOWNLOADS]


def runs_download(invocation: Invocation, found: Sequence[Invocation]) -> bool:
    """Tell whether a command runs something that another one of its line downloads."""
    downloads = downloads_in(found)
    if not downloads or not invocation.words or invocation.name in _DOWNLOADS:
        return False
    passed_on = [each for each in found if any(feed.name in _DOWNLOADS for feed in each.fed_by)]
    saved = {name for each in (*downloads, *passed_on) for name in _saved_as(each)}
    runs_code = _RUNS_CODE.fullmatch(invocation.name) is not None
    candidates = invocation.words[1:] if runs_code else invocation.words[:1] if "/" in invocation.program else ()
    if any(_base(word) in saved for word in candidates):
        return True
    if not runs_code or not any(each.name in _DOWNLOADS for each in invocation.fed_by):
        return False
    return _reads_code(invocation)


def _reads_code(invocation: Invocation) -> bool:
    """Tell whether the code of an interpreter comes from its input or a substitution."""
    words = invocation.words[1:]
    for at, word in enumerate(words):
        if word.startswith(_SUBSTITUTION) and (at == 0 or words[at - 1].startswith("-") or words[at - 1] == "eval"):
            return not (at and _DATA_OPTION.fullmatch(words[at - 1]) and not _CODE_OPTION.fullmatch(words[at - 1]))
    operands = [word for word in words if not word.startswith("-")]
    return not operands and not any(map(_DATA_OPTION.fullmatch, words))


def _saved_as(invocation: Invocation) -> Iterator[str]:
    """Yield the names of the files that a download is saved as."""
    words = invocation.words
    if invocation.name == "tee":
        yield from map(_base, words[1:])
    for at, word in enumerate(words[1:] if invocation.name in _DOWNLOADS else (), start=1):
        if match := _SAVES.fullmatch(word):
            value = match["value"] or match["long"] or (words[at + 1] if at + 1 < len(words) else "")
            yield _base(value)
        if "://" in word or invocation.name in {"wget", "scp", "sftp", "aria2c", "axel"}:
            yield _base(word.partition("?")[0])
    yield from (_base(each.target) for each in invocation.redirects if each.writes_file)


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or "\0"
