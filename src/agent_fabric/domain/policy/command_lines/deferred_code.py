"""Builtins and variables that make bash run something that does not look like a command.

`x='a[$(y)]'; unset "$x"` runs `y`, `PS4='$(y)'` does so with `set -x`, `hash -p y ls` gives `y` the name `ls`.
"""

import re

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.variables import assignments
from agent_fabric.domain.policy.command_lines.words import holds_code

_READ_BY_BASH = names(
    "BASH_ALIASES BASH_CMDS BASH_ENV BASHOPTS ENV EXECIGNORE FIGNORE FUNCNEST PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 "
    "POSIXLY_CORRECT SHELLOPTS"
)
"""Variables that bash itself takes commands or rules from."""
_TAKES_INDEX = names(
    "[ declare export getopts let local mapfile printf read readarray readonly test typeset unset wait"
)
"""Builtins that work out the index in a name such as `a[$(x)]`."""
_INDEX_SIGNS = re.compile(r"\[|\]|\$[\\'\"]*\(|`")
_LETTERS = {"hash": "p", "enable": "f", "compgen": "CFW", "mapfile": "C", "readarray": "C"}
_ALWAYS = frozenset({"bind", "complete", "compopt", "fc", "history"})


def runs_later(invocation: Invocation) -> str:
    """Say what a command makes bash run although it does not look like it; empty if there is nothing of the kind."""
    for variable, _ in assignments(invocation):
        if variable in _READ_BY_BASH:
            return f"what bash does with {variable}"
    name, words = invocation.name, invocation.words
    letters = _LETTERS.get(name, "")
    if letters and any(_has(word, letters) for word in words[1:]):
        return f"what {name} runs"
    if name in _ALWAYS and len(words) > 1:
        return f"what {name} runs"
    if name in {"compgen", "hash", "enable"} and invocation.unknown:
        return f"what {name} runs"
    if name in _TAKES_INDEX:
        texts = [*words, *(redirect.target for redirect in invocation.redirects if redirect.operator.startswith("<<"))]
        if any(map(_holds_index, texts)):
            return f"the index that {name} works out"
        if name in {"test", "["} and "-v" in words and invocation.unknown:
            return f"the index that {name} works out"
    if name == "read" and any(holds_code(r.target) for r in invocation.redirects if not r.unknown):
        return "what is made of the text that read is given"
    return ""


def _holds_index(text: str) -> bool:
    """Tell whether a substitution stands between brackets."""
    opened = False
    for sign in _INDEX_SIGNS.finditer(text):
        if sign[0] in "[]":
            opened = sign[0] == "["
        elif opened:
            return True
    return False


def _has(word: str, letters: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and any(letter in word for letter in letters)
