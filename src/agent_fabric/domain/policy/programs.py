"""Programs that need no question in a box, and those that are part of bash."""

from agent_fabric.domain.policy.command_lines.names import names

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
        "7z arch awk b2sum base32 base64 basename bat bc brotli bzcat bzip2 cal cat chmod cksum cmp column comm cp "
        "cpio csplit cut date dd df diff diff3 dirname dos2unix du ed egrep envsubst expand expr factor false fd fgrep "
        "file find fmt fold free gawk getconf getopt grep groups gunzip gzip head hexdump hostid hostname iconv id "
        "install join jq less link ln logname look ls lsblk lscpu lsof lz4 m4 mawk md5sum mkdir mkfifo mktemp more mv "
        "nl nproc numfmt od paste patch pathchk pgrep pidof pr printenv printf ps pv readlink realpath rev rg rm "
        "rmdir rsync sdiff sed seq sha1sum sha224sum sha256sum sha384sum sha512sum shasum shuf sleep sort split "
        "sponge stat strings sum sync tac tail tar tee test touch tput tr tree true truncate tsort tty uname unexpand "
        "uniq unix2dos unlink unxz unzip uptime users uuidgen vdir vmstat w wc which who whoami xxd xz xzcat yes yq "
        "zcat zdiff zgrep zip zipinfo zless zstd zstdcat"
    )
    # programs that start others; what they start is judged as well
    | names("bash dash env ionice nice nohup npx setsid sh stdbuf time timeout uvx xargs")
    # languages, build and test tools
    | names(
        "ar as astyle autoconf autom4te automake autopep8 autoreconf bandit bats bazel bison black bun bundle cabal "
        "cargo cc ccache clang clang++ clang-check clang-format clang-tidy cmake codespell composer convert coverage "
        "cpp cppcheck csc ctags ctest dart deno dot dotnet dune elixir erl esbuild eslint exiftool ffmpeg flake8 flex "
        "flutter g++ gcc gcov gdb gettext ghc git go gofmt golangci-lint gradle hadolint hatch identify indent "
        "ipython isort jar java javac javadoc javap jest julia kotlin kotlinc lcov ld lessc libtool lua magick make "
        "markdownlint meson mix mlr mocha msgfmt mvn mypy ninja nm node nox npm nx objdump ocaml opam pandoc "
        "pdftotext pdm perl php phpunit pip pip3 pipenv pkg-config pnpm poetry pre-commit prettier protoc py.test "
        "pycodestyle pydocstyle pyflakes pylint pyproject-build pyright pytest python python2 python3 python3.11 "
        "python3.12 python3.13 python3.14 qpdf R radon rake ranlib readelf rebar3 rollup Rscript rspec rubocop ruby "
        "ruff rustc rustfmt sass sbt scala sccache scons shellcheck shfmt sphinx-build sqlfluff sqlite3 stack "
        "staticcheck strip swift swiftc swig tidy tox ts-node tsc tsx turbo uv vale valgrind vite vitest vulture "
        "webpack xmllint xsltproc yacc yamllint yapf yarn zig"
    )
)
"""Programs an agent may start unless the configuration says otherwise: nothing that talks to other machines."""

BECOMES_SOMEBODY_ELSE = names("doas pkexec runuser su sudo")

BOXES = frozenset({"A", "A+", "B"})
"""Levels of the sandbox with a wall around commands."""
