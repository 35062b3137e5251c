"""Variables that make other programs run something, or change what a command line means.

`export PAGER=./x; git log` runs `./x`. So a command that sets one of them is not only what it looks like.
"""

import re
from itertools import chain

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.words import assignments

_POISONOUS = names(
    "BASH_ENV BASHOPTS BROWSER CARGO_BUILD_RUSTC_WRAPPER CDPATH DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH EDITOR ENV "
    "EXECIGNORE FCEDIT FPATH GCONV_PATH GIO_EXTRA_MODULES GLOBIGNORE HISTFILE IFS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS "
    "LESSCLOSE LESSOPEN LOCPATH MAKEFILES MAKEFLAGS MANPAGER MANPATH NODE_OPTIONS PAGER PERL5DB PERL5LIB PERL5OPT PS0 "
    "PROMPT_COMMAND PS1 PS2 PS3 PS4 PYTHONBREAKPOINT PYTHONHOME PYTHONINSPECT PYTHONSTARTUP PYTHONWARNINGS "
    "RIPGREP_CONFIG_PATH RSYNC_RSH RUBYLIB RUBYOPT RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER SHELL SHELLOPTS SSH_ASKPASS "
    "SUDO_ASKPASS SYSTEMD_PAGER TAR_OPTIONS VISUAL XDG_CONFIG_HOME ZDOTDIR http_proxy https_proxy HTTP_PROXY "
    "HTTPS_PROXY ALL_PROXY all_proxy BASH_CMDS BASH_ALIASES HOME BASH_FUNC PSModulePath"
)
_POISONOUS_STARTS = ("LD_", "GIT_", "BASH_FUNC_", "DYLD_", "NPM_CONFIG_", "npm_config_", "PIP_", "UV_", "CARGO_TARGET_")
_HARMLESS = names(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE "
    "GIT_TERMINAL_PROMPT GIT_PAGER_IN_USE GIT_OPTIONAL_LOCKS LD_LIBRARY_PATH PIP_DISABLE_PIP_VERSION_CHECK "
    "PIP_NO_INPUT PIP_NO_CACHE_DIR PIP_QUIET UV_OFFLINE UV_NO_CACHE UV_LINK_MODE UV_CACHE_DIR"
)
_QUIET_PATH = re.compile(
    r"(?:\$\{?(?:PATH|PWD|HOME|VIRTUAL_ENV)\}?|\$\(pwd\)|\.|~|/usr|/bin|/sbin|[A-Za-z0-9_][A-Za-z0-9_.-]*)"
    r"(?:/[A-Za-z0-9_.@+-]+)*/?"
)
_SETTERS = re.compile(
    r"\b(?:for|select|read|readarray|mapfile|getopts|let|printf\s+-v|wait\s+-\w*p)\b|\(\(|\$\[|\[\[|\{[A-Za-z_]\w*\}[<>]"
)
_BARE_NAME = re.compile(r"(?<![\w$/.-])(?<!\$\{)([A-Za-z_]\w*)(?![\w/.-])")
_KEYWORD_MODE = re.compile(r"\bset\s+(?:-\w*k|-o\s+keyword)")
_GIVES_NAMES = names("alias enable hash unalias")
_SET_BY_SYNTAX = re.compile(
    r"\b(?:for|select|coproc)\s+(?P<loop>[A-Za-z_]\w*)|\{(?P<stream>[A-Za-z_]\w*)\}[<>]"
    r"|\$\{(?P<other>[A-Za-z_]\w*)(?:\[\w*\])?:?="
)
_TELLS_NOTHING = re.compile(r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|[a-z_][a-z0-9_]*")
"""Variables that change at most how a program prints, and those that scripts use themselves."""


def changes_programs(invocation: Invocation) -> bool:
    """Tell whether a command changes what the name of a program means, or sets a variable that programs may obey."""
    if invocation.defines or invocation.name in _GIVES_NAMES:
        return True
    return not all(_TELLS_NOTHING.fullmatch(name) for name, _ in assignments(invocation))


def changes_variables(line: str) -> bool:
    """Tell whether a line sets a variable that programs may obey without an assignment: `for TF_CLI_ARGS in x`."""
    line = line.replace("\\\n", "")
    named = (match[match.lastgroup or 0] for match in _SET_BY_SYNTAX.finditer(line))
    worked_out = _BARE_NAME.findall(line, line.find("(("), line.rfind("))")) if "((" in line else ()
    return not all(_TELLS_NOTHING.fullmatch(name) for name in chain(named, worked_out))


def poisoned_variable(invocation: Invocation) -> str:
    """Return the variable that a command sets and that could make others run something; empty if there is none."""
    return next((name for name, value in assignments(invocation) if _is_poisonous(name, value)), "")


def set_otherwise(line: str) -> str:
    """Return a variable that a line may set without an assignment and that could make programs run something.

    Loops, arithmetic, conditions, redirects and builtins set variables, too: `for PATH in .; do ls; done`.
    """
    if _KEYWORD_MODE.search(line):
        return "variables by `set -k`"
    if not _SETTERS.search(line):
        return ""
    found = (match[1] for match in _BARE_NAME.finditer(line))
    return next((name for name in found if name == "PATH" or _is_poisonous(name, None)), "")


def _is_poisonous(name: str, value: str | None) -> bool:
    if name == "PATH":
        return value is None or not all(
            _QUIET_PATH.fullmatch(part) and ".." not in part.split("/") for part in value.split(":") if part
        )
    if name == "IFS":
        # What it is usually set to, to read lines.
        return value not in {"", "\n", ",", ":", "\t", "$'\\n'", None}
    if value == "" and name not in {"IFS", "ENV", "HOME"}:
        # Emptied, or only marked: `GIT_PAGER= git log`, `export PAGER`.
        return False
    return name in _POISONOUS or (name.startswith(_POISONOUS_STARTS) and name not in _HARMLESS)
