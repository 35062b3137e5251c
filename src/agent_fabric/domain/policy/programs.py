"""Programs that need no question in a box, and those that are part of bash."""

from agent_fabric.domain.commands.names import names

SHELL_BUILTINS = names(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown "
    "echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile "
    "popd printf pushd pwd read readarray readonly return set shift shopt source suspend test times trap true "
    "type typeset ulimit umask unalias unset wait"
)
"""Part of bash itself: always allowed, whatever the allowlist says."""

DEFAULT_ALLOWED_COMMANDS = (
    # files and text
    names(
        "awk base64 basename bc bzip2 cat chmod cksum cmp column comm cp csplit cut date dd df diff diff3 "
        "dirname du egrep expand expr fgrep file find fmt fold gawk getconf getopt grep groups gunzip gzip head "
        "hexdump hostname iconv id install join jq less link ln ls lsof m4 mawk md5sum mkdir mkfifo mktemp more "
        "mv nl nproc numfmt od paste patch pathchk pgrep pr printenv ps readlink realpath rev rg rm rmdir rsync "
        "sed seq sha1sum sha256sum sha512sum shuf sleep sort split stat strings sum sync tac tail tar tee touch "
        "tput tr tree truncate tsort tty uname unexpand uniq unlink unxz unzip uptime users uuidgen vdir wc "
        "which whoami xxd xz xzcat yes yq zcat zip zipinfo zstd"
    )
    # programs that start others; what they start is judged as well
    | names("bash dash env ionice nice nohup npx setsid sh stdbuf time timeout uvx xargs")
    # languages, build and test tools
    | names(
        "ar as bandit black bun cargo cc clang clang++ clang-format clang-tidy cmake coverage cpp ctest deno "
        "dotnet eslint flake8 g++ gcc gcov gdb git go gofmt gradle hatch isort java javac javap jest ld lua "
        "make meson mocha mvn mypy ninja nm node nox npm objdump pdm perl php pip pip3 pipenv pkg-config pnpm "
        "poetry pre-commit prettier pylint pyright pytest py.test python python2 python3 python3.11 python3.12 "
        "python3.13 python3.14 R Rscript rake ranlib readelf ruby ruff rustc rustfmt shellcheck sphinx-build "
        "sqlite3 strip tox tsc uv valgrind vitest yarn"
    )
)
"""Programs an agent may start unless the configuration says otherwise: nothing that talks to other machines."""

BECOMES_SOMEBODY_ELSE = names("doas pkexec runuser su sudo")

BOXES = frozenset({"A", "A+", "B"})
"""Levels of the sandbox with a wall around commands."""
