"""Which internal tools a shell command stands for, and which files and hosts it names (FC-035).

`cat FILE` reads a file as `read_file` does, `ls` lists as `list_files` does, `> FILE` writes as `write_file` does. A
program that is not in the tables stands for the shell only.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.globs import hosts_in

_READ: Final = frozenset({"read_file"})
_LIST: Final = frozenset({"list_files"})
_SEARCH: Final = frozenset({"search_files", "read_file"})
_WRITE: Final = frozenset({"write_file"})
_EDIT: Final = frozenset({"edit_file", "write_file", "read_file"})
_FETCH: Final = frozenset({"fetch_url"})
_SHELL: Final = frozenset[str]()
RUN_COMMAND: Final = frozenset({"run_command"})
"""What a command stands for that is no internal tool."""

_TOOLS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        names(
            "cat tac head tail less more most view bat batcat nl od xxd hexdump hd strings wc sort uniq cut paste "
            "join comm diff sdiff colordiff cmp md5sum sha1sum sha224sum sha256sum sha384sum sha512sum cksum b2sum sum "
            "base64 base32 rev fold fmt pr expand unexpand column zcat zless zmore bzcat xzcat gunzip jq yq awk gawk "
            "mawk nawk sed source . file stat readlink realpath iconv shuf tsort look pv xmllint zdiff zcmp zstdcat "
            "lz4cat b3sum hexyl nm objdump readelf size zipinfo"
        ),
        _READ,
    ),
    **dict.fromkeys(names("ls dir vdir tree exa eza lsd find fd fdfind du"), _LIST),
    **dict.fromkeys(names("grep egrep fgrep zgrep rg ag ack"), _SEARCH),
    **dict.fromkeys(names("tee touch truncate"), _WRITE),
    **dict.fromkeys(
        names(
            "cp mv install ln dd rsync tar zip 7z split pandoc gzip bzip2 bunzip2 xz unxz zstd unzstd lz4 brotli "
            "compress uncompress"
        ),
        _READ | _WRITE,
    ),
    **dict.fromkeys(names("patch ed ex vi vim nvim nano emacs"), _EDIT),
    **dict.fromkeys(names("curl wget aria2c lynx w3m links http https xh"), _FETCH),
    **dict.fromkeys(names("rm rmdir mkdir unlink shred chmod chown chgrp cd pushd"), _SHELL),
}
_VALUED: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(names("head tail"), names("-n -c --lines --bytes")),
    "cut": names("-d -f -c -b --delimiter --fields --characters --bytes"),
    "paste": names("-d --delimiters"),
    "sort": names("-k -t -S -T --key --field-separator"),
    "uniq": names("-f -s -w"),
    "join": names("-t -1 -2 -j -o -e"),
    **dict.fromkeys(names("diff sdiff colordiff"), names("-U -C -x -I -W -L --exclude --label")),
    "od": names("-A -j -N -S -t"),
    "xxd": names("-c -g -l -s -o"),
    **dict.fromkeys(names("hexdump hd"), names("-n -s -e")),
    "strings": names("-n -e -t"),
    **dict.fromkeys(names("base64 base32 fold fmt"), names("-w --wrap --width")),
    **dict.fromkeys(names("grep egrep fgrep zgrep"), names("-A -B -C -m --max-count --context")),
    **dict.fromkeys(names("rg ag"), names("-A -B -C -m -g -G -t -T --glob --type --max-count --context")),
    **dict.fromkeys(names("awk gawk mawk nawk"), names("-F -v")),
    **dict.fromkeys(names("ls dir vdir"), names("-I -w --ignore --hide")),
    "tree": names("-L -P -I --filelimit"),
    "du": names("-d -B --max-depth --exclude"),
    "stat": names("-c --format"),
    "touch": names("-d -t --date"),
    "truncate": names("-s --size"),
    **dict.fromkeys(names("mkdir install"), names("-m --mode")),
    "iconv": names("-f -t --from-code --to-code"),
    "pandoc": names("-f -t -r -w --from --to"),
    "shuf": names("-n -i --head-count"),
    "split": names("-a -b -C -l -n"),
    "xmllint": names("--xpath"),
}
"""Options whose value is always the next word, and no file. What is missing here is taken for a file, which is safe."""
_EXPRESSION_FIRST: Final = names("grep egrep fgrep zgrep rg ag ack awk gawk mawk nawk sed jq yq")
"""The first operand is an expression, unless an option gives one: `-e x`, `-f FILE`."""
_MODE_FIRST: Final = names("chmod chown chgrp fd fdfind 7z")
_HERE: Final = names("ls dir vdir tree exa eza lsd find fd fdfind du rg ag ack")
"""Without an operand, these use the current folder."""
_NETWORK: Final = names(
    "curl wget aria2c lynx w3m links http https xh ssh scp sftp rsync nc ncat netcat telnet ftp ping ping6 dig host "
    "nslookup whois traceroute"
)
_PLAIN_WORDS: Final = names("echo printf git test [ true false :")
"""Their words are no paths, unless they lead out of the workspace."""
_MOVES: Final = names("cd pushd popd")
_CHANGES_FOLDER: Final = ("-C", "--chdir", "-D", "--directory", "--cwd")


class Use(NamedTuple):
    """What a command uses, as far as its words tell."""

    tools: frozenset[str]
    """Internal tools that do the same."""
    paths: tuple[str, ...]
    """Files and folders; patterns with `*` are among them."""
    hidden: bool
    """A further path is only known at run time."""


def use_of(invocation: Invocation) -> Use:
    """Return what a command does to files, including its redirects."""
    found = list(file_words(invocation))
    tools = set(_TOOLS.get(invocation.name, _SHELL)) if found or invocation.name in _NETWORK else set[str]()
    if found and edits_in_place(invocation):
        tools |= _EDIT
    for redirect in (each for each in invocation.redirects if each.names_file):
        tools |= _READ if redirect.operator == "<" else _WRITE
        found.append((redirect.target, redirect.unknown))
    paths = tuple(path for path, unknown in found if not unknown or _is_pattern(path))
    hidden = any(unknown and not _is_pattern(path) for path, unknown in found)
    return Use(frozenset(tools) or RUN_COMMAND, paths, hidden)


def tools_of(invocation: Invocation) -> frozenset[str]:
    """Return the internal tools that do what a program does with the files that it names."""
    return _TOOLS.get(invocation.name, _SHELL)


def hosts_of(invocation: Invocation) -> tuple[list[str], bool]:
    """Return the hosts that a command names, and whether another one is only known at run time."""
    network = invocation.name in _NETWORK
    words = invocation.words[1:]
    hosts = hosts_in(word for word in words if network or "://" in word)
    return hosts, network and any(at for at in invocation.unknown)


def changes_folder(invocation: Invocation) -> bool:
    """Tell whether relative paths mean something else after or inside a command."""
    return invocation.name in _MOVES or (
        invocation.name in {"env", "sudo", "make", "git", "tar"}
        and any(word.startswith(_CHANGES_FOLDER) for word in invocation.words[1:])
    )


_GOES_BELOW: Final = names("rg ag ack tar zip 7z rsync find fd fdfind tree du")
_GOES_BELOW_WITH: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys(
        names("grep egrep fgrep zgrep"),
        re.compile(r"-[A-Za-z]*[rR].*|--(?:dereference-)?recursive|--directories=recurse"),
    ),
    **dict.fromkeys(names("ls dir vdir"), re.compile(r"-[A-Za-z]*R.*|--recursive")),
    "cp": re.compile(r"-[A-Za-z]*[rRa].*|--recursive|--archive"),
    "diff": re.compile(r"-[A-Za-z]*r.*|--recursive"),
}
"""Options with which these programs go through folders."""
_GIT_READS: Final = names(
    "annotate apply archive blame bundle cat-file checkout diff difftool format-patch grep log restore show stash"
)
_OPENS_BY_CODE: Final = names("awk gawk mawk nawk sed")
_PIECES: Final = re.compile(r"""[^\s'"`()<>,=:;|&\[\]{}]+""")


def folders_read(invocation: Invocation) -> tuple[str, ...]:
    """Return the folders that a command uses with everything below."""
    name, words = invocation.name, invocation.words
    if name == "git":
        return (".",) if {"grep", "archive"} & set(words) else ()
    option = _GOES_BELOW_WITH.get(name)
    below = name in _GOES_BELOW or (option is not None and any(map(option.fullmatch, words[1:])))
    return tuple(path for path, _ in file_words(invocation)) if below else ()


def named_in(invocation: Invocation) -> Iterator[str]:
    """Yield what may name a file that a program opens of which no more is known: `HEAD:x`, a string in code."""
    name, words = invocation.name, invocation.words
    if name == "git":
        if not _GIT_READS.intersection(words):
            return
    elif name in _PLAIN_WORDS or (name in _TOOLS and name not in _OPENS_BY_CODE):
        return
    for word in words[1:]:
        yield from _PIECES.findall(word)


def file_words(invocation: Invocation) -> Iterator[tuple[str, bool]]:
    """Yield the words that are paths, and whether each is only known at run time."""
    words, name = invocation.words, invocation.name
    if "/" in invocation.program and not invocation.program.startswith("/"):
        yield invocation.program, False
    if name not in _TOOLS:
        for at, word in enumerate(words[1:], start=1):
            path = word.partition("=")[2] if word.startswith("-") else word
            if _looks_like_path(path, plain_words=name in _PLAIN_WORDS):
                yield path, at in invocation.unknown
        return
    places = _places(invocation)
    if not places and (name in _HERE or _is_recursive_search(invocation)):
        yield ".", False
    for at in places:
        yield words[at].removeprefix("if=").removeprefix("of="), at in invocation.unknown
    for at, word in enumerate(words[1:], start=1):
        if word.startswith("--") and "/" in (value := word.partition("=")[2]):
            yield value, at in invocation.unknown


def _places(invocation: Invocation) -> list[int]:
    """Return the positions of the operands that are files."""
    words, name = invocation.words, invocation.name
    if name == "find":
        end = next((at for at, word in enumerate(words) if at and word.startswith(("-", "(", "!"))), len(words))
        return list(range(1, end))
    if name in _NETWORK and name != "rsync":
        return []
    places, valued = list[int](), _VALUED.get(name, frozenset())
    skips = 1 if name in _MODE_FIRST or (name == "tar" and words[1:] and words[1][:1] != "-") else 0
    expression = name in _EXPRESSION_FIRST
    at, ended = 1, False
    while at < len(words):
        word = words[at]
        if ended or not word.startswith("-") or word == "-":
            places.append(at)
        elif word == "--":
            ended = True
        elif word in valued:
            at += 1
        elif expression and _gives_expression(word):
            expression = False
            at += 1 if word in {"--regexp", "--expression"} or word[-1] == "e" else 0
        at += 1
    return places[skips + (1 if expression else 0) :]


def _gives_expression(option: str) -> bool:
    """Tell whether an option of `grep` or `sed` brings the expression: `-e`, `-ne`, `-fFILE`, `--regexp=x`."""
    if option.startswith("--"):
        return option.partition("=")[0] in {"--regexp", "--file", "--expression", "--from-file", "--files"}
    return "e" in option or "f" in option


def _is_recursive_search(invocation: Invocation) -> bool:
    return invocation.name in {"grep", "egrep", "fgrep"} and any(
        word in {"--recursive", "--dereference-recursive"}
        or (word.startswith("-") and not word.startswith("--") and ("r" in word or "R" in word))
        for word in invocation.words[1:]
    )


def edits_in_place(invocation: Invocation) -> bool:
    """Tell whether a command changes files in place."""
    return invocation.name in {"sed", "perl", "ruby"} and any(
        word.startswith(("-i", "--in-place")) or (word[:1] == "-" and word[:2] != "--" and "i" in word)
        for word in invocation.words[1:]
    )


def _is_pattern(word: str) -> bool:
    """Tell whether a word is only unknown because of `*`, `?` or `[`."""
    return any(sign in word for sign in "*?[") and not any(sign in word for sign in "$`~{(<")


def _looks_like_path(word: str, *, plain_words: bool) -> bool:
    if "://" in word or not word:
        return False
    if word.startswith(("/", "~", "../")) or word == ".." or "/../" in word:
        return True
    return "/" in word and not plain_words
